"""`simacc devices`: the machines that are known by name."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from simdevice.cli._common import print_page
from simdevice.cli._options import JsonOption
from simdevice.hardware import host_names, link_names, load, load_host, load_link, names
from simdevice.hardware.specs import AcceleratorSpec, Spec
from simdevice.report.page import BYTES_PER_S, FLOPS_PER_S, SECONDS, TEXT, Column, Fact, Page, Section, Table

__all__ = ["command"]

NAME = Column("name", "name", TEXT)
PEAK = Column("peak_flops_per_s", "peak", FLOPS_PER_S)
MEMORY = Column("dram_bandwidth_bytes_per_s", "memory", BYTES_PER_S)
HOSTS = (NAME, PEAK, MEMORY)
DEVICES = (NAME, Column("kind", "kind"), PEAK, MEMORY, Column("", "inside"), Column("link", "link"))
LINKS = (NAME, Column("bandwidth_bytes_per_s", "rate", BYTES_PER_S), Column("latency_s", "latency", SECONDS))


def command(json: JsonOption = False) -> None:
    """List the devices, hosts and links that are known by name."""
    devices = [load(name) for name in names()]
    hosts = [load_host(name) for name in host_names()]
    links = [load_link(name) for name in link_names()]
    sections = (
        Section("devices", "Devices", (Table("", DEVICES, tuple(map(_device, devices))),)),
        Section("hosts", "Hosts", (Table.of("", HOSTS, hosts),)),
        Section("links", "Links", (Table.of("", LINKS, links),)),
    )
    kinds: dict[str, list[Any]] = {"devices": devices, "hosts": hosts, "links": links}
    facts = (Fact(kind, value=[_plain(spec) for spec in specs]) for kind, specs in kinds.items())
    print_page(Page("Machines that are known by name", tuple(facts), sections), as_json=json)


def _device(device: Any) -> tuple[Any, ...]:
    peak, memory = device.peak_flops_per_s, device.dram_bandwidth_bytes_per_s
    return device.name, device.kind, peak, memory, _inside(device), device.link


def _inside(device: Any) -> str:
    if isinstance(device, AcceleratorSpec):
        array = f"{device.array_rows} x {device.array_cols} array, {device.vector_lanes} lanes"
        return f"{array}, {device.buffer_bytes / 2**20:g} MiB buffer"
    compute, memory = float(device.compute_efficiency), float(device.dram_efficiency)
    return f"reaches {compute:.0%} of peak, {memory:.0%} of memory"


def _plain(spec: Spec) -> dict[str, Any]:
    """Exact numbers as JSON has them."""
    return {key: float(value) if isinstance(value, Fraction) else value for key, value in dict(spec).items()}
