from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import simdevice as sd
from simdevice.frontends.dispatch import DispatchRecorder
from simdevice.frontends.memo import MetaMemo, is_pure

aten = torch.ops.aten


def facts(value: Any) -> list[tuple[Any, ...]]:
    """All that a later operator can see of meta tensors."""
    return [
        (t.shape, t.stride(), t.storage_offset(), t.dtype, t.device, t.untyped_storage().nbytes(), t.is_inference())
        for t in tree_leaves(value)
        if isinstance(t, torch.Tensor)
    ]


def meta(*shape: int, **kwargs: Any) -> torch.Tensor:
    return torch.empty(*shape, device="meta", **kwargs)


@pytest.mark.parametrize(
    ("func", "pure"),
    [
        (aten.mm.default, True),
        (aten.sort.default, True),
        (aten.arange.default, True),
        (aten.add_.Tensor, False),  # writes
        (aten.add.out, False),
        (aten.view.default, False),  # shares
        (aten.nonzero.default, False),  # its shape is data
        (aten._local_scalar_dense.default, False),  # no tensor
        (aten._foreach_add.List, False),  # a list
    ],
)
def test_pure_operators_make_new_tensors_from_shapes(func: Any, pure: bool) -> None:
    assert is_pure(func) is pure


def test_a_repeated_call_is_answered_without_running(monkeypatch: pytest.MonkeyPatch) -> None:
    memo, x = MetaMemo(), meta(3, 4).t()
    ran = []

    class Counted:
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            ran.append(args)
            return aten.neg.default(*args, **kwargs)

    func = Counted()
    first, second = memo.call(func, (x,), {}), memo.call(func, (meta(3, 4).t(),), {})
    assert len(ran) == 1
    assert facts(first) == facts(second)
    assert first is not second
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((meta(3, dtype=torch.int64), 2), (meta(3, dtype=torch.int64), 2.0)),
        ((meta(3, dtype=torch.int64), True), (meta(3, dtype=torch.int64), 1)),
        ((meta(3, 4), meta(3, 4)), (meta(4, 3).t(), meta(4, 3).t())),
        ((meta(3), meta(3)), (meta(3), meta(1))),
    ],
)
def test_calls_that_could_differ_are_told_apart(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    memo = MetaMemo()
    for args in (one, other, one, other):
        assert facts(memo.call(aten.add.Tensor, args, {})) == facts(aten.add.Tensor(*args))


@pytest.mark.parametrize(
    ("func", "one", "other"),
    [
        # stride (2, 2), padding (1,) and stride (2,), padding (2, 1) are the same numbers in a row
        (
            aten.convolution.default,
            ((meta(1, 2, 9, 9), meta(2, 2, 3, 3), None, [2, 2], [1], [1, 1], False, [0, 0], 1), {}),
            ((meta(1, 2, 9, 9), meta(2, 2, 3, 3), None, [2], [2, 1], [1, 1], False, [0, 0], 1), {}),
        ),
        (
            aten.var.correction,
            ((meta(3, 4), [0]), {"correction": True}),
            ((meta(3, 4), [0]), {"keepdim": True}),
        ),
    ],
)
def test_the_same_values_in_other_places_are_another_call(func: Any, one: Any, other: Any) -> None:
    memo = MetaMemo()
    expected = [facts(func(*args, **kwargs)) for args, kwargs in (one, other)]
    assert expected[0] != expected[1]
    assert [facts(memo.call(func, *call)) for call in (one, other, one, other)] == expected * 2


def test_a_result_that_is_a_part_of_its_storage_is_never_remembered() -> None:
    ran: list[Any] = []

    class Part:
        def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            ran.append(args)
            return meta(10)[:3]

    memo, part = MetaMemo(), Part()
    sizes = [memo.call(part, (meta(2),), {}).untyped_storage().nbytes() for _ in range(2)]
    assert sizes == [40, 40]  # 10 floats, of which 3 are shown
    assert len(ran) == 2


def test_the_default_dtype_is_part_of_the_question() -> None:
    memo, x = MetaMemo(), meta(3, dtype=torch.int64)
    single = memo.call(aten.sqrt.default, (x,), {})
    torch.set_default_dtype(torch.float64)
    try:
        assert memo.call(aten.sqrt.default, (x,), {}).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert single.dtype == torch.float32


def test_a_result_that_shares_its_storage_is_never_remembered() -> None:
    memo, x = MetaMemo(), meta(2, 3)
    for _ in range(3):
        out = memo.call(aten._unsafe_view.default, (x, [6]), {})
        assert out.untyped_storage()._cdata == x.untyped_storage()._cdata


def test_real_tensors_are_computed_every_time() -> None:
    memo, x = MetaMemo(), torch.ones(2)
    assert memo.call(aten.neg.default, (x,), {}).tolist() == [-1.0, -1.0]
    x.fill_(3)
    assert memo.call(aten.neg.default, (x,), {}).tolist() == [-3.0, -3.0]


def test_a_mode_below_the_recorder_sees_every_call() -> None:
    class Counting(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Counting.seen += 1
            return func(*args, **(kwargs or {}))

    from simdevice.costs import Costs

    with Counting(), DispatchRecorder(Costs()):
        for _ in range(5):
            meta(3).neg()
    assert Counting.seen == 10


@pytest.mark.parametrize("model_type", ["llama", "mixtral", "mamba", "segformer", "whisper"])
def test_a_trace_is_the_same_with_and_without_it(model_type: str) -> None:
    sizes: dict[str, Any] = {
        "whisper": {"d_model": 96, "encoder_layers": 3, "decoder_layers": 3, "vocab_size": 60_000},
        "segformer": {"image_size": 64},
    }.get(model_type, {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 40_000})
    model = sd.models.build(model_type=model_type, **sizes, dtype="bfloat16")
    # FlopCounterMode is a mode below, which switches it off.
    assert sd.trace(model, tokens=16, flop_counter=True).rows == sd.trace(model, tokens=16).rows
    assert sd.trace(model, tokens=16, flop_counter=True).table == sd.trace(model, tokens=16).table


@pytest.mark.slow
def test_every_operator_is_remembered_as_it_is() -> None:
    """PyTorch's own samples of every operator it tests: the first and the second answer are the kernel's."""
    from torch.testing._internal.common_methods_invocations import op_db

    memo, wrong, asked = MetaMemo(), [], 0

    class Comparing(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal asked
            out = func(*args, **(kwargs or {}))
            if is_pure(func):
                asked += 1
                answers = [memo.call(func, args, kwargs or {}) for _ in range(2)]
                if any(type(a) is not type(out) or facts(a) != facts(out) for a in answers):
                    wrong.append(str(func))
            return out

    for operator in op_db:
        try:
            samples = list(operator.sample_inputs("cpu", torch.float32))[:2]
        except Exception:  # not for this dtype
            continue
        for sample in samples:
            on_meta = tree_map(
                lambda v: v.to("meta") if isinstance(v, torch.Tensor) else v,
                {"input": sample.input, "args": sample.args, "kwargs": sample.kwargs},
            )
            try:
                with Comparing():
                    operator(on_meta["input"], *on_meta["args"], **on_meta["kwargs"])
            except Exception:  # no meta kernel, or one that needs numbers
                continue
    assert wrong == []
    assert asked > 1_500  # 1,836 with two samples an operator: the comparison did compare
