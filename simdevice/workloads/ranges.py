"""One program at many sizes: a trace of each, at little more than the price of a few."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from simdevice.frontends import Workload
from simdevice.frontends.describe import title
from simdevice.frontends.symbolic import SameWay, same_way
from simdevice.records import Trace
from simdevice.records.family import Box, Family

__all__ = ["traces"]

Point = tuple[int, ...]

_FEW = 40
"""Up to so many sizes each is traced for itself: whether they are one family takes as long to find out."""

_SMALLEST = 2
"""PyTorch's symbols stand for sizes from 2: a size of 1 broadcasts, so that programs take another way there."""


def traces(
    ask: Callable[[Point], Workload],
    points: Sequence[Point],
    trace_of: Callable[[Workload], Trace],
    *,
    fake: str | None = None,
    few: int = _FEW,
) -> Iterator[Trace]:
    """The trace at each point, in order; each equals `trace_of(ask(point))`.

    1. The program runs once with symbols for sizes, which gives the decisions that it makes by them.
    2. It is traced at the corners of the box of all points, which gives every shape as a polynomial of the sizes; and
       in the middle, where the two have to agree.
    3. A point with the same decisions is evaluated; any other one is traced.
    """
    workloads = {point: ask(point) for point in points}
    family, way = None, None
    inner = [point for point in workloads if min(point) >= _SMALLEST]
    if len(inner) > few:
        family, way = _family(inner, ask, trace_of, fake)
    for point in points:
        workload = workloads[point]
        decided_alike = way is not None and min(point) >= _SMALLEST and way.holds(workload)
        member = family.at(point) if family is not None and decided_alike else None
        if member is None:
            yield trace_of(workload)
        else:
            yield replace(member, origin=replace(member.origin, workload=title(workload)))


def _family(
    points: Sequence[Point], ask: Callable[[Point], Workload], trace_of: Callable[[Workload], Trace], fake: str | None
) -> tuple[Family | None, SameWay | None]:
    box = Box.around(points)
    way = same_way(ask(box.low), ask(box.high), fake=fake)
    if way is None or not all(way.holds(ask(corner)) for corner in box.corners()):
        return None, None
    family = Family.of(box, lambda corner: trace_of(ask(corner)))
    middle = sorted(points)[len(points) // 2]
    if family is None or (member := family.at(middle)) is None or not member.says_the_same(trace_of(ask(middle))):
        return None, None
    return family, way
