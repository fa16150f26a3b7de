"""Programs that never name simacc. Run as a script with a program's name; test_installed_only.py compares what they
print with simacc installed, in every state of its build, and without it."""

from __future__ import annotations

import copy
import io
import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

PROGRAMS: dict[str, Callable[[], None]] = {}


def program(function: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS[function.__name__] = function
    return function


def show(*values: object) -> None:
    """Floats to the last bit."""
    for value in values:
        if isinstance(value, torch.Tensor):
            print(
                tuple(value.shape), value.dtype, value.device, value.detach().double().flatten()[:4].tolist(), end=" "
            )
        else:
            print(value, end=" ")
    print(flush=True)


def said(call: Callable[[], object]) -> None:
    """What a call gives, or what it raises."""
    try:
        print(call(), flush=True)
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0], flush=True)


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 3))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(12, 6), torch.randint(0, 3, (12,))


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int = 3) -> None:
    x, y = batch()
    for _ in range(count):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        show(loss)


class Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.full((2,), float(index)) + torch.rand(2), "index": torch.tensor(index)}


@program
def trains_with_every_optimizer() -> None:
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam", "ASGD", "Rprop", "Adadelta", "Adamax"):
        torch.manual_seed(1)
        model = mlp()
        steps(model, getattr(torch.optim, name)(model.parameters(), lr=0.01))


@program
def trains_fused_and_foreach() -> None:
    for options in ({"fused": True}, {"foreach": True}):
        torch.manual_seed(2)
        model = mlp()
        steps(model, torch.optim.AdamW(model.parameters(), **options))


@program
def pins_memory() -> None:
    said(lambda: torch.ones(2).pin_memory())
    said(lambda: torch.ones(2).is_pinned())
    said(lambda: nn.utils.rnn.pack_sequence([torch.ones(2)]).pin_memory())
    said(lambda: torch.UntypedStorage(4).pin_memory())
    said(lambda: torch.UntypedStorage(4).is_pinned())
    said(lambda: torch.utils.data._utils.pin_memory.pin_memory({"a": torch.ones(1)}))


@program
def asks_for_pinned_factories() -> None:
    for make in (torch.empty, torch.zeros, torch.ones, torch.rand):
        try:
            make(2, pin_memory=True)
        except RuntimeError:  # the words are PyTorch's only where the library is there to say them
            print(make.__name__, "RuntimeError")
    show(torch.ones(2, pin_memory=False))


@program
def loads_data_without_workers() -> None:
    for pinned in (False, True):
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=3, shuffle=True, pin_memory=pinned)
        for item in loader:
            show(item["x"], item["index"], item["x"].is_pinned())


@program
def loads_data_with_workers() -> None:
    for pinned in (False, True):
        loader = torch.utils.data.DataLoader(
            Numbers(), batch_size=4, num_workers=2, pin_memory=pinned, persistent_workers=True
        )
        for item in loader:
            show(item["x"], item["index"], item["x"].is_pinned())


@program
def loads_data_with_spawned_workers() -> None:
    for item in torch.utils.data.DataLoader(Numbers(), num_workers=1, multiprocessing_context="spawn", pin_memory=True):
        show(item["x"], item["index"])


@program
def data_parallel() -> None:
    model = nn.DataParallel(mlp().eval())
    show(model(torch.ones(2, 6)), model.device_ids)
    said(lambda: nn.parallel.data_parallel(mlp().eval(), torch.ones(2, 6), device_ids=None))
    model.module(torch.ones(2, 6)).sum().backward()
    show(model.module[0].weight.grad)


@program
def autocast() -> None:
    model = mlp().eval()
    with torch.autocast("cpu"):
        show(model(torch.ones(1, 6)), torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled())
    with torch.autocast("cuda"):
        show(model(torch.ones(1, 6)))
    show(torch.get_autocast_dtype("cpu"), torch.amp.is_autocast_available("cpu"))


@program
def scales_gradients() -> None:
    model = mlp()
    optimizer, default = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler()
    show(default.is_enabled())
    for scaler in (default, torch.amp.GradScaler("cpu")):
        scaler.scale(model(batch()[0]).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        show(scaler.get_scale(), model[0].bias)


@program
def checkpoints() -> None:
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    model, x = mlp(), batch()[0].requires_grad_()
    for reentrant in (False, True):
        torch.manual_seed(3)
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        show(x.grad, model[0].weight.grad)
    checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
    show(x.grad, torch.utils.checkpoint.DefaultDeviceType.get_device_type())


@program
def forks_the_generator() -> None:
    torch.manual_seed(4)
    with torch.random.fork_rng():
        show(torch.rand(2))
    show(torch.rand(2), torch.initial_seed())
    with torch.random.fork_rng(devices=[]):
        show(torch.rand(2))
    state = torch.get_rng_state()
    show(torch.rand(1))
    torch.set_rng_state(state)
    show(torch.rand(1), torch.Generator().manual_seed(5).initial_seed())


@program
def samples() -> None:
    torch.manual_seed(6)
    show(torch.randn(3), torch.randint(9, (4,)), torch.randperm(5), torch.multinomial(torch.ones(4), 3))
    show(torch.distributions.Normal(0.0, 1.0).sample((3,)), torch.bernoulli(torch.full((4,), 0.5)))
    show(torch.normal(0.0, torch.ones(3)), torch.empty(3).exponential_(), nn.init.xavier_normal_(torch.empty(2, 2)))


@program
def saves_and_loads() -> None:
    model = mlp()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        torch.save({"model": model.state_dict(), "step": 3}, path)
        for options in ({}, {"map_location": "cpu"}, {"mmap": True}):
            loaded = torch.load(path, **options)
            show(loaded["model"]["0.weight"], loaded["step"], model.load_state_dict(loaded["model"]))
        torch.save(model, path)
        show(torch.load(path, weights_only=False)[0].bias)
    said(lambda: torch.load(io.BytesIO(b"nothing")))


@program
def copies() -> None:
    model = mlp()
    show(pickle.loads(pickle.dumps(model))[0].weight, copy.deepcopy(model)[3].bias, torch.ones(2).to("cpu").clone())
    show(torch.ones(2).to("meta").device, torch.empty_like(torch.ones(2), device="meta").device)


@program
def trains_after_a_fork() -> None:
    model = mlp().eval()
    model(torch.ones(1, 6)).sum().backward()
    show(model[0].bias.grad, len(os.listdir("/proc/self/task")) if sys.platform == "linux" else "")
    child = os.fork()
    if child == 0:
        said(lambda: model(torch.ones(1, 6)).sum().backward())
        show(model[0].bias.grad)
        os._exit(0)
    show(os.waitpid(child, 0)[1])


def hogwild(model: nn.Module) -> None:
    for _ in range(2):
        model(torch.ones(1, 6)).sum().backward()


@program
def trains_in_processes() -> None:
    for method in ("fork", "spawn"):
        context = torch.multiprocessing.get_context(method)
        model = mlp().eval().share_memory()
        model(torch.ones(1, 6)).sum().backward()
        processes = [context.Process(target=hogwild, args=(model,)) for _ in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        show(method, [process.exitcode for process in processes], model[0].bias.is_shared())


def sends(queue: torch.multiprocessing.Queue) -> None:
    queue.put((torch.arange(3.0), nn.Parameter(torch.ones(1))))
    queue.get()


@program
def sends_tensors() -> None:
    context = torch.multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=sends, args=(queue,))
    process.start()
    show(*queue.get())
    queue.put(None)
    process.join()
    show(torch.multiprocessing.get_sharing_strategy())


@program
def compiles() -> None:
    model = mlp()
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        torch.manual_seed(7)
        compiled = torch.compile(model, backend=backend)
        loss = compiled(batch()[0]).sum()
        loss.backward()
        show(loss, model[0].bias.grad)
    explained = torch._dynamo.explain(lambda x: x.sin() + torch.rand(2))(torch.ones(2))
    show(explained.graph_count, explained.graph_break_count)


@program
def compiles_and_asks_inside() -> None:
    @torch.compile(backend="eager", fullgraph=True)
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cpu"):
            return x @ x

    show(f(torch.eye(3)))
    show(sorted(torch._dynamo.list_backends(exclude_tags=("debug", "experimental")))[:1])


@program
def exports() -> None:
    exported = torch.export.export(mlp().eval(), (torch.ones(2, 6),))
    print(exported.graph_module.code)
    show(exported.module()(torch.ones(2, 6)), [str(v.device) for v in exported.state_dict.values()])
    decomposed = exported.run_decompositions()
    print(decomposed.graph_module.code)


@program
def traces_and_scripts() -> None:
    model = mlp().eval()
    traced, scripted = torch.jit.trace(model, torch.ones(1, 6)), torch.jit.script(model)
    show(traced(torch.ones(2, 6)), scripted(torch.ones(2, 6)))
    print(traced.graph.findNode("aten::dropout") is not None)
    stored = io.BytesIO()
    torch.jit.save(scripted, stored)
    stored.seek(0)
    show(torch.jit.load(stored)(torch.ones(1, 6)))


@program
def transforms_symbolically() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    print(torch.fx.symbolic_trace(mlp()).code)
    print(make_fx(lambda x: x.softmax(0).sum(), tracing_mode="fake")(torch.ones(3)).code)


@program
def hooks() -> None:
    model = mlp().eval()
    model.register_forward_hook(lambda module, inputs, output: show(type(module).__name__, output))
    model[0].register_full_backward_hook(lambda module, before, after: show(after[0]))
    model[0].weight.register_hook(lambda gradient: show(gradient))
    model[3].weight.register_post_accumulate_grad_hook(lambda parameter: show(parameter.grad))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        model(torch.ones(1, 6)).sum().backward()
    with torch.autograd.graph.save_on_cpu(pin_memory=False):
        model(torch.ones(1, 6)).sum().backward()


@program
def saves_on_cpu_pinned() -> None:
    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).sum()
    y.backward()
    show(x.grad)


@program
def profiles() -> None:
    with torch.profiler.profile(profile_memory=True, record_shapes=True) as profiler:
        mlp()(torch.ones(1, 6)).sum().backward()
    table = profiler.key_averages().table(row_limit=3)
    print(table.splitlines()[1].split("  "))
    print(sorted({event.key for event in profiler.key_averages() if event.key.startswith("aten::")}))
    print(sorted({str(event.device_type) for event in profiler.events()}))
    with torch.autograd.profiler.profile() as old:
        torch.ones(2).sum()
    print(old.key_averages().table(row_limit=1).splitlines()[1].split("  "))


@program
def benchmarks() -> None:
    from torch.utils import benchmark

    show(benchmark.Timer("x + 1", globals={"x": torch.ones(2)}).timeit(2).number_per_run)


@program
def counts_flops() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        mlp()(torch.ones(4, 6)).sum().backward()
    show(counter.get_total_flops())


@program
def functional() -> None:
    f = lambda x: (x.sin() * x).sum()  # noqa: E731
    x = torch.linspace(0, 1, 3)
    show(torch.func.grad(f)(x), torch.func.vmap(torch.dot)(torch.eye(3), torch.ones(3, 3)), torch.func.hessian(f)(x))
    show(*torch.func.jvp(f, (x,), (torch.ones(3),)))
    torch.autograd.gradcheck(f, x.double().requires_grad_())
    show(torch.autograd.functional.jacobian(torch.exp, x))


@program
def reentrant_and_double_backward() -> None:
    x = torch.ones(2, requires_grad=True)
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    gradient.sum().backward()
    show(x.grad)
    with torch.autograd.detect_anomaly(check_nan=True):
        said(lambda: (torch.zeros(1, requires_grad=True) / 0.0 * 0.0).sum().backward())


@program
def sparse() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), requires_grad=True)
        (x @ torch.ones(2, 2)).sum().backward()
        show(x.grad.to_dense(), torch.eye(2).to_sparse_csr().to_dense())
    show(nn.Embedding(4, 2, sparse=True)(torch.tensor([1, 2])).shape)


@program
def nested() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 2).eval()
        mask = torch.tensor([[False, False], [False, True]])
        show(encoder(torch.ones(2, 2, 8), src_key_padding_mask=mask))
        jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
        show((jagged * 2).values())


@program
def quantizes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        q = torch.quantize_per_tensor(torch.linspace(0, 1, 4), 0.1, 0, torch.qint8)
        show(q.int_repr(), q.dequantize())
        show(torch.ao.quantization.quantize_dynamic(mlp().eval(), {nn.Linear}, dtype=torch.qint8)(torch.ones(1, 6)))
    show(torch.fake_quantize_per_tensor_affine(torch.linspace(0, 1, 4), 0.1, 0, 0, 255))


@program
def recurrent_and_packed() -> None:
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        torch.manual_seed(8)
        layer = kind(3, 4, 2, batch_first=True, dropout=0.5)
        packed = nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 3), torch.tensor([3, 2]), batch_first=True)
        output = nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)[0]
        output.sum().backward()
        show(output, layer.weight_ih_l0.grad)


@program
def attends() -> None:
    q = torch.linspace(0, 1, 24).reshape(1, 2, 3, 4)
    show(F.scaled_dot_product_attention(q, q, q, is_causal=True), nn.MultiheadAttention(4, 2)(q[0], q[0], q[0])[0])
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 3, 3, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        show(flex_attention(q, q, q, block_mask=mask))


@program
def distributes_one_process() -> None:
    import torch.distributed as dist

    store = dist.HashStore()
    dist.init_process_group("gloo", rank=0, world_size=1, store=store)
    model = nn.parallel.DistributedDataParallel(mlp().eval())
    model(torch.ones(1, 6)).sum().backward()
    objects: list[object] = [None]
    dist.all_gather_object(objects, {"a": 1})
    show(model.module[0].bias.grad, objects, dist.get_backend(), dist.get_default_backend_for_device("cpu"))
    dist.barrier()
    dist.destroy_process_group()


@program
def distributes_by_default() -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_tensor

    dist.init_process_group(rank=0, world_size=1, store=dist.HashStore())
    mesh = init_device_mesh("cpu", (1,))
    show(distribute_tensor(torch.ones(2), mesh).to_local(), dist.get_backend_config())
    from torch.distributed.fsdp import fully_shard

    said(lambda: fully_shard(mlp(), mesh=mesh)(torch.ones(1, 6)).shape)
    dist.destroy_process_group()


@program
def applies_modules_in_parallel() -> None:
    from torch.nn.parallel import parallel_apply, scatter

    said(lambda: parallel_apply([mlp()], [torch.ones(1, 6)]))
    said(lambda: scatter(torch.ones(2), [0]))
    show(hasattr(torch._C, "_scatter"), torch.nn.DataParallel(mlp()).device_ids)


@program
def saves_distributed() -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict

    model = mlp()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"model": model.state_dict()}, checkpoint_id=folder)
        state = {"model": mlp().state_dict()}
        dcp.load(state, checkpoint_id=folder)
        show(torch.equal(state["model"]["0.weight"], model[0].weight))
        show(get_model_state_dict(model)["0.bias"])


@program
def says_what_there_is() -> None:
    show(
        torch.cuda.is_available(),
        torch.cuda.device_count(),
        torch.backends.mps.is_available(),
        torch.xpu.is_available(),
    )
    show(torch.get_default_device(), torch.get_device_module())
    show(torch._utils._get_available_device_type(), torch._utils._get_all_device_indices())
    show(bool(torch._utils._is_privateuse1_backend_available()))
    said(lambda: torch.ones(2).cuda())
    said(lambda: torch.ones(2, device="cuda"))
    said(lambda: torch.ones(2, device="nonsense"))
    show(torch.ones(2), torch.ones(2).device, torch.tensor([1.5]).type(), torch.ones(2).is_cuda)
    print(repr(torch.ones(2)), torch.ones(2).__dlpack_device__())


@program
def sets_defaults() -> None:
    torch.set_default_dtype(torch.float64)
    show(torch.ones(2))
    torch.set_default_device("meta")
    show(torch.ones(2).device, nn.Linear(2, 2).weight.device)
    torch.set_default_device(None)
    with torch.device("cpu"):
        show(torch.ones(1).device)
    torch.use_deterministic_algorithms(True)
    show(torch.empty(2), torch.are_deterministic_algorithms_enabled())


@program
def converts_parameters_and_averages() -> None:
    model = mlp()
    vector = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(vector * 2, model.parameters())
    averaged = torch.optim.swa_utils.AveragedModel(model, use_buffers=True)
    averaged.update_parameters(model)
    show(vector, averaged.module[0].weight, nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    nn.utils.parametrizations.weight_norm(model[0])
    show(model(torch.ones(1, 6)).shape, nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(2)))


@program
def shares_with_numpy() -> None:
    import numpy as np

    array = np.arange(3.0)
    tensor = torch.from_numpy(array)
    tensor += 1
    show(array.tolist(), torch.from_dlpack(array), np.from_dlpack(tensor).tolist(), np.asarray(torch.ones(2)).tolist())


@program
def asserts_closeness() -> None:
    torch.testing.assert_close(torch.ones(2), torch.ones(2))
    said(lambda: torch.testing.assert_close(torch.ones(2), torch.zeros(2)))
    show(torch.testing.make_tensor(2, dtype=torch.float32, device="cpu", low=1, high=1.0000001).shape)


@program
def ends_on_an_error() -> None:
    mlp()(torch.ones(1, 6)).sum().backward()
    sys.stdout.flush()
    torch.ones(2) @ torch.ones(3)


@program
def ends_on_a_backward_pass() -> None:
    loss = mlp()(torch.ones(1, 6)).sum()
    show(loss)
    loss.backward()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        torch.manual_seed(0)
        PROGRAMS[name]()
