"""The energy of a run, from how often each net changed: clock, logic, memories and leakage, by unit."""

import collections
import dataclasses
from collections.abc import Mapping

import numpy as np

from .design import CLOCK, CLOCK_BRANCHES, Design, tree, unit_of
from .estimate import ActivityEstimate
from .liberty import BUFFER_SLEW_NS
from .memories import OUTPUT_SLEW_NS
from .netlist import Net, NetlistInstance

Place = tuple[tuple[str, ...], str]
"""The path of a module and the name of a wire in it."""


@dataclasses.dataclass(frozen=True)
class Activity:
    """What a run did, by the wires of the netlist's modules."""

    cycles: int
    toggles: Mapping[Place, Mapping[int, int]]
    """How often each bit changed."""
    high_cycles: Mapping[Place, Mapping[int, int]]
    """In how many cycles each bit was 1."""


@dataclasses.dataclass
class Energy:
    """pJ of a run. Leakage is of the time it takes, so it depends on the clock."""

    clock: float = 0.0
    logic: float = 0.0
    memory: float = 0.0
    leakage_nw: float = 0.0
    """Power, not energy."""

    def of(self, cycles: int, clock_hz: float) -> float:
        """pJ in all, of so many cycles at a clock."""
        return self.clock + self.logic + self.memory + self.leakage_nw * 1e-9 * cycles / clock_hz * 1e12

    def add(self, other: "Energy") -> None:
        """Adds another part's."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


@dataclasses.dataclass
class MemoryUse:
    """Accesses of a memory: words read, bits written."""

    instance: str
    shape: str
    reads: int
    bits_written: int


class RunEnergy:
    """The energy of a run on a design.

    `units`: of each unit. `memories`: what each memory did. `unseen`: nets that the run does not name, which count as
    still, or are estimated.
    """

    def __init__(self, design: Design, activity: Activity, is_rtl: bool = False) -> None:
        """`is_rtl`: the run was one of the RTL, and nets that it does not name are estimated (estimate.py)."""
        self._design, self._activity = design, activity
        self.units: dict[str, Energy] = collections.defaultdict(Energy)
        self.memories: list[MemoryUse] = []
        self.unseen = 0
        self._changes = self._count_changes()
        self._ones: np.ndarray | None = None
        """Probability of each net to be 1, where it was estimated."""
        if is_rtl:
            self._estimate()
        for instance in design.netlist.instances:
            energy = self.units[unit_of(instance.path)]
            if instance.kind in design.shapes:
                energy.memory += self._memory_pj(instance)
            else:
                self._add_cell(instance, energy)
        self._add_clock_tree()

    @property
    def total(self) -> Energy:
        """The sum of all units."""
        whole = Energy()
        for energy in self.units.values():
            whole.add(energy)
        return whole

    def _count_changes(self) -> list[float]:
        """How often each net changed."""
        changes: list[float] = []
        for number, (path, name, bit) in enumerate(self._design.netlist.names):
            seen = self._activity.toggles.get((path, name))
            if seen is None and self._design.loads[number] and number != self._design.clock:
                self.unseen += 1
            changes.append(seen.get(bit, 0) if seen else 0)
        return changes

    def _estimate(self) -> None:
        toggles, cycles = self._activity.toggles, self._activity.cycles
        names = self._design.netlist.names
        known = np.array([bit in toggles.get((path, name), ()) for path, name, bit in names])
        ones = np.array(
            [self._activity.high_cycles.get((path, name), {}).get(bit, 0) for path, name, bit in names]
        )
        changes = np.array(self._changes) / cycles
        found = ActivityEstimate(self._design, np.clip(ones / cycles, 0, 1), changes, known)
        self._changes, self._ones = (found.changes * cycles).tolist(), found.ones

    def _add_cell(self, instance: NetlistInstance, energy: Energy) -> None:
        design, cell = self._design, self._design.cell(instance)
        energy.leakage_nw += cell.leakage_nw
        for port, (net, *_) in instance.pins.items():
            if net is None:
                continue
            if net == design.clock:
                # Within the cell both edges of each cycle, and its pin is charged once.
                each = 2 * cell.toggle_pj(port, BUFFER_SLEW_NS, 0) + self._charge_pj(cell.inputs[port])
                energy.clock += self._activity.cycles * each
            elif port in cell.inputs:
                energy.logic += self._changes[net] * cell.toggle_pj(port, BUFFER_SLEW_NS, 0)
            elif self._changes[net]:
                energy.logic += self._changes[net] * self._output_pj(instance, port, net)

    def _output_pj(self, instance: NetlistInstance, port: str, net: int) -> float:
        """pJ of a change: in the cell, on the wire and in the buffers that the net needs."""
        design = self._design
        load, buffers = design.driver_load_pf(net), design.tree(net).buffers
        own = design.cell(instance).toggle_pj(port, BUFFER_SLEW_NS, load)
        wire = design.library.wire(len(design.loads[net]))
        tree_pj = buffers * self._buffer_pj(design.level_load_pf(1)) if buffers else 0.0
        charge = design.pin_pf[net] + wire + buffers * design.buffer_pf
        return own + tree_pj + self._charge_pj(charge) / 2

    def _charge_pj(self, picofarad: float) -> float:
        """pJ of a capacitance that is charged and discharged once."""
        return picofarad * self._design.library.volt**2

    def _buffer_pj(self, load: float) -> float:
        buffer = self._design.buffer
        return buffer.toggle_pj(next(iter(buffer.function)), OUTPUT_SLEW_NS, load)

    def _add_clock_tree(self) -> None:
        """Buffers of the clock, which the netlist does not have, by the share of each unit in what is clocked."""
        design = self._design
        assert design.clock is not None
        sinks = collections.Counter(
            unit_of(design.netlist.instances[number].path) for number, _ in design.loads[design.clock]
        )
        loads = sum(sinks.values())
        buffers = tree(loads, CLOCK_BRANCHES).buffers
        wires = design.library.wire(CLOCK_BRANCHES) * buffers
        each = 2 * self._buffer_pj(design.level_load_pf(CLOCK_BRANCHES)) * buffers
        each += self._charge_pj(buffers * design.buffer_pf + wires)
        for unit, count in sinks.items():
            self.units[unit].clock += self._activity.cycles * each * count / loads

    def _memory_pj(self, instance: NetlistInstance) -> float:
        """pJ of the accesses of a memory, and of the cycles without one; and notes the accesses."""
        design, cycles, figures = self._design, self._activity.cycles, self._design.figures
        shape = design.shapes[instance.kind]
        reads = self._high(instance.pins["read_enable"][0])
        lanes = [self._high(net) for net in instance.pins["write_enable"]]
        granule, writes = shape.bits // shape.lanes, max(lanes)
        bits_written = sum(lanes) * granule
        self.memories.append(
            MemoryUse(".".join((*instance.path, instance.name)), shape.name, reads, bits_written)
        )
        idle = (cycles - reads) + (cycles - writes)
        return (
            reads * shape.bits * figures.read_pj_per_bit
            + bits_written * figures.write_pj_per_bit
            + idle * shape.bits * figures.idle_pj_per_bit
        )

    def _high(self, net: Net) -> int:
        """Cycles in which a net was 1. A constant enable is 1: an enable that is 0 would have left no memory."""
        if net is None:
            return self._activity.cycles
        if self._ones is not None:
            return round(self._ones[net] * self._activity.cycles)
        path, name, bit = self._design.netlist.names[net]
        return self._activity.high_cycles.get((path, name), {}).get(bit, 0)


__all__ = ["CLOCK", "Activity", "Energy", "MemoryUse", "RunEnergy"]
