"""A trace: the operators of a program in order, as columns, and where they came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from simdevice.records.nodes import NodeMap
from simdevice.records.op import CATEGORIES, PHASES, Op, TensorRef, TensorSpec
from simdevice.records.table import OpTable
from simdevice.records.totals import Groups, Totals, group, totals

__all__ = ["OpView", "Origin", "Rows", "Trace"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Columns of a trace, or of a batch on its way to a session. One row is one operator call.

    `device` is the index of the device whose queue the call is in. `tensors` is flat: each row's input ids, then its
    output ids, as many as its signature has.
    """

    signature: NDArray[np.int32]
    phase: NDArray[np.uint8]
    scope: NDArray[np.int32]
    device: NDArray[np.uint8]
    tensors: Int64

    def __len__(self) -> int:
        return len(self.signature)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows):
            return NotImplemented
        return all(np.array_equal(getattr(self, n), getattr(other, n)) for n in self.__dataclass_fields__)

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    @classmethod
    def empty(cls) -> Rows:
        types = {"signature": np.int32, "phase": np.uint8, "scope": np.int32, "device": np.uint8, "tensors": np.int64}
        return cls(**{name: np.empty(0, kind) for name, kind in types.items()})

    @classmethod
    def concatenate(cls, parts: Sequence[Rows]) -> Rows:
        """All parts in order; one part is returned as it is."""
        if not parts:
            return cls.empty()
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(p, n) for p in parts]) for n in cls.__dataclass_fields__))

    def cut(self, begin: int, end: int, offsets: Int64) -> Rows:
        """Rows `begin` to before `end`, given where each row's tensor ids start."""
        rows = slice(begin, end)
        tensors = self.tensors[offsets[begin] : offsets[end]]
        return Rows(self.signature[rows], self.phase[rows], self.scope[rows], self.device[rows], tensors)

    def offsets(self, table: OpTable) -> Int64:
        """Where each row's tensor ids start in `tensors`; one entry more than rows."""
        out = np.zeros(len(self) + 1, np.int64)
        np.cumsum(table.column("arity")[self.signature], out=out[1:])
        return out


@dataclass(frozen=True)
class Origin:
    """Where a trace came from. `flop_counter` is FlopCounterMode's total where it was taken."""

    frontend: str
    device: str = ""
    workload: str = ""
    path: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    capture_s: float = 0.0
    flop_counter: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trace:
    """Operators in program order over a shared table of signatures and costs."""

    table: OpTable
    rows: Rows
    scopes: tuple[str, ...] = ("",)
    origin: Origin = field(default_factory=lambda: Origin("none"))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        """One line for a prompt: how much, of what, from where."""
        of = f" of {self.origin.workload}" if self.origin.workload else ""
        on = f" on {self.origin.device}" if self.origin.device else ""
        more = ">= " if self.is_lower_bound else ""
        return (
            f"<Trace{of}: {len(self):,} operators, {more}{self.flops:,} FLOPs, {self.bytes:,} bytes, "
            f"{self.origin.frontend}{on}>"
        )

    def __eq__(self, other: object) -> bool:
        """Same origin and same rows, by what they say: how either table numbers them doesn't count."""
        if not isinstance(other, Trace):
            return NotImplemented
        return self.origin == other.origin and self.says_the_same(other)

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def says_the_same(self, other: Trace) -> bool:
        """Whether both hold the same rows, by what each says, wherever they came from."""
        if len(self) != len(other):
            return False
        a, b = self.compact(), other.compact()
        return (a.scopes, a.rows, a.table) == (b.scopes, b.rows, b.table)

    @property
    def ops(self) -> OpView:
        """The operators as a sequence of `Op`, each assembled when asked for."""
        return OpView(self)

    def per_op(self, name: str) -> Int64:
        """One int64 per operator: see OpTable.column."""
        return self.table.column(name)[self.rows.signature]

    def groups(self, by: str | Groups, *, depth: int | None = None) -> Groups:
        """Each row's group: by "operator", "signature", "category", "module" (its path cut at a depth), "phase",
        "device" (its index), or "all". `Groups.sums` adds up any other value over the same groups.

        Raises:
            UnknownNameError: another name.
        """
        return group(self, by, depth)

    def totals(self, by: str | Groups = "all", *, depth: int | None = None) -> dict[Any, Totals]:
        """Calls, FLOPs, bytes and unknown operators of every group that has a row.

        Raises:
            UnknownNameError: as `groups` does.
        """
        groups = self.groups(by, depth=depth)
        return {key: sums for key, sums in zip(groups.keys, totals(self, groups), strict=True) if sums.calls}

    @property
    def total(self) -> Totals:
        """The totals of all operators."""
        return self.totals().get("all", Totals())

    @property
    def flops(self) -> int:
        """FLOPs of all operators whose rule knows them; a lower bound where `is_lower_bound`."""
        return self.total.flops

    @property
    def is_lower_bound(self) -> bool:
        """Whether some operator's FLOPs are unknown, so that totals are shown with ">="."""
        return self.total.is_lower_bound

    def flops_in(self, *categories: str) -> int:
        """FLOPs of the operators of the given categories."""
        return sum(sums.flops for category, sums in self.totals("category").items() if category in categories)

    @property
    def matmul_flops(self) -> int:
        return self.flops_in("matmul")

    @property
    def bytes_read(self) -> int:
        return self.total.bytes_read

    @property
    def bytes_written(self) -> int:
        return self.total.bytes_written

    @property
    def bytes(self) -> int:
        return self.total.bytes

    @property
    def weight_bytes(self) -> int:
        return self.total.weight_bytes

    def unknown(self) -> dict[str, str]:
        """Names of the operators without a rule, each with its reason."""
        used = np.unique(self.rows.signature)
        return {
            self.table.signatures[i].name: self.table.costs[i].reason or "no cost rule"
            for i in used
            if self.table.costs[i].category == "unknown"
        }

    def select(self, keep: NDArray[np.bool_]) -> Trace:
        """The trace of the rows where `keep` is true, in order."""
        arity = self.per_op("arity")
        rows = Rows(
            self.rows.signature[keep],
            self.rows.phase[keep],
            self.rows.scope[keep],
            self.rows.device[keep],
            self.rows.tensors[np.repeat(keep, arity)],
        )
        return Trace(self.table, rows, self.scopes, self.origin)

    def without_views(self) -> Trace:
        """The operators that do device work; the live device records only these."""
        return self.select(self.per_op("category") != CATEGORIES.index("view"))

    def save(self, path: str | Path, nodes: NodeMap | None = None) -> None:
        """Write a file: `.npz` is compressed columns, anything else JSON; whole or not at all. It may hold the nodes
        too that the rows came from, which `NodeMap.load` reads."""
        from simdevice.records.io import save  # it imports this module

        save(self, path, nodes)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what `save` wrote; raises FileFormatError for anything else."""
        from simdevice.records.io import load

        return load(path)

    def compact(self) -> Trace:
        """The same trace over a table of only the signatures and scopes it uses, in order of first use."""
        signatures, signature = _by_first_use(self.rows.signature)
        scopes, scope = _by_first_use(self.rows.scope)
        rows = replace(self.rows, signature=signature.astype(np.int32), scope=scope.astype(np.int32))
        names = tuple(self.scopes[i] for i in scopes) or ("",)
        return Trace(self.table.subset(signatures.tolist()), rows, names, self.origin)


def _by_first_use(values: NDArray[Any]) -> tuple[Int64, Int64]:
    """Distinct values in order of first use, and each value's place among them."""
    distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order].astype(np.int64), rank[inverse].astype(np.int64)


class OpView(Sequence[Op]):
    """A trace's operators as a sequence; slices are tuples."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._offsets = trace.rows.offsets(trace.table)

    def __len__(self) -> int:
        return len(self._trace)

    @overload
    def __getitem__(self, index: int) -> Op: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Op, ...]: ...
    def __getitem__(self, index: int | slice) -> Op | tuple[Op, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"operator {index} of a trace with {len(self)}")
        rows, table = self._trace.rows, self._trace.table
        which = int(rows.signature[index])
        signature = table.signatures[which]
        ids = rows.tensors[self._offsets[index] : self._offsets[index + 1]].tolist()
        refs = tuple(
            _ref(spec, tensor) for spec, tensor in zip((*signature.inputs, *signature.outputs), ids, strict=True)
        )
        split = len(signature.inputs)
        phase, scope = PHASES[int(rows.phase[index])], self._trace.scopes[int(rows.scope[index])]
        device = int(rows.device[index])
        return Op(index, signature, refs[:split], refs[split:], phase, scope, table.costs[which], device)

    def __iter__(self) -> Iterator[Op]:
        return (self[i] for i in range(len(self)))


def _ref(spec: TensorSpec, tensor: int) -> TensorRef:
    return TensorRef(spec.shape, spec.dtype, spec.is_weight, tensor)
