"""The netlist for the solver, without what no reset machine does: for the solver alone each state is possible.

- Bits of registers and memories that are 0 for ever, because all that is written there is 0 when they are: those of a
  part that the configuration does not have, for example.
- Data that a memory is offered and does not write.
- States that cannot be reached. What is said of them here is proved by Yosys' SAT solver: it holds behind the reset,
  whatever was before, and when it holds it holds a cycle later, whatever the inputs and the memories are.

All this is true of the machine without a fault. A change that does nothing in any of these states never leads out of
them. What registers hold before the first reset is left out, as results do not depend on it
(tests/rtl/test_rtl_unknown_start.py).
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

from rtl_netlist import yosys
from rtl_unread import Bit, Cell

REACHABLE = "reachable.il"
_CELL = re.compile(r"^(  cell (\S+) (\S+)\n(.*?)^  end\n)", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"^    connect \\(\S+) (.*)$", re.MULTILINE)
TOP = "module \\tosaic"
_MOST_TURNS = 50
"""Of the search for bits that are 0: each turn takes some away."""
PROOF = """read_rtlil proof.il
read_verilog known.v
hierarchy -top tosaic
flatten
delete t:$mem*
dffunmap
select -set asked o:known_{number}
delete -port tosaic/o:* @asked %d
opt_clean -purge
tee -q -o base.txt sat -seq 2 -prove-skip 1 -set-at 1 rst 1 -prove known_{number} 1 tosaic
tee -q -o step.txt sat -seq 2 -prove-skip 1 -set-at 1 known_{number} 1 -prove known_{number} 1 tosaic
"""


@dataclasses.dataclass(frozen=True)
class Known:
    """Something that is always true of these signals of the netlist."""

    signals: Mapping[str, tuple[int, str]]
    """Name in `rule`: width, and name in the netlist."""
    rule: str
    """In Verilog."""


def rules(text: str) -> list[Known]:
    """Those whose signals the netlist has."""
    widths = {
        name: int(width or 1)
        for width, name in re.findall(r"^  wire (?:width (\d+) )?.*?(\\\S+)$", text, re.MULTILINE)
    }
    return [*_queues(text, widths), *_parameters(widths), *_program(text, widths)]


def _queues(text: str, widths: Mapping[str, int]) -> list[Known]:
    """A queue's memory has several words only while its output has one, too."""
    found = []
    for _, kind, _, body in _CELL.findall(text):
        port = dict(_PORT.findall(body))
        if kind == "$add" and re.fullmatch(r"\\.*\.fifo\.level", port["Y"]):
            inner, ready = port["A"], port["B"]
            if inner.endswith(".inner_level") and ready in widths:
                signals = {"inner": (widths[inner], inner), "ready": (1, ready)}
                found.append(Known(signals, "ready | inner <= 1"))
    return found


def _parameters(widths: Mapping[str, int]) -> list[Known]:
    """VECTOR's parameters: the number of a word is one that the first kind that is left has."""
    place = r"\accelerator.vector.fetch."
    names = {"word": place + "$like", "last": place + "$like$27"}
    kinds = ("bias", "narrow_bias", "multiplier", "shift", "table", "offsets")
    names |= {kind: f"{place}{kind}_left" for kind in kinds}
    if not all(name in widths for name in names.values()):
        return []
    rule = """bias ? word <= 3 : narrow_bias ? word <= 1 : multiplier ? word <= 3 : shift ? word == 0 :
        table_ | offsets ? word <= last : word == 0"""
    signals = {key.replace("table", "table_"): (widths[name], name) for key, name in names.items()}
    return [Known(signals, rule)]


def _program(text: str, widths: Mapping[str, int]) -> list[Known]:
    """The sequencer's fetch: no more is asked for than is left, and no program has more than 2**24 instructions."""
    place = "\\accelerator.sequencer.fetch."
    names = {"left": place + "$signal$5", "entries": place + "$signal$36", "fits": place + "$signal$9"}
    for _, kind, _, body in _CELL.findall(text):
        port = dict(_PORT.findall(body))
        if kind == "$not" and port["Y"] == place + "$5":
            names["asks"] = port["A"]
    if len(names) < 4 or not all(name in widths for name in names.values()):
        return []
    rule = "(asks | ~fits | entries <= left) & (left >> 24 == 0)"
    return [Known({key: (widths[name], name) for key, name in names.items()}, rule)]


def _module(number: int, known: Known) -> str:
    ports = ", ".join(f"input [{width - 1}:0] {key}" for key, (width, _) in known.signals.items())
    return f"module known_rule_{number}({ports}, output known);\nassign known = {known.rule};\nendmodule\n"


def _instance(number: int, known: Known) -> str:
    connections = "".join(f"    connect \\{key} {name}\n" for key, (_, name) in known.signals.items())
    connections += f"    connect \\known \\known_{number}\n"
    return f"  cell \\known_rule_{number} \\known_cell_{number}\n{connections}  end\n"


def _with(text: str, added: Sequence[str]) -> str:
    """The netlist and what is added: wires in front, for nothing may name them before."""
    wires = [each for each in added if each.startswith("  wire ")]
    others = [each.rstrip("\n") for each in added if each not in wires]
    text = text.replace(TOP, "\n".join([TOP, *wires]), 1)
    head, end = text.rsplit("\nend\n", 1)
    return "\n".join([head, *others, "end", end])


def proved(text: str, folder: pathlib.Path) -> list[Known]:
    """Those of the rules that the solver proves of a netlist."""
    known = rules(text)
    wires = [f"  wire output {20000 + number} \\known_{number}" for number in range(len(known))]
    instances = [_instance(number, each) for number, each in enumerate(known)]
    (folder / "proof.il").write_text(_with(text, [*wires, *instances]))
    (folder / "known.v").write_text("".join(_module(number, each) for number, each in enumerate(known)))
    true = []
    for number, each in enumerate(known):
        yosys(PROOF.format(number=number), folder)
        texts = [(folder / name).read_text() for name in ("base.txt", "step.txt")]
        if all("no model found: SUCCESS!" in text for text in texts):
            true.append(each)
    return true


class Zeros:
    """The bits of registers and memories of a netlist, Yosys' JSON of a flat module, that are always 0."""

    def __init__(self, cells: Mapping[str, Cell]):
        self._made: dict[Bit, tuple[Cell, int]] = {}
        self._states = dict[Bit, list[Bit]]()
        """Of each bit of a register, or column of a memory: the bits that are written there."""
        self._columns = dict[Bit, Bit]()
        """Of each bit that is read of a memory: its column."""
        for cell in cells.values():
            kind, ports, given = cell["type"], cell["connections"], cell["parameters"]
            if kind.startswith("$memwr"):
                for index, bit in enumerate(ports["DATA"]):
                    self._states.setdefault(f"{given['MEMID']} {index}", []).append(bit)
            elif kind.startswith("$memrd"):
                for index, bit in enumerate(ports["DATA"]):
                    self._columns[bit] = f"{given['MEMID']} {index}"
            elif re.fullmatch(r"\$s?dff(e|ce)?", kind):
                resets = given.get("SRST_VALUE", "0" * len(ports["Q"]))[::-1]
                for bit, data, reset in zip(ports["Q"], ports["D"], resets, strict=True):
                    self._states[bit] = [data, reset]
            elif "Y" in ports:
                for index, bit in enumerate(ports["Y"]):
                    self._made[bit] = cell, index
        self.bits = {state for state in self._states if isinstance(state, int)}
        self._columns_left = {state for state in self._states if isinstance(state, str)}
        for _ in range(_MOST_TURNS):
            self._known: dict[Bit, int | None] = {}
            left = {state for state in self.bits | self._columns_left if self._stays(state)}
            if left == self.bits | self._columns_left:
                break
            self.bits, self._columns_left = self.bits & left, self._columns_left & left
        else:
            self.bits, self._columns_left = set(), set()
        self.bits |= {bit for bit, column in self._columns.items() if column in self._columns_left}

    def _stays(self, state: Bit) -> bool:
        return all(self._value(bit) == 0 for bit in self._states[state])

    def _value(self, bit: Bit) -> int | None:
        """0 or 1, if that is certain."""
        if isinstance(bit, str):
            return int(bit) if bit in "01" else None
        if bit in self._states:
            return 0 if bit in self.bits else None
        if bit in self._columns:
            return 0 if self._columns[bit] in self._columns_left else None
        if bit not in self._known:
            self._known[bit] = None
            if bit in self._made:
                self._known[bit] = self._computed(*self._made[bit])
        return self._known[bit]

    def _computed(self, cell: Cell, index: int) -> int | None:
        kind, ports = cell["type"], cell["connections"]

        def at(port: str) -> int | None:
            return self._value(ports[port][index]) if index < len(ports[port]) else None

        if kind == "$and":
            return 0 if 0 in (at("A"), at("B")) else None
        if kind == "$or":
            return 0 if at("A") == at("B") == 0 else None
        if kind == "$mux":
            choice = self._value(ports["S"][0])
            if choice is not None:
                return at("AB"[choice])
            return 0 if at("A") == at("B") == 0 else None
        if kind == "$pmux":
            values = [self._value(bit) for bit in ports["B"][index :: len(ports["A"])]]
            return 0 if all(value == 0 for value in (at("A"), *values)) else None
        if kind in ("$reduce_or", "$reduce_bool"):
            return 0 if index or all(self._value(bit) == 0 for bit in ports["A"]) else None
        return None


def _without_zeros(text: str, folder: pathlib.Path) -> str:
    """Readers of bits that are always 0 get a 0."""
    yosys("read_rtlil netlist.il\nwrite_json netlist.json\n", folder)
    cells = json.loads((folder / "netlist.json").read_text())["modules"]["tosaic"]["cells"]
    zeros = Zeros(cells).bits
    by_name = {name.lstrip("\\"): cell for name, cell in cells.items()}

    def changed(kind: str, name: str, body: str, port: Mapping[str, str], added: list[str]) -> str:
        output = "Q" if "dff" in kind else "DATA" if kind.startswith("$memrd") else ""
        bits = by_name[name.lstrip("\\")]["connections"].get(output, ()) if output else ()
        if not any(bit in zeros for bit in bits):
            return body
        fresh = f"\\known_state_{len(added)}"
        parts = " ".join("1'0" if bit in zeros else f"{fresh} [{at}]" for at, bit in enumerate(bits))
        added += [f"  wire width {len(bits)} {fresh}", f"  connect {port[output]} {{ {_reversed(parts)} }}"]
        return body.replace(f"    connect \\{output} {port[output]}\n", f"    connect \\{output} {fresh}\n")

    return edited(text, changed)


def _reversed(parts: str) -> str:
    """A list of bits, the last one first."""
    return " ".join(reversed(re.findall(r"1'0|\S+ \[\d+\]", parts)))


def _without_unwritten(text: str) -> str:
    """What a memory is offered is 0 where it is not written."""

    def changed(kind: str, name: str, body: str, port: Mapping[str, str], added: list[str]) -> str:
        if not kind.startswith("$memwr"):
            return body
        match = re.search(r"parameter \\WIDTH (\d+)", body)
        assert match
        width, fresh = match[1], f"\\known_written_{len(added)}"
        sizes = "".join(
            f"    parameter \\{side}_WIDTH {width}\n    parameter \\{side}_SIGNED 0\n" for side in "AB"
        )
        added += [
            f"  wire width {width} {fresh}",
            f"  cell $and $known_and_{len(added)}\n{sizes}    parameter \\Y_WIDTH {width}",
            f"    connect \\A {port['DATA']}\n    connect \\B {port['EN']}\n    connect \\Y {fresh}\n  end",
        ]
        return body.replace(f"    connect \\DATA {port['DATA']}\n", f"    connect \\DATA {fresh}\n")

    return edited(text, changed)


def edited(text: str, changed: Callable[[str, str, str, Mapping[str, str], list[str]], str]) -> str:
    """The netlist with each cell's body changed, and what else is added."""
    added = list[str]()

    def edit(match: re.Match[str]) -> str:
        whole, kind, name, body = match.groups()
        return whole.replace(body, changed(kind, name, body, dict(_PORT.findall(body)), added), 1)

    return _with(_CELL.sub(edit, text), added)


def write_reachable(folder: pathlib.Path) -> None:
    """Makes REACHABLE of the netlist in `folder`: the same cells, so that it has the same mutants."""
    text = (folder / "netlist.il").read_text()
    known = proved(text, folder)
    text = _without_unwritten(_without_zeros(text, folder))
    added = []
    for number, each in enumerate(known):
        added += [f"  wire \\known_{number}", _instance(number, each)]
        assumed = f"    connect \\A \\known_{number}\n    connect \\EN 1'1\n"
        added.append(f"  cell $assume $known_assume_{number}\n{assumed}  end\n")
    (folder / "assumed.il").write_text(_with(text, added))
    (folder / "known.v").write_text("".join(_module(number, each) for number, each in enumerate(known)))
    script = "read_rtlil assumed.il\nread_verilog known.v\nhierarchy -top tosaic\nflatten\n"
    yosys(f"{script}opt_clean\nwrite_rtlil {REACHABLE}\n", folder)


__all__ = ["REACHABLE", "edited", "write_reachable"]
