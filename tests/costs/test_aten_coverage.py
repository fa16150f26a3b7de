"""Every ATen operator has a rule or a stated reason, and every rule survives PyTorch's own sample inputs."""

from __future__ import annotations

import inspect
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from simdevice.costs import Costs, registered
from simdevice.costs.aten.unknown import UNKNOWN
from simdevice.errors import UncostedOperatorError
from simdevice.frontends.dispatch import DispatchRecorder
from simdevice.records import CATEGORIES, Origin, Signature

KEYS = (
    "CPU",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "MkldnnCPU",
    "NestedTensorCPU",
    "QuantizedCPU",
    "SparseCPU",
    "SparseCsrCPU",
)

NAMES = {n.split("::")[1].split(".")[0] for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")}


def with_a_kernel():
    """Canonical names of the ATen operators that have a kernel on the CPU, sparse and quantised tensors included."""
    found = set()
    for full in torch._C._dispatch_get_all_op_names():
        if full.startswith("aten::") and any(torch._C._dispatch_has_kernel_for_dispatch_key(full, k) for k in KEYS):
            found.add("aten." + full.split("::")[1].split(".")[0])
    return found


def test_every_operator_with_a_cpu_kernel_has_a_rule_or_a_reason():
    costs, names = Costs(), with_a_kernel()
    assert len(names) > 1_000  # the walk itself works
    assert sorted(n for n in names if costs.rule(n) is None) == []


def test_few_operators_are_given_up():
    given_up = [n for n in with_a_kernel() if Costs().rule(n).function.__module__.endswith(".unknown")]
    assert len(given_up) / len(with_a_kernel()) < 0.07


def test_rules_name_operators_that_exist():
    """A misspelt name would never be found again."""
    ours = [n.removeprefix("aten.") for n in registered() if n.startswith("aten.")]
    assert sorted(n for n in ours if n not in NAMES and n + "_" not in NAMES) == []


def test_declared_attributes_are_arguments_of_the_operator():
    schemas: dict[str, set[str]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        base, _, overload = full.partition(".")
        if base.startswith("aten::"):
            arguments = torch._C._get_schema(base, overload).arguments
            schemas.setdefault(base.replace("::", "."), set()).update(a.name for a in arguments)
    # A rule that several operators share may declare what only some of them have (`transposed`).
    by_rule: dict[int, set[str]] = {}
    for name, rule in registered().items():
        if name.startswith("aten."):
            by_rule.setdefault(id(rule), set()).update(schemas.get(name) or schemas[name + "_"])
    wrong = [
        (n, a)
        for n, r in registered().items()
        if n.startswith("aten.")
        for a in r.attributes
        if a not in by_rule[id(r)]
    ]
    assert wrong == []


@pytest.mark.parametrize("name", sorted(UNKNOWN))
def test_what_is_unknown_says_why(name):
    cost = Costs()(Signature(name, (), ()))
    assert (cost.category, cost.flops, cost.reason) == ("unknown", None, UNKNOWN[name])
    in_place = Costs()(Signature(name + "_", (), ()))
    assert in_place.reason == UNKNOWN[name]


def test_strict_refuses_what_is_unknown_on_purpose_too():
    with pytest.raises(UncostedOperatorError, match=r"^no cost for 'aten\._ctc_loss': CTC: the work follows"):
        Costs(strict=True)(Signature("aten._ctc_loss", (), ()))


def test_rules_need_no_torch():
    for rule in registered().values():
        assert "torch" not in inspect.getsource(inspect.getmodule(rule.function)).split("\n\n", 1)[1].split("import")[0]


def runs(info):
    """The operators of one sample of an OpInfo, forward and backward."""
    dtype = torch.float32 if torch.float32 in info.dtypes else sorted(info.dtypes, key=str)[0]
    differentiable = info.supports_autograd and dtype == torch.float32
    sample = next(iter(info.sample_inputs("cpu", dtype, requires_grad=differentiable)), None)
    if sample is None:
        return []
    with DispatchRecorder(Costs(), scopes=False) as recorder:
        try:
            out = info(sample.input, *sample.args, **sample.kwargs)
            results = [o for o in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(o, torch.Tensor)]
            scalars = [o.abs().sum() for o in results if o.requires_grad]
            if scalars:
                sum(scalars).backward()
        except RuntimeError:
            pass  # the operator refuses its sample here; what ran before was recorded
    return list(recorder.finish(Origin("opinfo")).ops)


def sampled():
    """Every row of every OpInfo that runs on a CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # samples exercise deprecated behaviour on purpose
        usable = [i for i in op_db if i.dtypes and not i.name.startswith("jiterator")]  # those need a GPU
        return [row for info in usable for row in runs(info)]


def test_every_rule_holds_on_pytorchs_own_samples():
    """About 700 OpInfos through their first sample, with gradients: no rule fails, and each cost is sound."""
    with ThreadPoolExecutor(1) as pool:  # OpInfo looks at the whole call stack per sample; a thread's is short
        rows = pool.submit(sampled).result()
    for row in rows:
        cost = row.cost
        assert cost.category in CATEGORIES, row.signature
        assert cost.flops is None or (type(cost.flops) is int and cost.flops >= 0), row.signature
        assert (cost.flops is None) == (cost.category == "unknown"), row.signature
        assert 0 <= cost.weight_bytes <= cost.bytes_read, row.signature
        assert cost.bytes_written <= sum(t.nbytes for t in row.outputs), row.signature
        assert cost.bytes_read <= sum(t.nbytes for t in row.inputs) or cost.category == "gather", row.signature
    assert len({row.name for row in rows}) > 450


def test_no_rule_declares_a_tensor_as_an_attribute():
    """Tensors are inputs; recorders give attributes as plain values only."""
    tensors: dict[str, set[str]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        base, _, overload = full.partition(".")
        if base.startswith("aten::"):
            arguments = torch._C._get_schema(base, overload).arguments
            found = {a.name for a in arguments if "Tensor" in str(a.type)}
            tensors.setdefault(base.replace("::", "."), set()).update(found)
    wrong = [(n, a) for n, r in registered().items() for a in r.attributes if a in tensors.get(n, ())]
    assert wrong == []
