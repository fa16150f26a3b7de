"""What code written for CUDA calls: each of torch.cuda's functions is there, or says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from simdevice.devices import get
from simdevice.torch_backend import cuda_names

PAGE = Path(__file__).parents[2] / "docs" / "torch_cuda.md"
PUBLIC = cuda_names.public_functions(torch.cuda)


def test_all_of_them_are_looked_at():
    # torch 2.13.0: 75 functions and 11 classes beside those of element types
    assert len(PUBLIC) == 86
    assert set(cuda_names.NOT_THERE) < set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_is_there_or_has_a_reason(name):
    if reason := cuda_names.NOT_THERE.get(name):
        with pytest.raises(AttributeError) as refused:
            getattr(torch.simacc, name)
        assert str(refused.value) == f"torch.simacc has no {name}: {reason}"
        assert not hasattr(torch.simacc, name)
    else:
        assert callable(getattr(torch.simacc, name))
        assert name in torch.simacc.__all__


def test_the_page_is_what_the_table_says():
    assert PAGE.read_text() == cuda_names.table(), (
        "run: python -m simdevice.torch_backend.cuda_names > docs/torch_cuda.md"
    )


CORE = ("allocation", "segment", "active", "inactive_split")
BYTES = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes")
COUNTERS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")


def test_memory_statistics_have_cudas_keys():
    # As torch.cuda.memory_stats documents them; its "allocated" is the key "allocation" of the allocator's own.
    pools, metrics = ("all", "large_pool", "small_pool"), ("current", "peak", "allocated", "freed")
    expected = {f"{stat}.{pool}.{metric}" for stat in (*CORE, *BYTES) for pool in pools for metric in metrics}
    expected |= {f"oversize_{what}.{metric}" for what in ("allocations", "segments") for metric in metrics}
    expected |= {*COUNTERS, "num_oom_rejections", "max_split_size"}
    stats = torch.simacc.memory_stats()
    assert expected <= set(stats)
    assert all(isinstance(value, int) for value in stats.values())
    nested = torch.simacc.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == stats["allocated_bytes.all.current"]


def test_memory_numbers():
    before = torch.simacc.memory_stats()
    x = torch.ones(1000, device="simacc")
    now = torch.simacc.memory_stats()
    for key in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
        assert now[f"{key}.all.current"] - before[f"{key}.all.current"] == 4000
    assert now["allocation.all.current"] - before["allocation.all.current"] == 1
    held = torch.simacc.memory_allocated()
    assert held == torch.simacc.memory_reserved() == torch.simacc.device_memory_used()
    assert torch.simacc.max_memory_reserved() == torch.simacc.max_memory_allocated()
    del x
    torch.simacc.reset_accumulated_memory_stats()
    assert torch.simacc.memory_stats()["allocated_bytes.all.freed"] == 0


def test_out_of_memory_is_counted_and_a_fraction_of_it_can_be_had():
    torch.simacc.configure("h100", memory_capacity_bytes="1 MB")
    torch.simacc.reset_accumulated_memory_stats()
    assert torch.simacc.get_per_process_memory_fraction() == 1.0
    torch.simacc.set_per_process_memory_fraction(0.5)
    assert torch.simacc.get_per_process_memory_fraction() == 0.5
    with pytest.raises(torch.OutOfMemoryError, match="of the 500000 bytes of device h100"):
        torch.ones(150_000, device="simacc")  # 600,000 bytes
    assert torch.simacc.memory_stats()["num_ooms"] == 1
    with pytest.raises(ValueError, match=r"expected a fraction of memory from 0 to 1, got 1\.5"):
        torch.simacc.set_per_process_memory_fraction(1.5)
    with pytest.raises(TypeError, match="as a float, got str"):
        torch.simacc.set_per_process_memory_fraction("half")


def test_a_summary_for_people():
    torch.simacc.configure("h100")
    x = torch.ones(250_000, device="simacc")
    text = torch.simacc.memory_summary()
    assert text.splitlines()[0] == "simacc:0 h100: 80 GB, nothing is cached"
    assert "allocated memory" in text
    assert len(torch.simacc.memory_summary(abbreviated=True)) < len(text)
    del x


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("memory_cached", "memory_reserved"),
        ("max_memory_cached", "max_memory_reserved"),
        ("reset_max_memory_allocated", "reset_peak_memory_stats"),
        ("reset_max_memory_cached", "reset_peak_memory_stats"),
    ],
)
def test_older_names_work_and_say_the_newer(older, newer):
    with pytest.warns(FutureWarning, match=f"^torch.simacc.{older} is deprecated: use torch.simacc.{newer}$"):
        assert getattr(torch.simacc, older)() == getattr(torch.simacc, newer)()


def test_what_a_device_says_of_itself():
    torch.simacc.configure("edge-npu")
    properties = torch.simacc.get_device_properties("simacc:0")
    assert (properties.name, properties.total_memory) == ("edge-npu", 8 << 30)
    assert properties.spec == get("edge-npu").spec
    assert torch.simacc.get_device_capability() >= (8, 0)
    assert torch.simacc.is_bf16_supported()
    assert torch.bfloat16 in torch.accelerator.get_device_capability()["supported_dtypes"]
    assert not torch.simacc.can_device_access_peer(0, 0)
    with pytest.raises(RuntimeError, match="below 1, got 1"):
        torch.simacc.get_device_properties(1)


def test_generators_all_at_once():
    torch.simacc.configure("h100", devices=2)
    torch.simacc.seed_all()
    states = torch.simacc.get_rng_state_all()
    first = [torch.rand(2, device=f"simacc:{i}").cpu() for i in range(2)]
    torch.simacc.set_rng_state_all(states)
    again = [torch.rand(2, device=f"simacc:{i}").cpu() for i in range(2)]
    assert [t.tolist() for t in first] == [t.tolist() for t in again]
    assert first[0].tolist() == first[1].tolist()  # one number for all, as on CUDA
    torch.simacc.configure(devices=1)


def test_device_of_a_tensor():
    torch.simacc.configure("h100", devices=2)
    with torch.simacc.device_of(torch.ones(1, device="simacc:1")):
        assert torch.simacc.current_device() == 1
    with torch.simacc.device_of(torch.ones(1)):
        assert torch.simacc.current_device() == 0
    torch.simacc.configure(devices=1)


def test_dynamo_knows_the_device():
    from torch._dynamo.device_interface import get_interface_for_device

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * torch.ones(1, device=x.device)

    x = torch.arange(3.0, device="simacc")
    assert torch.compile(scaled, backend="eager")(x).tolist() == [0, 1, 2]
    interface = get_interface_for_device("simacc:0")
    assert interface is get_interface_for_device(torch.device("simacc"))
    assert (interface.current_device(), interface.device_count(), interface.is_available()) == (0, 1, True)
    assert interface.get_device_properties(0).name == "h100"
    assert interface.get_compute_capability() == (9, 0)
    assert interface.maybe_exchange_device(-1) == interface.exchange_device(0) == 0
    assert interface.get_raw_stream(0) == torch.simacc.current_stream().stream_id
    assert not interface.is_triton_capable()


def test_compiled_code_may_use_streams_and_devices():
    def on_a_stream(x: torch.Tensor) -> torch.Tensor:
        stream = torch.Stream(device="simacc")
        with stream:
            return x + 1

    assert torch.compile(on_a_stream, backend="simacc")(torch.ones(2, device="simacc")).tolist() == [2, 2]


def test_distributed_is_refused_and_one_rank_fully_shard_works(tmp_path):
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        model = torch.nn.Linear(4, 2)
        fully_shard(model)
        assert model(torch.ones(1, 4)).shape == (1, 2)
        with pytest.raises((RuntimeError, NotImplementedError), match=r"(?i)simacc|privateuse|backend"):
            dist.all_reduce(torch.ones(2, device="simacc"))
    finally:
        dist.destroy_process_group()
