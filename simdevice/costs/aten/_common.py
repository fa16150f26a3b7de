"""What the ATen tables share: naming operators. No rule of its own."""

from __future__ import annotations

__all__ = ["aten"]


def aten(names: str) -> tuple[str, ...]:
    """`"bmm mm"` as ("aten.bmm", "aten.mm"), so that a table of names stays readable."""
    return tuple(f"aten.{name}" for name in names.split())
