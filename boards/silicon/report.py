"""The figures of a chip as lines and as JSON. Each line says that there is no layout behind it."""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

from .design import CLOCK_BRANCHES, Design, tree, unit_of
from .energy import RunEnergy
from .timing import NetlistTiming, PathEnd

TAG = "pre-layout"
"""Begins each line."""
PATHS = 3
"""Pairs of units whose latest path is told."""


@dataclasses.dataclass(frozen=True)
class ChipArea:
    """Square micrometres by unit; memories apart, by what is said of a bit of them."""

    cells_um2: dict[str, float]
    cells: int
    registers: int
    buffers: int
    """Buffers of the clock and of large nets, which the netlist does not have."""
    buffers_um2: float
    memories: dict[str, int]
    """How many there are of each shape."""
    memory_bits: int
    memories_um2: float
    gate_um2: float
    """The least cell with two inputs: a gate equivalent."""

    @property
    def logic_um2(self) -> float:
        """All but memories."""
        return sum(self.cells_um2.values()) + self.buffers_um2


def area_of(design: Design) -> ChipArea:
    """The areas of a netlist."""
    units: dict[str, float] = collections.defaultdict(float)
    memories: collections.Counter[str] = collections.Counter()
    registers = cells = 0
    for instance in design.netlist.instances:
        if instance.kind in design.shapes:
            memories[instance.kind] += 1
            continue
        cell = design.cell(instance)
        units[unit_of(instance.path)] += cell.area_um2
        registers += cell.state is not None
        cells += 1
    assert design.clock is not None
    buffers = tree(len(design.loads[design.clock]), CLOCK_BRANCHES).buffers
    buffers += sum(design.tree(net).buffers for net in range(len(design.loads)) if net != design.clock)
    return ChipArea(
        dict(sorted(units.items(), key=lambda item: -item[1])),
        cells,
        registers,
        buffers,
        buffers * design.buffer.area_um2,
        dict(sorted(memories.items())),
        sum(design.shapes[name].total_bits * count for name, count in memories.items()),
        sum(design.figures.area_um2(design.shapes[name]) * count for name, count in memories.items()),
        min(
            cell.area_um2
            for cell in design.library.cells.values()
            if len(cell.inputs) == 2 and cell.state is None
        ),
    )


@dataclasses.dataclass(frozen=True)
class Clock:
    """The least period, and the latest path between each pair of units, the latest pair first."""

    period_ns: float
    paths: tuple[tuple[str, PathEnd, int], ...]
    """(unit of the start, end, cells)."""

    @property
    def hertz(self) -> float:
        """The highest clock."""
        return 1e9 / self.period_ns


def clock_of(timing: NetlistTiming) -> Clock:
    """The clock that the paths of a netlist allow."""
    ends = timing.ends()
    found: dict[tuple[str, str], tuple[str, PathEnd, int]] = {}
    for end in ends:
        start = timing.start_unit(end)
        if (start, end.unit) not in found:
            found[start, end.unit] = start, end, len(timing.path(end))
        if len(found) == PATHS:
            break
    return Clock(ends[0].at_ns, tuple(found.values()))


@dataclasses.dataclass(frozen=True)
class NetworkFigures:
    """A network's run on the netlist."""

    model: str
    cycles: int
    energy: RunEnergy
    clock_hz: float

    @property
    def microjoule(self) -> float:
        """Energy of an inference in microjoules."""
        return self.energy.total.of(self.cycles, self.clock_hz) / 1e6

    @property
    def milliwatt(self) -> float:
        """Mean power of the inference."""
        return self.microjoule / (self.cycles / self.clock_hz) / 1e3

    def shares(self) -> dict[str, float]:
        """Parts of the energy."""
        total, whole = self.energy.total, self.microjoule * 1e6
        parts = {"clock": total.clock, "logic": total.logic, "memories": total.memory}
        return {name: value / whole for name, value in parts.items()} | {
            "leakage": 1 - sum(parts.values()) / whole
        }


def lines(
    title: str, design: Design, area: ChipArea, clock: Clock, runs: Sequence[NetworkFigures]
) -> list[str]:
    """What is printed."""
    library, logic = design.library, area.logic_um2
    told = [
        f"{title}; cells of {library.name}, corner {library.corner}, {library.volt:g} V",
        f"logic {logic / 1e6:.3f} mm2, {logic / area.gate_um2 / 1e3:.0f} kGE, {area.cells:,} cells, of them "
        f"{area.registers:,} flip-flops",
        *(f"  {unit:14} {um2 / 1e6:.3f} mm2  {um2 / logic:6.1%}" for unit, um2 in area.cells_um2.items()),
        f"  {'buffers':14} {area.buffers_um2 / 1e6:.3f} mm2  {area.buffers_um2 / logic:6.1%}  {area.buffers:,} of "
        "the clock and of large nets, not in the netlist",
        f"memories {area.memories_um2 / 1e6:.3f} mm2, {area.memory_bits / 1024:.0f} kbit in "
        f"{sum(area.memories.values())} macros, at {design.figures.um2_per_bit:g} um2 a bit (stated)",
        f"all {(logic + area.memories_um2) / 1e6:.3f} mm2",
        f"clock {clock.hertz / 1e6:.1f} MHz ({clock.period_ns:.2f} ns), no skew, wires by "
        + ("the library's wire-load model" if library.wire_pf else "no model: the library has none"),
        *(
            f"  {end.at_ns:6.2f} ns  {start} to {end.unit}, {cells} cells: {end.place}"
            for start, end, cells in clock.paths
        ),
    ]
    for run in runs:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in run.shares().items())
        told.append(
            f"{run.model}: {run.cycles:,} cycles, {run.microjoule:.2f} uJ and {run.milliwatt:.1f} mW at "
            f"{run.clock_hz / 1e6:.1f} MHz: {shares}; {run.energy.unseen / len(design.netlist.names):.0%} of nets "
            "estimated"
        )
    return [f"{TAG}  {line}" for line in told]


def as_json(design: Design, area: ChipArea, clock: Clock, runs: Sequence[NetworkFigures]) -> dict[str, Any]:
    """The figures, with what was stated and what was not counted."""
    return {
        "layout": False,
        "library": design.library.name,
        "corner": design.library.corner,
        "stated_of_memories": dataclasses.asdict(design.figures),
        "area": dataclasses.asdict(area) | {"logic_um2": area.logic_um2},
        "clock_hz": clock.hertz,
        "period_ns": clock.period_ns,
        "paths": [
            {"ns": end.at_ns, "from": start, "to": end.unit, "end": end.place, "cells": cells}
            for start, end, cells in clock.paths
        ],
        "networks": [
            {
                "model": run.model,
                "cycles": run.cycles,
                "clock_hz": run.clock_hz,
                "microjoule": run.microjoule,
                "milliwatt": run.milliwatt,
                "shares": run.shares(),
                "picojoule_by_unit": {
                    unit: {"clock": part.clock, "logic": part.logic, "memories": part.memory}
                    for unit, part in sorted(run.energy.units.items())
                },
                "memories": [dataclasses.asdict(use) for use in run.energy.memories],
                "nets_not_seen": run.energy.unseen,
            }
            for run in runs
        ],
    }
