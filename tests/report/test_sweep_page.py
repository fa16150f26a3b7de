"""The page of a table of machines written by hand."""

from __future__ import annotations

import pytest

from simdevice.errors import UnknownNameError
from simdevice.report import Picture, render
from simdevice.report.pareto import SweepTable
from simdevice.report.renderers.json import data

RESULTS = ("latency_s", "array_busy_share", "memory_busy_share", "tiles", "hot_spot", "error")


def record(buffer_bytes: int, link: str, *results: object) -> dict[str, object]:
    return {"buffer_bytes": buffer_bytes, "link": link, **dict(zip(RESULTS, results, strict=True))}


TABLE = SweepTable(
    ("buffer_bytes", "link"),
    RESULTS,
    (
        record(2048, "slow", 3e-6, 0.5, 0.25, 1000, "matrix array", ""),
        record(1024, "slow", 4e-6, 0.25, 0.5, 2000, "off-chip memory", ""),
        record(8, "slow", None, None, None, None, None, "its smallest tile needs 12 bytes"),
        record(4096, "fast", 3e-6, 0.5, 0.25, 1000, "matrix array", ""),
    ),
)


def test_the_fastest_and_then_the_cheapest_come_first_and_the_front_is_marked() -> None:
    assert render(TABLE.page("buffer_bytes", top=2), "text") == (
        "3 of 4 machines ran; the fastest 2; *: no other beats it in buffer_bytes too\n"
        "\n"
        "  buffer_bytes  link  latency  array busy  memory busy  tiles  hot-spot      front\n"
        "         2 KiB  slow     3 us       50.0%        25.0%  1,000  matrix array  *\n"
        "         4 KiB  fast     3 us       50.0%        25.0%  1,000  matrix array  -\n"
        "did not run: its smallest tile needs 12 bytes\n"
    )


def test_every_machine_is_data_in_the_order_it_was_given() -> None:
    assert data(TABLE.page("buffer_bytes", top=1)) == list(TABLE.records)


def test_a_picture_stands_at_the_end() -> None:
    page = TABLE.page("buffer_bytes", picture=Picture("front.png", "image/png", b"\x89PNG"))
    assert render(page, "markdown").endswith("## Pareto front\n\n![front.png](front.png)\n")


def test_the_pictures_bytes_are_the_files() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib (the 'plots' extra) is not installed")
    picture = TABLE.picture("buffer_bytes")
    assert (picture.media_type, picture.content[:8]) == ("image/png", b"\x89PNG\r\n\x1a\n")


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown column 'buffer': did you mean 'buffer_bytes'\?$"):
        TABLE.page("buffer")
