"""What the device refuses: one message each, whichever kernel says it; and device indices."""

from __future__ import annotations

import pytest
import torch

F = torch.nn.functional


@pytest.fixture
def x() -> torch.Tensor:
    return torch.ones(2, 2, device="simacc")


HOST = torch.ones(2, 2)
OTHERS = {
    # a typed kernel, in place too; a boxed one, of a list too; one written by hand
    "other in method aten.add": lambda x: x + HOST,
    "other in method aten.add_": lambda x: x.add_(HOST),
    "self in method aten.mul_": lambda x: torch.ones(()).mul_(x[0, 0]),
    "weight in method aten.native_layer_norm": lambda x: F.layer_norm(x, (2,), HOST[0]),
    "other in method aten.hypot": lambda x: x.hypot(HOST),
    "tensors in method aten.cat": lambda x: torch.cat([x, HOST]),
    "cx in method aten._thnn_fused_lstm_cell": lambda x: torch.ops.aten._thnn_fused_lstm_cell(x, x, HOST),
}


@pytest.mark.parametrize("argument", OTHERS)
def test_tensors_of_another_device_are_refused_in_one_way(x, argument):
    with pytest.raises(RuntimeError) as refused:
        OTHERS[argument](x)
    assert str(refused.value).splitlines()[0] == (
        "Expected all tensors to be on the same device, but found at least two devices, simacc:0 and cpu! "
        f"(when checking argument for argument {argument})"
    )


KINDS = {
    ("sparse", "aten._sparse_coo_tensor_with_dims_and_tensors"): lambda x: torch.sparse_coo_tensor(
        torch.zeros(1, 1, dtype=torch.long, device="simacc"), x[0, :1], (2,)
    ),
    ("sparse", "aten._to_sparse"): lambda x: x.to_sparse(),
    ("sparse", "aten._to_sparse_csr"): lambda x: x.to_sparse_csr(),
    ("sparse", "aten._to_sparse_bsr"): lambda x: x.to_sparse_bsr((1, 1)),
    ("sparse", "aten.empty"): lambda x: torch.empty(2, 2, layout=torch.sparse_csr, device="simacc"),
    ("sparse", "aten.sparse_compressed_tensor"): lambda x: torch.sparse_csr_tensor(
        torch.tensor([0, 1], device="simacc"), torch.tensor([0], device="simacc"), x[0, :1], (1, 2)
    ),
    ("sparse", "aten._sparse_coo_tensor_with_dims_and_tensors "): lambda x: HOST.to_sparse().to("simacc"),
    ("sparse", "aten._copy_from"): lambda x: x.copy_(HOST.to_sparse()),
    ("quantized", "aten.quantize_per_tensor"): lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    ("quantized", "aten.empty"): lambda x: torch.empty(2, dtype=torch.qint8, device="simacc"),
    ("quantized", "aten.empty_quantized"): lambda x: torch.quantize_per_tensor(HOST, 0.1, 0, torch.qint8).to("simacc"),
    ("quantized", "aten._empty_affine_quantized"): lambda x: torch._empty_affine_quantized(
        (2,), scale=1, zero_point=0, dtype=torch.qint8, device="simacc"
    ),
    ("oneDNN", "aten.to_mkldnn"): lambda x: x.to_mkldnn(),
}


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:Sparse (CSR|BSR) tensor support")
@pytest.mark.parametrize(("kind", "op"), KINDS)
def test_kinds_of_tensors_that_are_not_there_are_refused_in_one_way(x, kind, op):
    with pytest.raises(NotImplementedError) as refused:
        KINDS[kind, op](x)
    assert str(refused.value).splitlines()[0] == (
        f"simacc has no {kind} tensors, which '{op.strip()}' makes or takes; "
        "run this part on the CPU (.cpu()) and move the dense result back"
    )


def test_an_operator_without_a_cpu_kernel_is_refused(x):
    library = torch.library.Library("refusals", "DEF")
    library.define("nothing(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError) as refused:
        torch.ops.refusals.nothing(x)
    assert str(refused.value).splitlines()[0] == (
        "Could not run 'refusals::nothing' on the 'simacc' device: it has no CPU kernel to compute with"
    )


INDICES = {
    "a factory": lambda: torch.empty(2, device="simacc:1"),
    "a strided factory": lambda: torch.empty_strided((2,), (1,), device="simacc:1"),
    "a copy": lambda: torch.ones(2).to("simacc:1"),
    "a copy of a simacc tensor": lambda: torch.ones(2, device="simacc").to("simacc:1"),
    "a module": lambda: torch.nn.Linear(2, 2).to("simacc").to("simacc:1"),
    "a kernel that makes its result": lambda: torch.tril_indices(2, 2, device="simacc:1"),
    "a generator": lambda: torch.Generator(device="simacc:1"),
    "the accelerator": lambda: torch.accelerator.set_device_index(1),
    "the module": lambda: torch.simacc.set_device(1),
    "the module's guard": lambda: torch.simacc.device("simacc:1").__enter__(),
    "a stream": lambda: torch.simacc.current_stream(1),
    "a new stream": lambda: torch.Stream(device="simacc:1"),
    "the accelerator's memory": lambda: torch.accelerator.memory_allocated(1),
    "the accelerator's queue": lambda: torch.accelerator.synchronize(1),
    "memory": lambda: torch.simacc.memory_allocated("simacc:1"),
}


@pytest.mark.parametrize("what", INDICES)
def test_an_index_that_no_device_has_is_refused_in_one_way(what):
    with pytest.raises(RuntimeError) as refused:
        INDICES[what]()
    assert str(refused.value).splitlines()[0] == (
        "expected a simacc device index below 1, got 1; torch.simacc.configure(devices=2) makes as many"
    )


def test_a_device_without_an_index_is_the_threads_own(x):
    assert torch.simacc.device_count() == torch.accelerator.device_count() == 1
    assert torch.simacc.current_device() == torch.accelerator.current_device_index() == 0
    with torch.simacc.device("simacc"), torch.simacc.device(0):
        torch.simacc.set_device(None)
        assert torch.empty(1, device="simacc").device == x.device == torch.device("simacc", 0)
    assert [g.device for g in torch.simacc.default_generators] == [torch.device("simacc", 0)]
