"""Lightning with `import simdevice.integrations.lightning`: its BoringModel, Trainer and Fabric, under both names."""

from __future__ import annotations

import pytest

BORING = """
import simdevice.integrations.lightning
import torch
{imports}

def trained(accelerator, precision="32-true"):
    pl.seed_everything(0, verbose=False)
    model = BoringModel()
    trainer = pl.Trainer(
        accelerator=accelerator, precision=precision, max_epochs=1, limit_train_batches=4, limit_val_batches=2,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(model)
    device = trainer.strategy.root_device
    trainer.test(model, verbose=False)
    trainer.predict(model)
    return device, [p.detach().cpu() for p in model.parameters()], trainer

_, on_cpu, _ = trained("cpu")
with torch.simacc.record(scopes=False) as rec:
    device, on_simacc, _ = trained("simacc")
phases = {{op.phase for op in rec.trace.ops}}
print(device, all(map(torch.equal, on_cpu, on_simacc)), phases >= {{"backward", "optimizer"}})
"""
PL = "import pytorch_lightning as pl; from pytorch_lightning.demos.boring_classes import BoringModel"
L = "import lightning.pytorch as pl; from lightning.pytorch.demos.boring_classes import BoringModel"


def test_lightnings_boring_model_runs_unchanged_and_ends_on_simacc(program):
    assert program(BORING.format(imports=PL))[-1] == "simacc:0 True True"


@pytest.mark.slow
def test_trainer_and_fabric_by_the_newer_name_with_mixed_precision_and_undo(program):
    said = program(
        BORING.format(imports=L)
        + """
for precision in ("16-mixed", "bf16-mixed", "bf16-true"):
    device, parameters, trainer = trained("simacc", precision)
    plugin = trainer.precision_plugin
    print(device, precision, getattr(plugin, "device", ""), getattr(plugin, "scaler", None) is not None)

from lightning.fabric import Fabric
fabric = Fabric(accelerator="simacc", devices=1, precision="16-mixed")
model, optimizer = fabric.setup(torch.nn.Linear(2, 2), torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), 0.1))
out = model(torch.ones(1, 2, device=fabric.device))
fabric.backward(out.sum())
print(fabric.device, out.device, model.weight.grad.device)
loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(torch.ones(2, 2)))
print(next(iter(loader)).device)

for devices in (2, "2", [0, 1], "auto", [0], "0,"):
    try:
        print(devices, Fabric(accelerator="simacc", devices=devices).device)
    except ValueError as error:
        print(error)

simdevice.integrations.lightning.undo()
try:
    pl.Trainer(accelerator="simacc")
except ValueError as error:
    print("simacc" in str(error), "cuda" in str(error))
"""
    )
    assert said[-15:] == [
        "simacc:0 True True",
        "simacc:0 16-mixed simacc True",
        "simacc:0 bf16-mixed simacc False",
        "simacc:0 bf16-true  False",
        "simacc:0 simacc:0 simacc:0",
        "simacc:0",
        *[f"expected one simacc device (devices=1, or [index]), got {devices}" for devices in ("2", "'2'", "[0, 1]")],
        "auto simacc:0",
        "[0] simacc:0",
        "0, simacc:0",
        "True True",
    ]
