"""The page of a run: what it says about a machine with tiles and one without."""

from __future__ import annotations

import json

import pytest
from tile_runs import edge, tiny_cnn

import simdevice as sd


def test_the_page_of_a_run_with_tiles_has_all_of_it() -> None:
    run = edge().run(tiny_cnn())
    page = run.to_markdown()
    assert "- hot-spot: off-chip memory (59.8%): units wait for loads 59.8% of the time" in page
    assert "| load bandwidth | 62.5 us | 59.8% |" in page
    assert "| matrix array | 3.488 us | 3.3% | 2,802,304 | multiply-adds | 78.5% |" in page
    assert "| ready FIFO | 0 | 0 | - | tiles |" in page  # no limit
    data = json.loads(run.to_json())
    assert data["hot_spot"]["name"] == "off-chip memory"
    assert data["levels"][1]["capacity"] is None
    assert sum(row["share"] for row in data["stalls"]) == pytest.approx(1)
    assert [row["name"] for row in data["levels"]] == ["buffer", "ready FIFO"]
    assert json.loads(sd.device("h100").run(tiny_cnn()).to_json())["hot_spot"] is None
