"""PyTorch's own operator samples (OpInfo): the device gives the CPU's values, bit for bit."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
NOT_ON_DEVICES = {
    "sparse.mm": "sparse tensors are not supported: removed when the device has a sparse layout",
    "sparse.sampled_addmm": "sparse tensors are not supported: removed when the device has a sparse layout",
    "tensor_split": "PyTorch wants its tensor of split points on the CPU, on every device",
    "to_sparse": "sparse tensors are not supported: removed when the device has a sparse layout",
}
# Memory beside a view's own elements is not part of the sample that is moved to the device.
NEEDS_BASE_STORAGE = {("as_strided", "partial_views")}

OPERATORS = [
    op
    for op in op_db
    if torch.float32 in op.dtypes
    and not op.name.startswith("jiterator")  # CUDA only
    and op.name not in UNINITIALISED
    and op.name not in NOT_ON_DEVICES
    and (op.name, op.variant_test_name) not in NEEDS_BASE_STORAGE
]


def moved(tree, device):
    return tree_map(lambda t: t.to(device) if isinstance(t, torch.Tensor) else t, tree)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # operators warn about their own deprecated or slow paths
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: f"{op.name}.{op.variant_test_name}".rstrip("."))
def test_operator_equals_the_cpu(op):
    compared = 0
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 3):
        torch.manual_seed(0)
        try:
            expected = op(sample.input, *sample.args, **sample.kwargs)
        except (RuntimeError, NotImplementedError):
            continue  # a sample that the CPU itself refuses
        torch.manual_seed(0)
        keywords = {k: torch.device("simacc") if k == "device" else v for k, v in sample.kwargs.items()}
        found = op(moved(sample.input, "simacc"), *moved(sample.args, "simacc"), **moved(keywords, "simacc"))
        torch.testing.assert_close(moved(found, "cpu"), expected, rtol=0, atol=0, equal_nan=True)
        compared += 1
    assert compared
