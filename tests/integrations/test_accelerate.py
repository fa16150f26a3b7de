"""accelerate with `import simdevice.integrations.accelerate`: its own test script, and what it chooses."""

from __future__ import annotations

import pytest


def test_accelerates_own_script_runs_unchanged_and_ends_on_simacc(program):
    """Its assertions are the oracle: training equals a plain loop's on the CPU. It trains in float32, bfloat16 and
    float16 and checks its loaders and samplers; what it computed is in the recording."""
    said = program(
        """
import simdevice.integrations.accelerate
import runpy, torch
from accelerate.test_utils.scripts import test_script
with torch.simacc.record(scopes=False) as rec:
    runpy.run_path(test_script.__file__, run_name="__main__")
names = {op.name for op in rec.trace.ops}
backward = sum(op.phase == "backward" for op in rec.trace.ops)
print("ended", backward > 100, "aten._amp_foreach_non_finite_check_and_unscale_" in names)
from accelerate import Accelerator
print(Accelerator().device)
"""
    )
    assert [line for line in said if "FP16 training check" in line]
    assert said[-2:] == ["ended True True", "simacc:0"]


@pytest.mark.slow
def test_what_accelerate_chooses_and_its_undo(program):
    said = program(
        """
import simdevice.integrations.accelerate as integration
import torch
from torch import nn
import accelerate
from accelerate import Accelerator, dispatch_model, infer_auto_device_map
from accelerate.state import AcceleratorState
from accelerate.utils import get_max_memory

memory = get_max_memory()
print(list(memory), memory[0] == torch.simacc.mem_get_info()[0], get_max_memory({"cpu": "1MB", 0: "2MB"}))

def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))

expected = model()(torch.ones(1, 4))
print(infer_auto_device_map(model()))
split = dispatch_model(model(), {"0": 0, "1": 0, "2": "cpu"}, main_device=0)
out = split(torch.ones(1, 4))
print(split[0].weight.device, torch.equal(out.cpu(), expected))
# Three layers of 80 bytes; accelerate keeps room for the largest that is not placed yet, so that 120 of 200 are for one
layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
small = infer_auto_device_map(layers, max_memory={0: 200, "cpu": "1MB"})
print(dict(small))

for precision in ("no", "fp16", "bf16"):
    AcceleratorState._reset_state(True)
    accelerator = Accelerator(mixed_precision=precision)
    net = model()
    net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.1))
    loss = net(torch.ones(1, 4, device=accelerator.device)).sum()
    accelerator.backward(loss)
    optimizer.step()
    print(precision, net[0].weight.device, loss.dtype, accelerator.scaler and accelerator.scaler.is_enabled())

# random numbers go on where the checkpoint was
accelerator.save_state("checkpoint")
drawn = torch.rand(3, device="simacc").cpu()
accelerator.load_state("checkpoint")
print(torch.equal(torch.rand(3, device="simacc").cpu(), drawn))

AcceleratorState._reset_state(True)
print(Accelerator(cpu=True).device)
integration.undo()
AcceleratorState._reset_state(True)
print(Accelerator().device, list(accelerate.utils.get_max_memory()))
try:
    integration.install()
    integration.install()
    AcceleratorState._reset_state(True)
    print(Accelerator(mixed_precision="fp16").device)
finally:
    integration.undo()
init = accelerate.Accelerator.__init__
print(init.__code__.co_consts.count("simacc"), "default_device" in vars(accelerate.PartialState))
"""
    )
    assert said == [
        "[0, 'cpu'] True {0: 2000000, 'cpu': 1000000}",
        "OrderedDict([('', 0)])",
        "simacc:0 True",
        "{'0': 0, '1': 'cpu', '2': 'cpu'}",
        "no simacc:0 torch.float32 None",
        "fp16 simacc:0 torch.float32 True",
        "bf16 simacc:0 torch.float32 None",
        "True",
        "cpu",
        "cpu ['cpu']",
        "simacc:0",
        "0 True",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("accelerate", "accelerate"),
        ("transformers", "transformers"),
        ("lightning", "lightning_fabric"),
        ("safetensors", "safetensors"),
    ],
)
def test_an_integration_without_its_library_names_the_extra(program, name, library):
    missing = {"accelerate": "accelerate", "safetensors": "safetensors"}.get(name, library)
    (said,) = program(
        f"""
import sys
sys.modules[{library!r}] = None  # as if it were not installed
try:
    import simdevice.integrations.{name}
except Exception as error:
    print(type(error).__name__, error)
"""
    )
    assert said == (
        f"SimdeviceError simdevice.integrations.{name} needs {missing}: pip install 'simdevice[integrations]'"
    )


@pytest.mark.slow
def test_a_closed_list_that_has_moved_is_one_clear_line(program):
    (said,) = program(
        """
from simdevice.integrations.entry import with_constant

def chooses(device):
    return device in ("cpu", "cuda")

print(with_constant(chooses, ("cpu", "cuda"), ("cpu", "cuda", "simacc"))("simacc"), chooses("simacc"), end=" ")
try:
    with_constant(chooses, ("cpu",), ())
except RuntimeError as error:
    print(error)
"""
    )
    assert said == (
        "True False expected the devices ('cpu',) in __main__.chooses, which has none such: this version is not "
        "supported; install the one that simdevice[integrations] was tested with"
    )
