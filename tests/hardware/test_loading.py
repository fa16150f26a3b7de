"""Presets, files and their errors; every shipped number has a source."""

from __future__ import annotations

import re
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from simdevice import files
from simdevice.errors import SpecError, UnknownNameError
from simdevice.hardware import (
    AcceleratorSpec,
    RooflineSpec,
    config_root,
    host_names,
    link_names,
    load,
    load_host,
    load_link,
    names,
)

SHIPPED = [p for kind in ("accelerators", "hosts", "links") for p in sorted((config_root() / kind).glob("*.yaml"))]

GOOD = """\
kind: roofline
peak_flops_per_s: 1 TFLOP/s
dram_bandwidth_bytes_per_s: 1 TB/s
memory_capacity_bytes: 1 GB
link: pcie5-x16
"""


def test_presets_are_listed_by_kind():
    plain = ["a100", "dc-npu", "edge-npu", "h100", "optical"]
    assert names() == [*plain, *(f"published/{name}" for name in plain)]
    assert host_names() == ["host-cpu"]
    assert link_names() == ["nvlink4", "pcie5-x16"]


@pytest.mark.parametrize("name", names())
def test_presets_load_and_their_link_exists(name):
    spec = load(name)
    assert spec.name == name
    load_link(spec.link)


@pytest.mark.parametrize(
    ("name", "rate", "bandwidth", "capacity"),
    [
        # peak * efficiency, bandwidth * efficiency, capacity (Torch_Sim_Frontend, examples/results.md; datasheets)
        ("h100", Fraction(989 * 55, 100) * 10**12, Fraction(335 * 80, 10**4) * 10**12, 80 * 10**9),
        ("a100", Fraction(312 * 55, 100) * 10**12, Fraction(2039 * 80, 10**5) * 10**12, 80 * 10**9),
        ("optical", Fraction(4000 * 40, 100) * 10**12, Fraction(335 * 80, 10**4) * 10**12, 80 * 10**9),
    ],
)
def test_roofline_presets_have_the_published_rates(name, rate, bandwidth, capacity):
    spec = load(name)
    assert isinstance(spec, RooflineSpec)
    assert (spec.flops_per_s, spec.dram_bytes_per_s, spec.memory_capacity_bytes) == (rate, bandwidth, capacity)


@pytest.mark.parametrize(
    ("name", "array", "lanes", "buffer", "dram", "channels", "noc", "capacity"),
    [
        # Torch_Sim_Frontend, docs/accel_spec.md; capacities are illustrative
        ("edge-npu", (32, 32), 64, 2 * 2**20, Fraction("25.6") * 10**9, 2, 64 * 10**9, 8 * 2**30),
        ("dc-npu", (128, 128), 512, 32 * 2**20, 1600 * 10**9, 8, 512 * 10**9, 96 * 10**9),
    ],
)
def test_accelerator_presets_have_the_published_machine(name, array, lanes, buffer, dram, channels, noc, capacity):
    spec = load(name)
    assert isinstance(spec, AcceleratorSpec)
    assert (spec.array_rows, spec.array_cols) == array
    assert (spec.vector_lanes, spec.buffer_bytes, spec.dram_channels) == (lanes, buffer, channels)
    assert (spec.dram_bandwidth_bytes_per_s, spec.noc_bandwidth_bytes_per_s) == (dram, noc)
    assert (spec.clock_hz, spec.dram_latency_s, spec.noc_latency_s) == (10**9, Fraction(1, 10**7), Fraction(2, 10**8))
    assert (spec.tile_fraction, spec.transit_ops_per_byte, spec.quantise) == (Fraction(1, 2), 0, False)
    assert spec.memory_capacity_bytes == capacity


def test_host_and_links_have_the_published_rates():
    host = load_host("host-cpu")
    assert (host.flops_per_s, host.dram_bytes_per_s) == (2 * 10**12, 200 * 10**9)
    assert [(load_link(n).bandwidth_bytes_per_s, load_link(n).latency_s) for n in ("pcie5-x16", "nvlink4")] == [
        (64 * 10**9, Fraction(5, 10**6)),
        (450 * 10**9, Fraction(5, 10**6)),
    ]


def test_overrides_are_validated_and_objects_pass_through():
    spec = load("edge-npu", dram_bandwidth_bytes_per_s="102.4 GB/s")
    assert spec.dram_bandwidth_bytes_per_s == 102_400_000_000
    assert load(spec) is not None
    assert load(spec, dram_channels=1).dram_channels == 1
    assert load_link(load_link("nvlink4"), latency_s=0).latency_s == 0


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_every_shipped_number_cites_its_source_on_the_line_above(path):
    lines = path.read_text().splitlines()
    numbers = [i for i, line in enumerate(lines) if re.match(r"\w+:\s*[\d.]", line)]
    assert numbers
    for i in numbers:
        assert re.match(r"# (Source: .+|Illustrative\b)", lines[i - 1]), f"{path.name}:{i + 1}: {lines[i]}"


@pytest.mark.parametrize(
    ("loader", "name", "message"),
    [
        (load, "h10", "unknown device 'h10': did you mean 'h100'?"),
        (
            load,
            "",
            "unknown device '': expected one of a100, dc-npu, edge-npu, h100, optical, published/a100, "
            "published/dc-npu, published/edge-npu, published/h100, published/optical",
        ),
        (load_host, "host", "unknown host 'host': did you mean 'host-cpu'?"),
        (load_link, "nvlink", "unknown link 'nvlink': did you mean 'nvlink4'?"),
    ],
)
def test_an_unknown_preset_says_the_nearest(loader, name, message):
    with pytest.raises(UnknownNameError) as caught:
        loader(name)
    assert str(caught.value) == message


def test_what_is_no_name_is_said():
    with pytest.raises(SpecError, match=r"^expected the name of a device or a YAML file, got 7$"):
        load(7)


def test_a_file_is_named_by_itself_unless_it_says_otherwise(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    assert load(path).name == load(str(path)).name == "mine"
    path.write_text("name: yours\n" + GOOD)
    assert load(path).name == "yours"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("1 TB/s", "-1 TB/s"), ":3: dram_bandwidth_bytes_per_s: expected more than zero, got '-1 TB/s'"),
        (GOOD + "launch_overhead: 0\n", ":6: unknown field 'launch_overhead': did you mean 'launch_overhead_s'?"),
        (GOOD.replace("link", "links"), ":5: unknown field 'links': did you mean 'link'?"),
        (GOOD.replace("link: pcie5-x16\n", ""), ": field 'link' is missing"),
        (GOOD + "link: nvlink4\n", ":6: field 'link' is given twice, first on line 5"),
        (
            GOOD.replace("kind: roofline\n", ""),
            ":1: field 'kind' is missing: expected one of accelerator, null, offload, roofline",
        ),
        (GOOD.replace("kind: roofline", "kind: rooflin"), ":1: field 'kind' is 'rooflin': did you mean 'roofline'?"),
        ("kind: [roofline\nlink: x", ":2: not YAML: expected ',' or ']', but got ':'"),
        ("- a\n- b\n", ": expected 'field: value' lines, got list"),
        ("", ": expected 'field: value' lines, got NoneType"),
        ("kind: roofline\n\tlink: x\n", ":2: not YAML: found character '\\t' that cannot start any token"),
    ],
)
def test_a_broken_file_is_one_line_that_names_file_line_and_key(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load(path)
    assert str(caught.value) == f"{path}{message}"


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    with pytest.raises(SpecError, match=r"^cannot read \S*none\.yaml: No such file or directory$"):
        load(tmp_path / "none.yaml")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match=r"^cannot read \S*binary\.yaml: not a text file$"):
        load(binary)


def test_presets_are_found_beside_the_package_or_inside_it(tmp_path, monkeypatch):
    """A checkout has `configs/` beside the package; a wheel ships it as `simdevice/configs`."""
    assert (config_root() / "accelerators" / "h100.yaml").is_file()
    installed = tmp_path / "simdevice"
    shutil.copytree(config_root(), installed / "configs")
    monkeypatch.setattr(files.resources, "files", lambda package: Path(installed))
    assert config_root() == installed / "configs"
    assert load("h100").name == "h100"


def test_a_link_that_is_none_names_the_file_that_asks_for_it(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text((config_root() / "accelerators" / "h100.yaml").read_text().replace("pcie5-x16", "pcie5"))
    with pytest.raises(SpecError, match=rf"^{path}:\d+: unknown link 'pcie5': did you mean 'pcie5-x16'\?$"):
        load(path)
    assert load(path, link="nvlink4").link == "nvlink4"


OFFLOAD = "kind: offload\ndevice: optical\nclaims: [matmul]\n"


def test_an_offload_device_is_a_file_too(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(OFFLOAD)
    spec = load(path)
    # the host there is, and the device's own link
    assert (spec.name, spec.device, spec.host, spec.link) == (
        "mine",
        load("optical"),
        load_host("host-cpu"),
        load_link("pcie5-x16"),
    )
    assert spec.memory_capacity_bytes == load("optical").memory_capacity_bytes
    path.write_text(OFFLOAD + "link: nvlink4\n")
    assert load(path).link == load_link("nvlink4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OFFLOAD.replace("optical", "opticl"), ":2: unknown device 'opticl': did you mean 'optical'?"),
        (OFFLOAD + "host: host-gpu\n", ":4: unknown host 'host-gpu': did you mean 'host-cpu'?"),
        (OFFLOAD + "link: nvlink\n", ":4: unknown link 'nvlink': did you mean 'nvlink4'?"),
        (OFFLOAD.replace("device: optical\n", ""), ": field 'device' is missing"),
        (OFFLOAD.replace("claims", "claim"), ":3: unknown field 'claim': did you mean 'claims'?"),
    ],
)
def test_a_broken_offload_file_names_its_line(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises((SpecError, UnknownNameError)) as caught:
        load(path)
    assert str(caught.value) == f"{path}{message}"
