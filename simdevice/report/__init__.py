"""A Run to people: tables, and one page of them. Reads nothing but the Run."""

from simdevice.report.summary import Summary, json, markdown, print, summarise, to_dict
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
    to_dicts,
    to_markdown,
    to_rich,
    top_operators,
    transfers,
    unknown_operators,
)

__all__ = [
    "Hot",
    "Share",
    "Summary",
    "Transfer",
    "Unknown",
    "by_bound",
    "by_category",
    "by_module",
    "by_operator",
    "by_phase",
    "json",
    "markdown",
    "print",
    "summarise",
    "to_dict",
    "to_dicts",
    "to_markdown",
    "to_rich",
    "top_operators",
    "transfers",
    "unknown_operators",
]
