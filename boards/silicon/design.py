"""A netlist with its library: what drives each net, what it drives, and the buffers that large nets need."""

import dataclasses
import functools
import math

from tosaic.hw.memory.macros import MemoryShape

from .liberty import BUFFER_SLEW_NS, LibertyError, Library, LibraryCell
from .memories import MemoryFigures
from .netlist import FlatNetlist, Net, NetlistInstance

BRANCHES = 8
"""Loads of a buffer in a tree of buffers; a net with more than twice as many has one."""
CLOCK_BRANCHES = 16
"""Loads of a buffer in the clock tree."""
CLOCK = "clk"


@dataclasses.dataclass(frozen=True)
class Tree:
    """Buffers between a net's driver and its loads."""

    levels: int
    buffers: int
    first: int
    """Buffers that the driver drives."""


def tree(loads: int, branches: int) -> Tree:
    """The least tree for as many loads."""
    levels = buffers = 0
    while loads > branches:
        loads = math.ceil(loads / branches)
        levels, buffers = levels + 1, buffers + loads
    return Tree(levels, buffers, loads if levels else 0)


class Design:
    """LibertyError where the netlist has a cell that the library has not."""

    def __init__(
        self, netlist: FlatNetlist, library: Library, memories: MemoryFigures, shapes: tuple[MemoryShape, ...]
    ) -> None:
        self.netlist, self.library, self.figures = netlist, library, memories
        self.shapes = {shape.name: shape for shape in shapes}
        self.clock: Net = netlist.inputs[CLOCK][0]
        self.buffer: LibraryCell = library.buffer(0.03)
        count = len(netlist.names)
        self.drivers: list[tuple[int, str] | None] = [None] * count
        """Number of the instance and its port, for each net; None for inputs of the machine."""
        self.loads: list[list[tuple[int, str]]] = [[] for _ in range(count)]
        self.pin_pf = [0.0] * count
        """Capacitance of all inputs on a net."""
        for number, instance in enumerate(netlist.instances):
            self._connect(number, instance)
        inputs = {net for bits in netlist.inputs.values() for net in bits}
        for net, loads in enumerate(self.loads):
            if loads and self.drivers[net] is None and net not in inputs:
                path, name, bit = netlist.names[net]
                raise LibertyError(f"nothing drives {'.'.join((*path, name))}[{bit}] of the netlist")

    def _connect(self, number: int, instance: NetlistInstance) -> None:
        memory = instance.kind in self.shapes
        cell = None if memory else self.cell(instance)
        for port, bits in instance.pins.items():
            for net in bits:
                if net is None:
                    continue
                if port == "read_data" if cell is None else port not in cell.inputs:
                    self.drivers[net] = number, port
                else:
                    self.loads[net].append((number, port))
                    self.pin_pf[net] += self.figures.pin_pf if cell is None else cell.inputs[port]

    def cell(self, instance: NetlistInstance) -> LibraryCell:
        """The standard cell of an instance."""
        found = self.library.cells.get(instance.kind)
        if found is None:
            raise LibertyError(f"the netlist has a cell {instance.kind}, which {self.library.name} has not")
        return found

    def tree(self, net: int) -> Tree:
        """The buffers that a net needs, beside those of the netlist."""
        return self._tree(len(self.loads[net]))

    @functools.cache  # noqa: B019 (a design lives as long as the program)
    def _tree(self, loads: int) -> Tree:
        return tree(loads, BRANCHES) if loads > 2 * BRANCHES else Tree(0, 0, 0)

    def driver_load_pf(self, net: int) -> float:
        """What the driver of a net drives: all its loads, or the first buffers."""
        buffers = self.tree(net).first
        if buffers:
            return buffers * self.buffer_pf + self.library.wire(buffers)
        return self.pin_pf[net] + self.library.wire(len(self.loads[net]))

    @functools.cached_property
    def buffer_pf(self) -> float:
        """Capacitance of a buffer's input."""
        return next(iter(self.buffer.inputs.values()))

    def level_load_pf(self, branches: int) -> float:
        """What a buffer within a tree drives."""
        return branches * self.buffer_pf + self.library.wire(branches)

    @functools.cached_property
    def level_ns(self) -> float:
        """Delay of a level of buffers."""
        load = self.level_load_pf(BRANCHES)
        return max(table.at(BUFFER_SLEW_NS, load) for arc in self.buffer.arcs for table in arc.delay)


def unit_of(path: tuple[str, ...]) -> str:
    """The unit that an instance belongs to, of all cores together: `array`, `vector`, ... or `top`."""
    inner = [name for name in path[1:] if not (name.startswith("core") and name[4:].isdigit())]
    return inner[0] if inner else "top"
