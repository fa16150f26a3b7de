"""Which node of a program's graph each row of a trace came from, and what became of the nodes without a row.

Beside the trace, not in it: a row's signature knows nothing of nodes, so equal calls stay one signature.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simdevice.errors import UnknownNameError

__all__ = ["STATES", "Node", "NodeMap"]

STATES = ("dead", "folded", "free", "rows", "unresolved", "body not walked")
"""What became of a node, the later the stronger: a node of a loop may be one thing in one turn and another in the next.

dead: no result needs it. folded: computed at load, no row. free: it moves nothing; a row that costs nothing, or none.
rows: it has rows, or a body of it has. unresolved: its row's shapes are unknown, `reason` says why. body not walked: it
runs a body and how often is unknown (one row stands for all), or it is in a body that is not shown at all."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `name` is its own within `path`, where the graph is: "" for the outermost one, `name/attribute/` behind
    the path of the node whose body it is, which is number `parent` (-1: none).

    `type` and `domain` are ONNX's, "" being the default domain; of an FX node the target and its namespace. `reads` are
    value names as they are written, "" for an input left out; `implicit` those that only its bodies read, from graphs
    around them; `writes` its results. `scope` is the module path.
    """

    name: str
    type: str
    domain: str = ""
    path: str = ""
    parent: int = -1
    scope: str = ""
    reads: tuple[str, ...] = ()
    implicit: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    state: str = "free"
    reason: str = ""


@dataclass(frozen=True)
class NodeMap:
    """All nodes of a program, those of a body behind the node that runs it. `owner` has an entry per row of the trace:
    the number of the row's node, or -1 (compiled programs run operators between their graphs)."""

    nodes: tuple[Node, ...]
    owner: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __getitem__(self, index: int) -> Node:
        return self.nodes[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeMap):
            return NotImplemented
        return self.nodes == other.nodes and np.array_equal(self.owner, other.owner)

    __hash__ = None  # type: ignore[assignment]  # holds an array

    def rows(self, index: int) -> NDArray[np.int64]:
        """A node's own rows, in order."""
        starts, order = self._by_owner
        return order[starts[index] : starts[index + 1]]

    def rows_within(self, index: int) -> NDArray[np.int64]:
        """A node's rows and those of all nodes in its bodies, in order."""
        end = index + 1
        while end < len(self) and self.nodes[end].parent >= index:
            end += 1
        starts, order = self._by_owner
        return np.sort(order[starts[index] : starts[end]])

    def find(self, name: str, path: str = "") -> int:
        """The number of the node of this name in the graph at `path`.

        Raises:
            UnknownNameError: no such node there; says the nearest name.
        """
        index = self._by_name.get((path, name))
        if index is None:
            where = f"node of {path!r}" if path else "node"
            raise UnknownNameError(where, name, [n.name for n in self.nodes if n.path == path])
        return index

    def select(self, keep: NDArray[np.bool_]) -> NodeMap:
        """The map of a trace from which `Trace.select(keep)` took rows; every node stays, with fewer rows."""
        return NodeMap(self.nodes, self.owner[keep])

    @classmethod
    def load(cls, path: str | Path) -> NodeMap | None:
        """The map in a trace's file; None for a file without one. Raises FileFormatError for anything else."""
        from simdevice.records.io import load_nodes  # it imports this module

        return load_nodes(path)

    @cached_property
    def _by_owner(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each node's rows start in a list of rows in the order of their nodes."""
        order = np.argsort(self.owner, kind="stable").astype(np.int64)
        starts = np.searchsorted(self.owner[order], np.arange(len(self) + 1)).astype(np.int64)
        return starts, order

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], int]:
        return {(node.path, node.name): number for number, node in enumerate(self.nodes)}
