"""Traces of the published examples, built by hand from their shapes."""

from __future__ import annotations

from simdevice.costs import Costs
from simdevice.records import OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder


def tiny_cnn(batch: int = 1, *, indices: bool = True) -> Trace:
    """Three blocks of Conv2d 3x3, BatchNorm2d, ReLU, MaxPool2d(2); mean; Linear 64->10; 3x32x32 images.

    As torch.export with Core ATen gives it: 14 operators and a view of the last weight. ONNX's MaxPool
    has no `indices`, which Core ATen's writes as int64.
    """
    builder, storages = TraceBuilder(OpTable(Costs())), iter(range(100))

    def of(*shape: int, dtype: str = "float32", weight: bool = False) -> TensorSpec:
        return TensorSpec(shape, dtype, weight)

    def add(name: str, inputs: list[TensorSpec], outputs: list[TensorSpec], source: int) -> int:
        """The first input is the activation; gives the storage of the first output."""
        ids = [source, *(next(storages) for _ in (*inputs[1:], *outputs))]
        builder.add(Signature(name, tuple(inputs), tuple(outputs)), ids)
        return ids[len(inputs)]

    at, channels, size = next(storages), 3, 32
    for width in (16, 32, 64):
        image, pooled = of(batch, width, size, size), of(batch, width, size // 2, size // 2)
        weight = of(width, channels, 3, 3, weight=True)
        at = add("aten.convolution", [of(batch, channels, size, size), weight, of(width, weight=True)], [image], at)
        scale = [of(width, weight=True), of(width, weight=True), of(width), of(width)]
        at = add("aten._native_batch_norm_legit_no_training", [image, *scale], [image, of(0), of(0)], at)
        at = add("aten.relu", [image], [image], at)
        positions = [of(*pooled.shape, dtype="int64")] if indices else []
        at = add("aten.max_pool2d_with_indices" if indices else "aten.max_pool2d", [image], [pooled, *positions], at)
        channels, size = width, size // 2
    at = add("aten.mean", [of(batch, 64, size, size)], [of(batch, 64)], at)
    weight = next(storages)
    builder.add(Signature("aten.permute", (of(10, 64, weight=True),), (of(64, 10, weight=True),)), [weight, weight])
    inputs = (of(10, weight=True), of(batch, 64), of(64, 10, weight=True))
    builder.add(Signature("aten.addmm", inputs, (of(batch, 10),)), [next(storages), at, weight, next(storages)])
    return builder.finish(Origin("hand", workload=f"tiny-cnn, {batch} images"))
