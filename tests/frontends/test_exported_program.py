"""Exported programs as sources: objects and .pt2 files, open dimensions, and files that are something else."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import simdevice as sd
from simdevice.errors import CaptureError, FileFormatError, SpecError, UnknownNameError


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.linear(x).relu(), self.linear(x)])


def program(*, dynamic: bool) -> Any:
    rows = torch.export.Dim("rows", min=2, max=64)
    return torch.export.export(Two(), (torch.ones(3, 8),), dynamic_shapes={"x": {0: rows}} if dynamic else None)


@pytest.fixture(scope="module")
def dynamic_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("exported") / "dynamic.pt2"
    torch.export.save(program(dynamic=True), path)
    return str(path)


def test_a_program_its_file_and_its_module_by_the_export_road_are_one(tmp_path: Path) -> None:
    exported = program(dynamic=False)
    torch.export.save(exported, tmp_path / "p.pt2")
    by_module = sd.trace(Two(), torch.ones(3, 8), frontend="export", flop_counter=True)
    for given in (exported, tmp_path / "p.pt2"):
        trace = sd.trace(given, flop_counter=True)
        assert trace.says_the_same(by_module)
        assert (trace.origin.frontend, trace.origin.device) == ("export", "cpu")
        # two linear layers of 3 x 8 x 4 multiply-adds
        assert trace.origin.flop_counter == 2 * 2 * 3 * 8 * 4
    assert trace.origin.workload == "p.pt2"


@pytest.mark.parametrize("rows", [2, 5, 64])
def test_an_open_dimension_is_bound_by_any_of_its_names(dynamic_file: str, rows: int) -> None:
    alone = sd.trace(Two(), torch.ones(rows, 8), frontend="export")
    symbol = str(next(iter(program(dynamic=True).range_constraints)))
    for dims in ({"x.0": rows}, {"x": (rows, 8)}, {symbol: rows}):
        trace = sd.trace(dynamic_file, dims=dims, flop_counter=True)
        assert [op.signature for op in trace.without_views().ops] == [op.signature for op in alone.without_views().ops]
        # two linear layers of rows x 8 x 4 multiply-adds
        assert trace.origin.flop_counter == 2 * 2 * rows * 8 * 4


@pytest.mark.parametrize(
    ("dims", "error", "message"),
    [
        ({}, CaptureError, r".* has open dimensions: x\.0 \(s\d+, 2 to 64\); give .*, for example --dim x\.0=2"),
        ({"x.1": 8}, UnknownNameError, r"unknown dimension of .* 'x\.1': did you mean 'x\.0'\?"),
        ({"x.0": 65}, SpecError, r"'x\.0' of .* is 2 to 64, got 65"),
        ({"x.0": 1}, SpecError, r"'x\.0' of .* is 2 to 64, got 1"),
        ({"x.0": (3, 8)}, SpecError, r"expected a whole number as 'x\.0' of .*, got \(3, 8\)"),
        ({"x": (3, 9)}, SpecError, r"input 'x' of .* is s\d+x8: it can't be 3x9"),
        ({"x": (3, 8, 1)}, SpecError, r"input 'x' of .* has 2 dimensions \(s\d+x8\), got 3"),
        ({"x": (3, 8), "x.0": 4}, SpecError, r"'x\.0' of .* is s\d+, which is both 3 and 4"),
    ],
)
def test_a_wrong_size_is_one_line(dynamic_file: str, dims: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        sd.trace(dynamic_file, dims=dims)


def test_another_front_end_is_refused_with_the_reason(dynamic_file: str) -> None:
    with pytest.raises(CaptureError, match=r"^the 'dispatch' front end can't take .*\(it is a graph already; for "):
        sd.trace(dynamic_file, frontend="dispatch")


def test_what_is_no_exported_program_is_said(tmp_path: Path) -> None:
    def said(path: Path) -> str:
        with pytest.raises(FileFormatError, match=r"^[^\n]*$") as refused:
            sd.trace(path)
        return str(refused.value).replace(str(path), "FILE")

    assert said(tmp_path / "none.pt2") == "cannot read FILE: No such file or directory"
    torch.save({"a": torch.ones(2)}, tmp_path / "c.pt")
    assert said(tmp_path / "c.pt").startswith("FILE is no exported program but a checkpoint of torch.save")
    with zipfile.ZipFile(tmp_path / "z.pt2", "w") as archive:
        archive.writestr("a/b.txt", "hello")
    assert (
        said(tmp_path / "z.pt2")
        == "FILE is no exported program but a zip archive that holds no program of torch.export"
    )
    with zipfile.ZipFile(tmp_path / "s.pt2", "w") as archive:
        for name in ("s/constants.pkl", "s/data.pkl", "s/code/__torch__/a.py"):
            archive.writestr(name, "")
    assert said(tmp_path / "s.pt2").startswith("FILE is no exported program but a TorchScript archive")
    (tmp_path / "t.pt2").write_text("no archive")
    assert said(tmp_path / "t.pt2") == "FILE is damaged or no .pt2 file: it is no zip archive"


@pytest.mark.parametrize("where", [0.02, 0.3, 0.5, 0.7, 0.98])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_file_is_one_line_or_reads_the_same(
    dynamic_file: str, tmp_path: Path, where: float, damage: str
) -> None:
    whole = bytearray(Path(dynamic_file).read_bytes())
    at = int(len(whole) * where)
    broken = (
        whole[:at] if damage == "cut" else whole[:at] + bytes(b ^ 255 for b in whole[at : at + 64]) + whole[at + 64 :]
    )
    path = tmp_path / "broken.pt2"
    path.write_bytes(bytes(broken))
    try:
        trace = sd.trace(path, dims={"x.0": 3})
    except FileFormatError as error:
        said = str(error)
    else:  # between an archive's parts there is padding
        assert damage == "flipped"
        assert trace.says_the_same(sd.trace(dynamic_file, dims={"x.0": 3}))
        return
    assert said.startswith(str(path))
    assert "\n" not in said
