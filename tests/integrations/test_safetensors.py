"""safetensors with `import simdevice.integrations.safetensors`: files are loaded onto simacc, bit for bit."""

from __future__ import annotations


def test_files_load_onto_simacc(program):
    said = program(
        """
import simdevice.integrations.safetensors as integration
import safetensors, torch
from safetensors.torch import load_file, load_model, save_file, save_model

tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2], dtype=torch.bfloat16)}
save_file({name: tensor.to("simacc") for name, tensor in tensors.items()}, "x.safetensors", {"of": "test"})
for device in ("simacc", "simacc:0", torch.device("simacc"), 0, "cpu"):
    loaded = load_file("x.safetensors", device=device)
    print({str(t.device) for t in loaded.values()}, all(torch.equal(loaded[n].cpu(), t) for n, t in tensors.items()))
with safetensors.safe_open("x.safetensors", framework="pt", device="simacc") as file:
    part = file.get_slice("a")
    print(sorted(file.keys()), file.metadata(), part.get_shape(), part[1:, :2].device, part[1:, :2].tolist())
    print(file.get_tensor("b").device)
one, other = torch.nn.Linear(2, 2, device="simacc"), torch.nn.Linear(2, 2, device="simacc")
save_model(one, "y.safetensors")
load_model(other, "y.safetensors", device="simacc")
print(torch.equal(one.weight, other.weight))
integration.undo()
try:
    load_file("x.safetensors", device="simacc")
except Exception as error:
    print(error)
"""
    )
    assert said == [
        *["{'simacc:0'} True"] * 4,
        "{'cpu'} True",
        "['a', 'b'] {'of': 'test'} [2, 3] simacc:0 [[3.0, 4.0]]",
        "simacc:0",
        "True",
        "device simacc is invalid",
    ]
