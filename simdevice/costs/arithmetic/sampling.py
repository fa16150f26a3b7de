"""Resampling: 2 FLOPs for each source element that an output element is mixed from; nearest only copies."""

from __future__ import annotations

from simdevice.costs.registry import streamed
from simdevice.records import Cost, Signature, TensorSpec
from simdevice.units import ceil_div

__all__ = ["LINEAR_TAPS", "antialiased", "mixed", "resized", "shrunk_taps"]

LINEAR_TAPS, CUBIC_TAPS = 2, 4
"""Neighbours per dimension."""


def mixed(signature: Signature, fine: TensorSpec, taps: int) -> Cost:
    """`fine` is the interpolated side (the output, or backward its gradient), each element mixed from `taps`."""
    return streamed(signature, "pooling", 2 * taps * fine.numel)


def shrunk_taps(support: int, before: int, after: int) -> int:
    """Shrinking with antialiasing widens the filter: `support` taps at the coarser of the two spacings, a part of a tap
    counting as one."""
    return max(support, ceil_div(support * before, max(after, 1)))


def resized(signature: Signature, mode: str, *, antialias: bool) -> Cost:
    """Along each dimension whose length changes; a resize to the same rank, else a copy."""
    source, result = signature.inputs[0], signature.outputs[0]
    if mode == "nearest" or len(source.shape) != len(result.shape):
        return streamed(signature, "movement", 0)
    support, taps = CUBIC_TAPS if mode == "cubic" else LINEAR_TAPS, 1
    for before, after in zip(source.shape, result.shape, strict=True):
        if before != after:
            taps *= shrunk_taps(support, before, after) if antialias else support
    return mixed(signature, result, taps)


def antialiased(signature: Signature, support: int, *, backward: bool = False) -> Cost:
    """Columns first, then rows, of the last two dimensions."""
    coarse, fine = signature.outputs[0], signature.inputs[0]
    source, target = (coarse, fine) if backward else (fine, coarse)
    (high, wide), (tall, broad) = source.shape[-2:], target.shape[-2:]
    images = target.numel // max(tall * broad, 1)
    across, down = shrunk_taps(support, wide, broad), shrunk_taps(support, high, tall)
    return streamed(signature, "pooling", 2 * images * (high * broad * across + tall * broad * down))
