"""Build a trace row by row: what every Python front end appends to."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from simdevice.records.op import PHASES, Signature
from simdevice.records.table import OpTable
from simdevice.records.trace import Origin, Rows, Trace

__all__ = ["TraceBuilder"]


class TraceBuilder:
    """Grows a trace. Lifecycle: 1. construct over a table; 2. `add` per operator call; 3. `finish`."""

    def __init__(self, table: OpTable) -> None:
        self.table = table
        self._signature, self._phase = array("i"), array("B")
        self._scope, self._device, self._tensors = array("i"), array("B"), array("q")
        self._scopes: dict[str, int] = {"": 0}

    def __len__(self) -> int:
        return len(self._signature)

    def scope(self, path: str) -> int:
        """The index of a module path."""
        return self._scopes.setdefault(path, len(self._scopes))

    def add(
        self, signature: Signature | int, tensors: Sequence[int], *, phase: int = 0, scope: int = 0, device: int = 0
    ) -> None:
        """Append one call: a signature (or its index), then its input and output storage ids; `device` is an index.

        Raises:
            ValueError: as many ids as the signature has tensors were expected.
        """
        index = self.table.intern(signature) if isinstance(signature, Signature) else signature
        if len(tensors) != self.table.signatures[index].arity:
            known = self.table.signatures[index]
            raise ValueError(f"{known.name} has {known.arity} tensors, got {len(tensors)} ids")
        self._signature.append(index)
        self._phase.append(phase)
        self._scope.append(scope)
        self._device.append(device)
        self._tensors.extend(tensors)

    def finish(self, origin: Origin) -> Trace:
        """The trace so far."""
        assert max(self._phase, default=0) < len(PHASES)
        rows = Rows(
            np.array(self._signature, np.int32),
            np.array(self._phase, np.uint8),
            np.array(self._scope, np.int32),
            np.array(self._device, np.uint8),
            np.array(self._tensors, np.int64),
        )
        return Trace(self.table, rows, tuple(self._scopes), origin)
