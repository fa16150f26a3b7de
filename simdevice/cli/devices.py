"""`simacc devices`: the machines that are known by name."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from simdevice.cli._common import console, print_json, table
from simdevice.cli._options import JsonOption
from simdevice.hardware import host_names, link_names, load, load_host, load_link, names
from simdevice.hardware.specs import AcceleratorSpec, Spec
from simdevice.units import format_bytes, format_count, format_seconds

__all__ = ["command"]


def command(json: JsonOption = False) -> None:
    """List the devices, hosts and links that are known by name."""
    devices = [load(name) for name in names()]
    hosts = [load_host(name) for name in host_names()]
    links = [load_link(name) for name in link_names()]
    if json:
        kinds: dict[str, list[Any]] = {"devices": devices, "hosts": hosts, "links": links}
        print_json({kind: [_plain(spec) for spec in specs] for kind, specs in kinds.items()})
        return
    out = console()
    rows = [
        [d.name, d.kind, _flops(d.peak_flops_per_s), _rate(d.dram_bandwidth_bytes_per_s), _inside(d), d.link]
        for d in devices
    ]
    out.print(table("Devices", ["name", "kind", "peak", "memory", "inside", "link"], rows))
    rows = [[h.name, _flops(h.peak_flops_per_s), _rate(h.dram_bandwidth_bytes_per_s)] for h in hosts]
    out.print(table("Hosts", ["name", "peak", "memory"], rows))
    rows = [[k.name, _rate(k.bandwidth_bytes_per_s), format_seconds(float(k.latency_s))] for k in links]
    out.print(table("Links", ["name", "rate", "latency"], rows))


def _inside(device: Any) -> str:
    if isinstance(device, AcceleratorSpec):
        array = f"{device.array_rows} x {device.array_cols} array, {device.vector_lanes} lanes"
        return f"{array}, {device.buffer_bytes / 2**20:g} MiB buffer"
    compute, memory = float(device.compute_efficiency), float(device.dram_efficiency)
    return f"reaches {compute:.0%} of peak, {memory:.0%} of memory"


def _flops(rate: int | Fraction) -> str:
    return f"{format_count(float(rate))}/s"


def _rate(rate: int | Fraction) -> str:
    return f"{format_bytes(float(rate))}/s"


def _plain(spec: Spec) -> dict[str, Any]:
    """Exact numbers as JSON has them."""
    return {key: float(value) if isinstance(value, Fraction) else value for key, value in dict(spec).items()}
