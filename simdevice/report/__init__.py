"""A Run to people: tables, and one page of them. Reads nothing but the Run."""

from simdevice.report.columns import to_dicts, to_markdown, to_rich
from simdevice.report.page import Column, Fact, Page, Picture, Section, Table, Unit
from simdevice.report.renderers import RENDERERS, render
from simdevice.report.summary import Summary, json, markdown, print, run_page, summarise, to_dict
from simdevice.report.tables import (
    Hot,
    Share,
    Transfer,
    Unknown,
    by_bound,
    by_category,
    by_module,
    by_operator,
    by_phase,
    top_operators,
    transfers,
    unknown_operators,
)

__all__ = [
    "RENDERERS",
    "Column",
    "Fact",
    "Hot",
    "Page",
    "Picture",
    "Section",
    "Share",
    "Summary",
    "Table",
    "Transfer",
    "Unit",
    "Unknown",
    "by_bound",
    "by_category",
    "by_module",
    "by_operator",
    "by_phase",
    "json",
    "markdown",
    "print",
    "render",
    "run_page",
    "summarise",
    "to_dict",
    "to_dicts",
    "to_markdown",
    "to_rich",
    "top_operators",
    "transfers",
    "unknown_operators",
]
