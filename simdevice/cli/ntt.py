"""`simacc ntt`: a product of encrypted numbers' polynomials, its transforms on the chip or done in transit."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from simdevice.cli._common import print_page, progress
from simdevice.cli._options import EngineOption, JsonOption, SetOption, overrides
from simdevice.errors import SpecError
from simdevice.report.page import COUNT, TEXT, Column, Fact, Page, Section, Table, Unit

__all__ = ["command"]

PRESETS = {"edge-npu": (64, 8), "dc-npu": (512, 16)}
"""Devices and vector lanes to try where none are named: each part's own, and few."""

MICROSECONDS = Unit(lambda value: f"{value:,.2f}")

Devices = Annotated[
    list[str] | None, typer.Option("--device", help="An accelerator by name, or a YAML file; repeat (default: two).")
]
Ring = Annotated[int, typer.Option("--ring", min=2, help="Coefficients of a polynomial, a power of two.")]
Limbs = Annotated[int, typer.Option("--limbs", min=1, help="Residues of each coefficient.")]
Lanes = Annotated[list[int] | None, typer.Option("--lanes", min=1, help="Vector lanes to try; repeat.")]
Transit = Annotated[
    list[float] | None,
    typer.Option("--transit", min=0, help="Operations per byte in transit to try (0: on chip); repeat."),
]


def command(
    device: Devices = None,
    engine: EngineOption = None,
    ring: Ring = 2**16,
    limbs: Limbs = 24,
    lanes: Lanes = None,
    transit: Transit = None,
    set_: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Time an RNS polynomial product (per limb: two NTTs, a product, an inverse NTT), by lanes and transit rate."""
    if ring & (ring - 1):
        raise SpecError(f"--ring: expected a power of two, got {ring}")
    for option, field, values in (("lanes", "vector_lanes", lanes), ("transit", "transit_ops_per_byte", transit)):
        if values and field in overrides(set_):
            raise SpecError(f"--set {field} and --{option} say the same: give one of them")
    rates = transit or ([0.0] if "transit_ops_per_byte" in overrides(set_) else [0, 0.5, 1.6, 3.0, 6.0])
    machines = [_machine(name, engine, set_, lanes) for name in device or PRESETS]
    from simdevice.workloads.ntt import rns_product_trace

    trace = rns_product_trace(ring, limbs)
    measured = []
    with progress("simulating"):
        for spec, counts, run in machines:
            for count in counts:
                latency_us = [run(trace, count, rate) / 1e6 for rate in rates]
                measured.append({"device": spec.name, "vector_lanes": count, "latency_us": latency_us})
    facts = {"ring": ring, "limbs": limbs, "transit_ops_per_byte": rates, "machines": measured}
    columns = (
        *(Column("", "device", TEXT), Column("", "lanes", COUNT)),
        *(Column("", "on chip" if rate == 0 else f"transit {rate:g}", MICROSECONDS) for rate in rates),
    )
    rows = tuple((m["device"], m["vector_lanes"], *m["latency_us"]) for m in measured)
    page = Page(
        f"{trace.origin.workload}: latency in us",
        tuple(Fact(key, value=value) for key, value in facts.items()),
        (Section("machines", tables=(Table("", columns, rows),)),),
    )
    print_page(page, as_json=json)


def _machine(name: str, engine: str | None, settings: list[str] | None, lanes: list[int] | None) -> Any:
    """A spec, the lanes to try, and a function from trace, lanes and rate to picoseconds."""
    from simdevice.devices.accelerator import Accelerator
    from simdevice.hardware import AcceleratorSpec, load, load_link

    fields = overrides(settings)
    spec = load(name, **fields)
    if not isinstance(spec, AcceleratorSpec):
        raise SpecError(f"{spec.name} is a roofline; an NTT needs an accelerator such as 'edge-npu'")
    link = load_link(spec.link)
    Accelerator(spec, link, engine=engine)  # a wrong engine's name should not wait

    def makespan_ps(trace: Any, count: int, rate: float) -> int:
        changed: dict[str, object] = {"vector_lanes": count}
        if "transit_ops_per_byte" not in fields:
            changed["transit_ops_per_byte"] = rate
        return Accelerator(spec.replace(**changed), link, engine=engine).outline(trace).makespan_ps

    own = () if "vector_lanes" in fields else PRESETS.get(name, ())
    return spec, lanes or own or (spec.vector_lanes,), makespan_ps
