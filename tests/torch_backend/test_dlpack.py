"""DLPack both ways: simacc tensors as extension-device tensors, the host's view of their bytes, and a C consumer."""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.dlpack import DLDeviceType, to_dlpack

from simdevice.torch_backend import patches
from simdevice.torch_backend.process import PROCESS

EXTENSION, CPU = DLDeviceType.kDLExtDev, DLDeviceType.kDLCPU


def names(rec) -> list[str]:
    return [op.name for op in rec.trace.ops]


@pytest.fixture
def x():
    return torch.arange(6.0).reshape(2, 3).to("simacc")


def test_a_tensor_names_its_device(x):
    assert x.__dlpack_device__() == (EXTENSION, 0)
    assert x.cpu().__dlpack_device__() == (CPU, 0)


@pytest.mark.parametrize("device", [None, "simacc", "simacc:0", torch.device("simacc")], ids=str)
@pytest.mark.parametrize("copy", [None, False])
def test_from_dlpack_shares(x, device, copy):
    with torch.simacc.record() as rec:
        y = torch.from_dlpack(x, device=device, copy=copy)
        z = x + 1
        w = y + 1
    assert (y.device, y.data_ptr(), y.shape, y.stride()) == (x.device, x.data_ptr(), x.shape, x.stride())
    y[0, 0] = 7
    assert x[0, 0].item() == 7
    assert torch.equal(z, w)
    first, second = (op for op in rec.trace.ops if op.name == "aten.add")
    assert first.inputs[0].id == second.inputs[0].id >= 0  # a trace knows that it is one storage
    assert not y.requires_grad
    assert y._version == 1  # its own counter: x was written as often before
    x.zero_()
    assert y._version == 1


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3)])
@pytest.mark.parametrize("stream", [None, -1, 0, 5])
def test_capsules_go_round(x, version, stream):
    y = torch.from_dlpack(x.__dlpack__(max_version=version, stream=stream))
    assert (y.device, y.data_ptr()) == (x.device, x.data_ptr())
    y.mul_(2)
    assert x.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert torch.equal((y @ y.T).cpu(), x.cpu() @ x.cpu().T)
    assert torch.equal(torch.from_dlpack(to_dlpack(x)).cpu(), x.cpu())
    with pytest.raises(RuntimeError, match="not resizable"):
        y.resize_(100)


def test_copies_are_asked_for(x):
    for y in (
        torch.from_dlpack(x, copy=True),
        torch.from_dlpack(x, device="simacc", copy=True),
        torch.from_dlpack(x.__dlpack__(copy=True)),
        torch.from_dlpack(x, device="cpu", copy=True),
        torch.from_dlpack(x.__dlpack__(dl_device=(CPU, 0), copy=True)),
    ):
        assert y.data_ptr() != x.data_ptr()
        assert torch.equal(y.cpu(), x.cpu())


@pytest.mark.parametrize("of_host", [np.arange(6.0), torch.arange(6.0)], ids=["numpy", "torch"])
def test_from_a_host_producer(of_host):
    y = torch.from_dlpack(of_host, device="simacc")
    assert y.device == torch.device("simacc:0")
    assert y.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match=r", 0\) to \(12, 0\) without copying"):
        torch.from_dlpack(of_host, device="simacc", copy=False)
    exported = torch.arange(3.0).__dlpack__(dl_device=(EXTENSION, 0))
    assert torch.from_dlpack(exported).device == torch.device("simacc:0")


def views(x) -> list:
    return [
        torch.from_dlpack(x, device="cpu"),
        torch.from_dlpack(x, device="cpu", copy=False),
        torch.from_dlpack(x.__dlpack__(dl_device=(CPU, 0))),
        torch.from_dlpack(x.__dlpack__(dl_device=(CPU, 0), max_version=(1, 0), stream=3, copy=False)),
        torch.from_numpy(np.from_dlpack(torch.from_dlpack(x, device="cpu"))),
        torch.from_numpy(np.from_dlpack(x, device="cpu")),
        torch.from_numpy(np.from_dlpack(x, device="cpu", copy=False)),
    ]


def test_the_hosts_view_has_the_same_bytes(x):
    for number, view in enumerate(views(x)):
        assert (view.device.type, view.data_ptr(), view.shape, view.stride()) == (
            "cpu",
            x.data_ptr(),
            x.shape,
            x.stride(),
        )
        view[1, 1] = number
        assert x[1, 1].item() == number
        x.fill_(number + 0.5)
        assert view.tolist() == [[number + 0.5] * 3] * 2


def test_the_hosts_view_of_a_view(x):
    part = x.t()[1:]
    view = torch.from_dlpack(part, device="cpu")
    assert (view.shape, view.stride()) == (part.shape, part.stride())
    assert view.tolist() == [[1, 4], [2, 5]]
    assert torch.from_dlpack(torch.empty(0, 3, device="simacc"), device="cpu").shape == (0, 3)


def test_numpy_takes_no_extension_device(x):
    with pytest.raises(RuntimeError, match="Unsupported device"):
        np.from_dlpack(x)


def test_the_hosts_view_waits_and_copies_nothing(x):
    torch.simacc.configure("h100", launch_overhead_s=0)
    with torch.simacc.record() as rec:
        y = x @ x.T
        torch.from_dlpack(y, device="cpu")
        x.relu()
    product = names(rec).index("aten.mm")
    assert names(rec)[product:] == ["aten.mm", "simacc.synchronize", "aten.relu", "simacc.synchronize"]
    assert PROCESS.device.run(rec.trace) == rec.run


def test_a_view_keeps_the_storage():
    gc.collect()
    before = torch.simacc.memory_allocated()
    x = torch.ones(1000, device="simacc")
    view = torch.from_dlpack(x, device="cpu")
    array = np.from_dlpack(torch.from_dlpack(x, device="cpu"))
    del x
    gc.collect()
    assert torch.simacc.memory_allocated() == before + 4000  # still the device's
    assert view.sum() == array.sum() == 1000
    del view
    assert torch.simacc.memory_allocated() == before + 4000
    del array
    assert torch.simacc.memory_allocated() == before
    y = torch.ones(1000, device="simacc")
    unused = y.__dlpack__(dl_device=(CPU, 0))
    del unused, y
    assert torch.simacc.memory_allocated() == before
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.from_dlpack(torch.ones(3, device="simacc"), device="cpu").resize_(9)


@pytest.mark.parametrize("device", [None, "simacc", "cpu"])
def test_what_a_capsule_cannot_say_is_refused(device):
    needs_gradient = torch.ones(2, device="simacc", requires_grad=True)
    conjugate = torch.ones(2, dtype=torch.complex64, device="simacc").conj()
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(needs_gradient, device=device)
    with pytest.raises(BufferError, match="conjugate"):
        torch.from_dlpack(conjugate, device=device)
    assert torch.from_dlpack(needs_gradient.detach(), device=device).tolist() == [1, 1]


@pytest.mark.parametrize("target", [None, (EXTENSION, 0), (CPU, 0)])
def test_a_stream_is_a_number(x, target):
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream="default", dl_device=target)


def test_subclasses_and_cpu_tensors_go_pytorchs_way(x):
    class Named(torch.Tensor):
        pass

    named = x.as_subclass(Named)
    assert named.__dlpack_device__() == (EXTENSION, 0)
    assert torch.from_dlpack(named).data_ptr() == x.data_ptr()
    host = torch.arange(3.0)
    assert torch.from_dlpack(host, device="cpu").data_ptr() == host.data_ptr()
    assert torch.from_dlpack(host.pin_memory(), device="simacc").tolist() == [0, 1, 2]
    with pytest.raises(AssertionError, match="unsupported device type"):
        torch.from_dlpack(x, device=0)


def test_these_are_patches_and_can_be_undone(x):
    patches.undo()
    try:
        with pytest.raises(ValueError, match="Unknown device type simacc"):
            x.__dlpack_device__()
        assert torch.from_dlpack(x.__dlpack__(dl_device=(CPU, 0))).data_ptr() != x.data_ptr()
    finally:
        patches.install()


def test_each_device_has_its_number():
    torch.simacc.configure("h100", devices=2)
    x = torch.arange(3.0).to("simacc:1")
    assert x.__dlpack_device__() == (EXTENSION, 1)
    for y in (
        torch.from_dlpack(x),
        torch.from_dlpack(x.__dlpack__()),
        torch.from_dlpack(x, device="simacc:1", copy=False),
    ):
        assert (y.device, y.data_ptr()) == (x.device, x.data_ptr())
        assert (y + 1).tolist() == [1, 2, 3]
    with torch.simacc.device(1):
        assert torch.from_dlpack(x, device="simacc", copy=False).device == x.device
    moved = torch.from_dlpack(x, device="simacc")  # the current one
    assert (moved.device, moved.tolist()) == (torch.device("simacc:0"), [0, 1, 2])
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(x, device="simacc:0", copy=False)
    assert torch.from_dlpack(x, device="cpu").data_ptr() == x.data_ptr()


# --- the C exchange table


class Seen(ctypes.Structure):
    """As in dlpack_consumer.c."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("version", "device_type", "device_id", "ndim")),
        *((name, ctypes.c_int64) for name in ("bits", "lanes", "code", "bytes_offset")),
        ("shape", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
        ("data", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


@pytest.fixture(scope="module")
def consumer(tmp_path_factory):
    """The library, and PyTorch's table for it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler: install one (Debian: apt install gcc)")
    library = tmp_path_factory.mktemp("dlpack") / "consumer.so"
    headers = Path(torch.__file__).parent / "include"
    source = Path(__file__).with_name("dlpack_consumer.c")
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-isystem{headers}"]
    subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
    loaded = ctypes.PyDLL(str(library))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")

    def call(name: str, *arguments) -> int:
        return getattr(loaded, name)(ctypes.c_void_p(table), *arguments)

    return call


def back_from(consumer, name: str, tensor) -> torch.Tensor:
    out = ctypes.c_void_p()
    assert consumer(name, ctypes.py_object(tensor), ctypes.byref(out)) == 0
    reference = ctypes.cast(out, ctypes.py_object)  # its reference is ours now
    value = reference.value
    ctypes.pythonapi.Py_DecRef(reference)
    return value


def test_a_c_consumer_sees_a_tensor(consumer, x):
    part, seen = x[:, 1:], Seen()
    assert consumer("look", ctypes.py_object(part), ctypes.byref(seen)) == 0
    assert (seen.version, seen.device_type, seen.device_id) == (1, EXTENSION, 0)
    assert (seen.ndim, list(seen.shape[:2]), list(seen.strides[:2])) == (2, [2, 2], [3, 1])
    assert (seen.code, seen.bits, seen.lanes) == (2, 32, 1)  # kDLFloat
    assert seen.stream is None
    assert seen.data + seen.bytes_offset == part.data_ptr() == x.data_ptr() + 4


def test_a_c_consumer_writes_and_gives_back(consumer, x):
    y = back_from(consumer, "doubled", x)
    assert (y.device, y.data_ptr()) == (x.device, x.data_ptr())
    assert x.tolist() == y.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert (y + 1).tolist() == [[1, 3, 5], [7, 9, 11]]


def test_a_c_consumer_keeps_the_storage_and_lets_go(consumer):
    gc.collect()
    before = torch.simacc.memory_allocated()
    x = torch.ones(1000, device="simacc")
    assert consumer("dropped", ctypes.py_object(x)) == 0
    y = back_from(consumer, "doubled", x)
    del x
    assert torch.simacc.memory_allocated() == before + 4000
    assert y.sum().item() == 2000
    del y
    assert torch.simacc.memory_allocated() == before


def test_a_c_consumer_allocates_on_the_device(consumer, x):
    before = torch.simacc.memory_allocated()
    y = back_from(consumer, "like", x)
    assert (y.device, y.shape, y.dtype) == (x.device, (2, 3), torch.float32)
    assert torch.simacc.memory_allocated() == before + 24
    assert y.copy_(x).tolist() == x.tolist()


EXTENSION_PROGRAM = """
import torch
before = torch.Tensor.__dlpack_c_exchange_api__
import torch_c_dlpack_ext
assert torch.Tensor.__dlpack_c_exchange_api__ is before
assert not any("libtorch_c_dlpack_addon" in line for line in open("/proc/self/maps"))
assert torch.from_dlpack(torch.ones(2, device="simacc")).tolist() == [1, 1]
"""


def test_torch_c_dlpack_ext_has_nothing_to_do():
    pytest.importorskip("torch_c_dlpack_ext", reason="torch-c-dlpack-ext is missing: pip install 'simdevice[dlpack]'")
    subprocess.run([sys.executable, "-W", "error", "-c", EXTENSION_PROGRAM], check=True)
