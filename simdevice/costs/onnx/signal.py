"""Fourier transforms, resampling, determinants: textbook counts."""

from __future__ import annotations

from simdevice.costs.arithmetic import fourier, gather, linalg, unknown
from simdevice.costs.arithmetic.sampling import mixed, resized
from simdevice.costs.onnx._common import microsoft, onnx
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []


@register("onnx.DFT", attributes=("axis", "inverse", "onesided", "dft_length"))
def dft(signature: Signature) -> Cost:
    """The last dimension holds 1 (real) or 2 (complex) values; 5 n log2 n per complex line, half of it for real ones.

    The transformed side that holds every sample counts: the input, or the output where it is padded.
    """
    source, result = signature.inputs[0], signature.outputs[0]
    axis = signature.attribute("axis")
    axis = axis[0] if isinstance(axis, tuple) else axis
    axis = int(axis) if axis is not None else -2
    length = max(source.shape[axis], result.shape[axis])
    lines = source.numel // max(source.shape[axis] * source.shape[-1], 1)
    real = source.shape[-1] == 1 or result.shape[-1] == 1
    return fourier(signature, lines * length, [length], real=real)


@register("onnx.STFT", attributes=("frame_length", "given"))
def stft(signature: Signature) -> Cost:
    """(batch, frames, bins, 2): a product with the window (1 per sample), then a transform, for each frame."""
    source, result = signature.inputs[0], signature.outputs[0]
    batch, frames, bins = result.shape[:3]
    length = signature.attribute("frame_length")
    length = length[0] if isinstance(length, tuple) else length
    window = dict(zip(signature.attribute("given", ()), signature.inputs, strict=False)).get("window")
    if length is None:
        length = window.numel if window is not None else 2 * (bins - 1)
    samples, real = batch * frames * int(length), len(source.shape) < 3 or source.shape[-1] == 1
    return fourier(signature, samples, [int(length)], real=real, extra=samples if window is not None else 0)


@register(*microsoft("Irfft Rfft"), attributes=("signal_ndim",))
def real_transform(signature: Signature) -> Cost:
    """Over the last dimensions, with the real side's lengths; complex values are pairs in a last dimension."""
    real = signature.inputs[0] if signature.name.endswith(".Rfft") else signature.outputs[0]
    dims = real.shape[-(signature.attribute("signal_ndim") or 1) :]
    return fourier(signature, real.numel, dims, real=True)


@register(*onnx("Resize Upsample"), attributes=("mode", "antialias"))
def resize(signature: Signature) -> Cost:
    """Nearest where no mode is given."""
    mode = signature.attribute("mode") or "nearest"
    return resized(signature, mode, antialias=bool(signature.attribute("antialias")))


@register("onnx.GridSample", "com.microsoft.GridSample", attributes=("mode",))
def grid_sample(signature: Signature) -> Cost:
    """X (N, C, *spatial) at grid (N, *out, d): 2 taps per dimension at 2 FLOPs, cubic 4; nearest picks one."""
    dims = signature.inputs[1].shape[-1]
    mode = signature.attribute("mode") or "linear"
    if mode == "nearest":
        return gather(signature)
    taps = (4 if mode in ("cubic", "bicubic") else 2) ** dims
    return mixed(signature, signature.outputs[0], taps)


@register("onnx.Det")
def determinant(signature: Signature) -> Cost:
    """An LU factorisation of each n x n matrix, and the product of its diagonal."""
    return linalg.square(signature, lambda n: 2 * n**3 // 3 + n)


@register("com.microsoft.Inverse")
def inverse(signature: Signature) -> Cost:
    """2 n^3 per matrix: factorisation and n solutions."""
    if not signature.inputs[0].shape[-1]:
        return unknown(signature, "an empty matrix")
    return linalg.square(signature, lambda n: 2 * n**3)
