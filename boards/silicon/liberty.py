"""Reads a Liberty file: of each cell its area, its delays and its energies, by the library's tables."""

import bisect
import dataclasses
import gzip
import pathlib
import re
from collections.abc import Iterator
from statistics import fmean

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STATEMENT = re.compile(
    r"\s*(?:(?P<end>\})|(?P<name>\w+)\s*(?:\((?P<arguments>[^()]*)\)\s*(?P<group>\{)?|:\s*(?P<value>\"[^\"]*\"|[^;}\n]*)))"
    r"[\s;]*"
)
_UNIT = re.compile(r"([\d.]+)\s*([munpf]?)")
_SPECIAL = ("dont_use", "always_on", "is_isolation_cell", "is_level_shifter")
"""Attributes of cells that are not for logic."""
_SCALE = {"m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15, "": 1.0}


class LibertyError(Exception):
    """The file is not a Liberty file of standard cells with lookup tables; the message is one line."""


@dataclasses.dataclass
class _LibertyGroup:
    """A group of the file, such as `pin ("A") { ... }`."""

    kind: str
    name: str
    other_name: str = ""
    """The second word in the parentheses."""
    values: dict[str, str] = dataclasses.field(default_factory=dict)
    """Simple attributes."""
    lists: dict[str, str] = dataclasses.field(default_factory=dict)
    """Complex attributes: what stands in the parentheses, of the last one of a name."""
    groups: list["_LibertyGroup"] = dataclasses.field(default_factory=list)

    def each(self, *kinds: str) -> Iterator["_LibertyGroup"]:
        return (group for group in self.groups if group.kind in kinds)

    def number(self, name: str, default: float = 0.0) -> float:
        return float(self.values.get(name, default))

    def numbers(self, name: str) -> list[list[float]]:
        text = self.lists.get(name, "")
        rows = re.findall(r'"([^"]*)"', text) or [text]
        return [[float(word) for word in row.replace(",", " ").split()] for row in rows if row.strip()]


@dataclasses.dataclass(frozen=True)
class LookupTable:
    """Values by the slew of an input in ns and, mostly, a load in pF; between two entries a straight line, and beyond
    the last ones the line of the last two."""

    slews: tuple[float, ...]
    loads: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    """Values by slew, then by load."""

    def at(self, slew: float, load: float) -> float:
        """The value there."""
        low, share = _place(self.slews, slew)
        first = _line(self.loads, self.values[low], load)
        if share == 0:
            return first
        return first + share * (_line(self.loads, self.values[low + 1], load) - first)


def _place(axis: tuple[float, ...], value: float) -> tuple[int, float]:
    if len(axis) == 1:
        return 0, 0.0
    low = min(max(bisect.bisect_right(axis, value) - 1, 0), len(axis) - 2)
    return low, (value - axis[low]) / (axis[low + 1] - axis[low])


def _line(axis: tuple[float, ...], values: tuple[float, ...], value: float) -> float:
    low, share = _place(axis, value)
    return values[low] if share == 0 else values[low] + share * (values[low + 1] - values[low])


RISE, FALL = EDGES = 0, 1
BUFFER_SLEW_NS = 0.1
"""Slew at the inputs of buffers that are not in the netlist."""


@dataclasses.dataclass(frozen=True)
class Arc:
    """A way from an input of a cell to an output."""

    input: str
    output: str
    edges: tuple[tuple[int, int], ...]
    """(edge of the input, edge of the output) pairs that it has. Of a clocked output: those of the clock's edge."""
    clocked: bool
    """The input is a clock, whose edge makes the output."""
    delay: tuple[LookupTable, LookupTable]
    """ns of an output that rises, and of one that falls."""
    slew: tuple[LookupTable, LookupTable]


@dataclasses.dataclass(frozen=True)
class Setup:
    """How long before its clock an input must be there, in ns: LookupTable.at(slew of the clock, slew of the input)."""

    pin: str
    table: tuple[LookupTable, LookupTable]


@dataclasses.dataclass(frozen=True)
class StoredBit:
    """The bit of a flip-flop, in Liberty's words."""

    name: str
    """What functions of outputs call it."""
    inverse: str
    """What they call its inverse."""
    clocked_on: str
    """Empty for a latch, and for what is more than a flip-flop."""
    next_state: str


@dataclasses.dataclass
class LibraryCell:
    """A standard cell."""

    name: str
    area_um2: float
    leakage_nw: float
    function: dict[str, str]
    """Functions of the outputs, in Liberty's words; that of a clocked output is the name of its state."""
    inputs: dict[str, float] = dataclasses.field(default_factory=dict)
    """Capacitance of each input in pF."""
    most_load: dict[str, float] = dataclasses.field(default_factory=dict)
    """pF that an output may drive; infinite where the file says nothing."""
    arcs: list[Arc] = dataclasses.field(default_factory=list)
    setups: list[Setup] = dataclasses.field(default_factory=list)
    clocks: tuple[str, ...] = ()
    """Inputs that are clocks."""
    energies: dict[str, list[tuple[LookupTable, ...]]] = dataclasses.field(default_factory=dict)
    """Energies of each pin: pJ of a change of it, for rise and fall, a pair for each condition."""
    special: bool = False
    """Not for logic: the file says so, or it is of a design with several supplies."""
    state: StoredBit | None = None
    """The bit that it holds, if it does."""

    def toggle_pj(self, pin: str, slew: float, load: float) -> float:
        """pJ within the cell of a change of the pin: the mean over conditions and both edges."""
        tables = self.energies.get(pin)
        if not tables:
            return 0.0
        return fmean(table.at(slew, load) for pair in tables for table in pair)


@dataclasses.dataclass
class Library:
    """Standard cells of a process at one corner."""

    name: str
    corner: str
    volt: float
    cells: dict[str, LibraryCell]
    wire_pf: tuple[float, ...] = ()
    """pF of a wire by its number of loads, from 1 on: the default wire-load model, empty without one."""
    wire_pf_more: float = 0.0
    """pF of each load beyond those."""

    def wire(self, loads: int) -> float:
        """pF of the wire to as many loads."""
        if not self.wire_pf or not loads:
            return 0.0
        known = len(self.wire_pf)
        return self.wire_pf[min(loads, known) - 1] + max(loads - known, 0) * self.wire_pf_more

    def buffer(self, load: float) -> LibraryCell:
        """The buffer with the least product of area and delay at a load in pF. LibertyError without one."""

        def cost(cell: LibraryCell) -> float:
            return cell.area_um2 * max(
                table.at(BUFFER_SLEW_NS, load) for arc in cell.arcs for table in arc.delay
            )

        found = [
            cell
            for cell in self.cells.values()
            if not cell.special
            and len(cell.inputs) == len(cell.function) == 1
            and next(iter(cell.function.values())).strip("() ") in cell.inputs
            and cell.arcs
        ]
        if not found:
            raise LibertyError(f"the library {self.name} has no buffer, which the clock and large nets need")
        return min(found, key=cost)


def read_liberty(path: pathlib.Path) -> Library:
    """The library of a file, which may be compressed with gzip. LibertyError for another file."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("latin-1")
    except (OSError, EOFError) as error:
        raise LibertyError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    top = _parse(text)
    if top is None or not any(top.each("cell")):
        raise LibertyError(f"{path} is not a Liberty file with cells (library (name) {{ cell (...) ... }})")
    try:
        return _LibraryReader(top).library()
    except ValueError as error:
        raise LibertyError(f"{path}: a table of the library is not as Liberty has them: {error}") from error


def _parse(text: str) -> _LibertyGroup | None:
    """The outermost group, None where there is none."""
    text = _COMMENT.sub(" ", text).replace("\\\r\n", " ").replace("\\\n", " ")
    root = _LibertyGroup("", "")
    open_groups, place = [root], 0
    while place < len(text) and (found := _STATEMENT.match(text, place)):
        place = found.end()
        if found["end"]:
            open_groups.pop()
            if not open_groups:
                return None
        elif found["group"]:
            words = [word.strip(' "') for word in found["arguments"].split(",")]
            group = _LibertyGroup(found["name"], words[0], words[1] if len(words) > 1 else "")
            open_groups[-1].groups.append(group)
            open_groups.append(group)
        elif found["value"] is not None:
            open_groups[-1].values[found["name"]] = found["value"].strip(' "\t\r')
        else:
            open_groups[-1].lists[found["name"]] = found["arguments"]
    whole = len(open_groups) == 1 and not text[place:].strip()
    return next(root.each("library"), None) if whole else None


class _LibraryReader:
    """Makes cells of groups, in ns, pF, nW and pJ."""

    def __init__(self, top: _LibertyGroup) -> None:
        self.top = top
        conditions = {group.name: group for group in top.each("operating_conditions")}
        self.corner = top.values.get("default_operating_conditions", "") or next(iter(conditions), "")
        volt = conditions[self.corner].number("voltage") if self.corner in conditions else 0.0
        self.volt = volt or top.number("nom_voltage", 1.0)
        self.volt_unit = _unit(top.values.get("voltage_unit", "1V"), 1.0)
        self.ns = _unit(top.values.get("time_unit", "1ns"), 1e-9)
        number, _, name = top.lists.get("capacitive_load_unit", "1,pf").partition(",")
        self.pf = float(number) * _unit("1" + name.strip(' "').lower(), 1e-12)
        self.nw = _unit(top.values.get("leakage_power_unit", "1nW"), 1e-9)
        self.templates = {group.name: group for group in top.each("lu_table_template", "power_lut_template")}

    def library(self) -> Library:
        """All of it."""
        library = Library(self.top.name, self.corner, self.volt, {})
        for group in self.top.each("cell"):
            library.cells[group.name] = self._cell(group)
        wires = {group.name: group for group in self.top.each("wire_load")}
        if wire := wires.get(self.top.values.get("default_wire_load", "")):
            self._set_wires(library, wire)
        return library

    def _set_wires(self, library: Library, wire: _LibertyGroup) -> None:
        # Of several `fanout_length` the last one is kept: the length to each of its loads, and `slope` beyond them.
        last = wire.numbers("fanout_length")
        if not last or len(last[0]) != 2:
            return
        each, (loads, length) = wire.number("capacitance") * self.pf, last[0]
        library.wire_pf = tuple(length * each * count / loads for count in range(1, int(loads) + 1))
        library.wire_pf_more = wire.number("slope") * each

    def _cell(self, group: _LibertyGroup) -> LibraryCell:
        states = [each.number("value") for each in group.each("leakage_power")]
        cell = LibraryCell(
            group.name,
            group.number("area"),
            group.number("cell_leakage_power", fmean(states) if states else 0.0) * self.nw,
            {pin.name: pin.values["function"] for pin in group.each("pin") if "function" in pin.values},
            special=any(group.values.get(name) == "true" for name in _SPECIAL),
            state=_state(group),
        )
        for pin in group.each("pin"):
            if pin.values.get("direction") == "input":
                cell.inputs[pin.name] = pin.number("capacitance") * self.pf
                cell.clocks += (pin.name,) * (pin.values.get("clock") == "true")
            else:
                cell.most_load[pin.name] = pin.number("max_capacitance", float("inf")) * self.pf
            self._add_energies(cell, pin)
        for pin in group.each("pin"):
            for timing in pin.each("timing"):
                self._add_timing(cell, pin.name, timing)
        return cell

    def _add_energies(self, cell: LibraryCell, pin: _LibertyGroup) -> None:
        for power in pin.each("internal_power"):
            for kinds in (("rise_power", "fall_power"), ("power", "power")):
                if tables := self._tables(power, kinds, self.pf * self.volt_unit**2):
                    cell.energies.setdefault(pin.name, []).append(tables)
                    break

    def _add_timing(self, cell: LibraryCell, pin: str, timing: _LibertyGroup) -> None:
        kind = timing.values.get("timing_type", "combinational")
        if kind in ("setup_rising", "setup_falling"):
            if tables := self._tables(timing, ("rise_constraint", "fall_constraint"), self.ns):
                cell.setups.append(Setup(pin, tables))
            return
        clocked = kind in ("rising_edge", "falling_edge")
        if not clocked and not kind.startswith("combinational"):
            return
        delay = self._tables(timing, ("cell_rise", "cell_fall"), self.ns)
        slew = self._tables(timing, ("rise_transition", "fall_transition"), self.ns)
        if delay and slew:
            edge = FALL if kind == "falling_edge" else RISE
            ways = _UNATE.get(timing.values.get("timing_sense", ""), _BOTH)
            edges = ((edge, RISE), (edge, FALL)) if clocked else ways
            for name in timing.values.get("related_pin", "").split():
                cell.arcs.append(Arc(name, pin, edges, clocked, delay, slew))

    def _tables(
        self, group: _LibertyGroup, kinds: tuple[str, str], scale: float
    ) -> tuple[LookupTable, LookupTable] | None:
        """The tables of both edges; the other one's where one is missing, None where both are."""
        rise, fall = (next(group.each(kind), None) for kind in kinds)
        if rise is None and fall is None:
            return None
        return self._table(rise or fall, scale), self._table(fall or rise, scale)

    def _table(self, group: _LibertyGroup | None, scale: float) -> LookupTable:
        assert group is not None
        template = self.templates.get(group.name) or _LibertyGroup("", "")
        axes = [group.numbers(name) or template.numbers(name) or [[0.0]] for name in ("index_1", "index_2")]
        kinds = [template.values.get(f"variable_{place}", "") for place in (1, 2)]
        units = [self.pf if "capacitance" in kind else self.ns for kind in kinds]
        one, other = ([value * unit for value in axis[0]] for axis, unit in zip(axes, units, strict=True))
        rows = [[value * scale for value in row] for row in group.numbers("values")]
        if len(rows) == 1 and len(one) > 1:
            rows = [[value] for value in rows[0]]
        if "capacitance" in kinds[0]:
            one, other, rows = other, one, [list(row) for row in zip(*rows, strict=True)]
        if not rows or len(rows) != len(one) or any(len(row) != len(other) for row in rows):
            raise ValueError(f"{group.kind} ({group.name}) has not a value for each place")
        return LookupTable(tuple(one), tuple(other), tuple(map(tuple, rows)))


def _state(cell: _LibertyGroup) -> StoredBit | None:
    group = next(cell.each("ff", "latch", "ff_bank", "latch_bank", "statetable"), None)
    if group is None:
        return None
    plain = group.kind == "ff" and not {"clear", "preset", "clocked_on_also"} & set(group.values)
    clock = group.values.get("clocked_on", "") if plain else ""
    return StoredBit(group.name, group.other_name, clock, group.values.get("next_state", "0"))


def _unit(text: str, base: float) -> float:
    found = _UNIT.match(text)
    return float(found[1]) * _SCALE[found[2]] / base if found else 1.0


_UNATE = {
    "positive_unate": ((RISE, RISE), (FALL, FALL)),
    "negative_unate": ((FALL, RISE), (RISE, FALL)),
}
_BOTH = ((RISE, RISE), (RISE, FALL), (FALL, RISE), (FALL, FALL))
"""(edge of the input, edge of the output) pairs."""
