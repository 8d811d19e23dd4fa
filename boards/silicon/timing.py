"""The latest paths of a netlist, by the delay tables of its library.

Slews and loads as in the tables, rising and falling edges apart; wires by the library's wire-load model, large nets
through trees of buffers. The clock arrives everywhere at once. Of several conditions of an arc the slowest counts, and
a path that no data can take counts, too. No layout, no clock skew, no noise, one corner.
"""

import collections
import dataclasses
from collections.abc import Iterator

from .design import Design, unit_of
from .liberty import BUFFER_SLEW_NS, EDGES, RISE, LibertyError
from .memories import OUTPUT_SLEW_NS

CLOCK_SLEW_NS = 0.1
_NEVER = float("-inf")


@dataclasses.dataclass(frozen=True)
class PathHop:
    """An output on a path and when it is there, ns after the clock's edge."""

    place: str
    kind: str
    at_ns: float


@dataclasses.dataclass(frozen=True)
class PathEnd:
    """Where paths end: a register's input, a memory's input or an output of the machine."""

    at_ns: float
    """When the latest path is there, setup included: the least period."""
    net: int
    edge: int
    place: str
    unit: str


class NetlistTiming:
    """Arrival times of all nets. LibertyError for a loop of logic."""

    def __init__(self, design: Design) -> None:
        self._design = design
        count = len(design.netlist.names)
        self._at = [[_NEVER, _NEVER] for _ in range(count)]
        """When each net rises and falls."""
        self._slew = [[OUTPUT_SLEW_NS, OUTPUT_SLEW_NS] for _ in range(count)]
        self._from: list[list[tuple[int, int] | None]] = [[None, None] for _ in range(count)]
        """The net and edge before."""
        self._extra = [design.tree(net).levels * design.level_ns for net in range(count)]
        """ns of a net's tree of buffers."""
        self._start()
        self._walk()

    def ends(self) -> list[PathEnd]:
        """All, the latest first."""
        return sorted(self._ends(), key=lambda end: (-end.at_ns, end.place))

    def path(self, end: PathEnd) -> list[PathHop]:
        """What leads to an end, from the register on."""
        hops, place = [], (end.net, end.edge)
        while place is not None:
            net, edge = place
            hops.append(PathHop(self._name(net), self._driver_kind(net), self._at[net][edge]))
            place = self._from[net][edge]  # type: ignore[assignment]
        return hops[::-1]

    def start_unit(self, end: PathEnd) -> str:
        """The unit of the register at which the latest path to an end begins."""
        net, edge = end.net, end.edge
        while before := self._from[net][edge]:
            net, edge = before
        driver = self._design.drivers[net]
        return unit_of(self._design.netlist.instances[driver[0]].path) if driver else "ports"

    def _driver_kind(self, net: int) -> str:
        driver = self._design.drivers[net]
        return self._design.netlist.instances[driver[0]].kind if driver else "input"

    def _name(self, net: int) -> str:
        path, name, bit = self._design.netlist.names[net]
        return ".".join((*path, f"{name}[{bit}]"))

    def _start(self) -> None:
        """What comes from registers, memories and ports."""
        design = self._design
        for bits in design.netlist.inputs.values():
            for net in bits:
                if net is not None:
                    self._at[net] = [self._extra[net]] * 2
        for instance in design.netlist.instances:
            if instance.kind in design.shapes:
                for net in instance.pins["read_data"]:
                    if net is not None:
                        self._at[net] = [design.figures.clock_to_output_ns + self._extra[net]] * 2
                continue
            for arc in design.cell(instance).arcs:
                net = instance.pins.get(arc.output, (None,))[0]
                if arc.clocked and net is not None:
                    load = design.driver_load_pf(net)
                    for edge in EDGES:
                        at = arc.delay[edge].at(CLOCK_SLEW_NS, load) + self._extra[net]
                        self._at[net][edge] = max(at, self._at[net][edge])
                        self._slew[net][edge] = self._slew_of(net, arc.slew[edge].at(CLOCK_SLEW_NS, load))

    def _slew_of(self, net: int, own: float) -> float:
        return BUFFER_SLEW_NS if self._design.tree(net).levels else own

    def _walk(self) -> None:
        """Logic, in the order in which it settles."""
        design = self._design
        waits: dict[int, int] = {}
        """Inputs of a gate that other gates drive and that have not been timed yet."""
        gates = {
            number
            for number, instance in enumerate(design.netlist.instances)
            if instance.kind not in design.shapes and design.cell(instance).state is None
        }
        for number in gates:
            nets = {bits[0] for port, bits in design.netlist.instances[number].pins.items()}
            waits[number] = sum(1 for net in nets if net is not None and self._by_gate(net, number, gates))
        ready = collections.deque(number for number in gates if not waits[number])
        done = 0
        while ready:
            number = ready.popleft()
            done += 1
            for net in self._time(number):
                for reader in {reader for reader, _ in design.loads[net]}:
                    if reader in waits:
                        waits[reader] -= 1
                        if not waits[reader]:
                            ready.append(reader)
        if done < len(gates):
            stuck = next(number for number in gates if waits[number] > 0)
            place = ".".join((*design.netlist.instances[stuck].path, design.netlist.instances[stuck].name))
            raise LibertyError(f"logic goes in a loop through {place}: such a netlist has no latest path")

    def _by_gate(self, net: int, reader: int, gates: set[int]) -> bool:
        driver = self._design.drivers[net]
        return driver is not None and driver[0] != reader and driver[0] in gates

    def _time(self, number: int) -> list[int]:
        """Times the outputs of a gate and returns their nets."""
        design, instance = self._design, self._design.netlist.instances[number]
        nets = []
        for arc in design.cell(instance).arcs:
            before, net = instance.pins.get(arc.input, (None,))[0], instance.pins.get(arc.output, (None,))[0]
            if net is None:
                continue
            nets.append(net)
            if before is None:
                continue
            load, extra = design.driver_load_pf(net), self._extra[net]
            at, slew = self._at[net], self._slew[net]
            for edge_before, edge in arc.edges:
                came = self._at[before][edge_before]
                if came == _NEVER:
                    continue
                slew_before = self._slew[before][edge_before]
                now = came + arc.delay[edge].at(slew_before, load) + extra
                if now > at[edge]:
                    at[edge] = now
                    slew[edge] = self._slew_of(net, arc.slew[edge].at(slew_before, load))
                    self._from[net][edge] = before, edge_before
        return list(dict.fromkeys(nets))

    def _ends(self) -> Iterator[PathEnd]:
        design = self._design
        for instance in design.netlist.instances:
            place, unit = ".".join((*instance.path, instance.name)), unit_of(instance.path)
            if instance.kind in design.shapes:
                for port, bits in instance.pins.items():
                    for net in bits if port not in ("clk", "read_data") else ():
                        if net is not None:
                            yield from self._latest(
                                net, [design.figures.setup_ns] * 2, f"{place}.{port}", unit
                            )
                continue
            # A register is known by what it drives; Yosys gives its cell a number.
            outputs = (
                bits[0] for port, bits in instance.pins.items() if port in design.cell(instance).function
            )
            place = next((self._name(net) for net in outputs if net is not None), place)
            for setup in design.cell(instance).setups:
                net = instance.pins.get(setup.pin, (None,))[0]
                if net is not None:
                    needs = [setup.table[edge].at(CLOCK_SLEW_NS, self._slew[net][edge]) for edge in EDGES]
                    yield from self._latest(net, needs, f"{place}.{setup.pin}", unit)
        for name, bits in design.netlist.outputs.items():
            for net in bits:
                if net is not None:
                    yield from self._latest(net, [0.0, 0.0], name, "ports")

    def _latest(self, net: int, needs: list[float], place: str, unit: str) -> Iterator[PathEnd]:
        at = [self._at[net][edge] + needs[edge] for edge in EDGES]
        edge = RISE if at[RISE] >= at[1] else 1
        if at[edge] != _NEVER:
            yield PathEnd(at[edge], net, edge, place, unit)
