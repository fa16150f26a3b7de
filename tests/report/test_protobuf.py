"""Messages as columns are what the protobuf package makes of them one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdevice.report.protobuf import chosen, message, same, varint

NUMBERS = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300), min_size=1, max_size=20)


@given(NUMBERS, st.integers(1, 2**29 - 1))
def test_varints_are_the_packages_own(values: list[int], number: int) -> None:
    encoder = pytest.importorskip("google.protobuf.internal.encoder", reason="protobuf is not installed")
    wire: list[bytes] = []
    for value in values:
        encoder.UInt64Encoder(number, False, False)(wire.append, value, True)
    assert varint(number, np.array(values)).to_bytes() == b"".join(wire)


@given(NUMBERS, st.lists(st.text(max_size=200), min_size=1, max_size=4), st.data())
def test_messages_are_read_back_by_the_package(values: list[int], texts: list[str], data: st.DataObject) -> None:
    perfetto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    options = [perfetto.TrackEvent(name=text).SerializeToString() for text in texts]
    which = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=len(values), max_size=len(values)))
    event = chosen(options, np.array(which)) + varint(11, np.array(values)) + same(b"\x48\x01", len(values))
    trace = perfetto.Trace.FromString(message(1, message(11, event)).to_bytes())
    read = [(p.track_event.name, p.track_event.track_uuid, p.track_event.type) for p in trace.packet]
    assert read == [(texts[i], value, 1) for i, value in zip(which, values, strict=True)]


def test_no_rows_are_no_bytes() -> None:
    nothing = np.zeros(0, np.int64)
    assert message(1, varint(8, nothing) + same(b"ab", 0)).to_bytes() == b""
