"""The nouns every stage shares: plain data, no behaviour beyond reading itself."""

from simdevice.records.builder import TraceBuilder
from simdevice.records.nodes import Node, NodeMap
from simdevice.records.op import CATEGORIES, FREE_CATEGORIES, PHASES, Cost, Op, Signature, TensorRef, TensorSpec
from simdevice.records.program import TIMELINE_FIELDS, UNITS, Program, Tiles, Timeline
from simdevice.records.run import Crossings, Run
from simdevice.records.table import OpTable
from simdevice.records.trace import OpView, Origin, Rows, Trace

__all__ = [
    "CATEGORIES",
    "FREE_CATEGORIES",
    "PHASES",
    "TIMELINE_FIELDS",
    "UNITS",
    "Cost",
    "Crossings",
    "Node",
    "NodeMap",
    "Op",
    "OpTable",
    "OpView",
    "Origin",
    "Program",
    "Rows",
    "Run",
    "Signature",
    "TensorRef",
    "TensorSpec",
    "Tiles",
    "Timeline",
    "Trace",
    "TraceBuilder",
]
