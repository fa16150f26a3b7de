"""The nouns every stage shares: plain data, no behaviour beyond reading itself."""

from simdevice.records.builder import TraceBuilder
from simdevice.records.nodes import Node, NodeMap
from simdevice.records.op import CATEGORIES, FREE_CATEGORIES, PHASES, Cost, Op, Signature, TensorRef, TensorSpec
from simdevice.records.outline import Amounts, Outline
from simdevice.records.program import TIMELINE_FIELDS, UNITS, Program, Tiles, Timeline
from simdevice.records.run import ROW_UNITS, SIDES, Crossings, Machine, Run, row_units
from simdevice.records.table import OpTable
from simdevice.records.totals import Groups, Totals
from simdevice.records.trace import OpView, Origin, Rows, Trace
from simdevice.records.work import INSIDE, Extra, Product, Window

__all__ = [
    "CATEGORIES",
    "FREE_CATEGORIES",
    "INSIDE",
    "PHASES",
    "ROW_UNITS",
    "SIDES",
    "TIMELINE_FIELDS",
    "UNITS",
    "Amounts",
    "Cost",
    "Crossings",
    "Extra",
    "Groups",
    "Machine",
    "Node",
    "NodeMap",
    "Op",
    "OpTable",
    "OpView",
    "Origin",
    "Outline",
    "Product",
    "Program",
    "Rows",
    "Run",
    "Signature",
    "TensorRef",
    "TensorSpec",
    "Tiles",
    "Timeline",
    "Totals",
    "Trace",
    "TraceBuilder",
    "Window",
    "row_units",
]
