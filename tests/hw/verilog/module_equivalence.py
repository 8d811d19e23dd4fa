"""Yosys' proof that Verilog computes what Amaranth's RTLIL does, module by module, for all inputs and states.

Instances become ports of the module that has them, so each module is proved for itself: with the same connections
around equal modules, the whole is equal. Registers and memories have the same names on both sides, as the converter
tells, and one step from equal states gives equal states; that they begin equally is compared."""

import pathlib
from collections.abc import Iterator, Sequence

from tosaic.boards.tools import run_tool
from tosaic.hw.verilog.convert import Converted, Original
from tosaic.hw.verilog.rtlil import Cell, Constant, Netlist, RtlilSlice, read_rtlil

MEMORY = ("ABITS", "INIT", "MEMID", "OFFSET", "RD_CLK_ENABLE", "RD_PORTS", "SIZE", "WIDTH", "WR_CLK_ENABLE")
"""Parameters of memories that must be equal."""


def prove(rtlil: str, modules: Sequence[Converted], folder: pathlib.Path) -> int:
    """How many modules of RTLIL are proved to be what was written; AssertionError or ToolError where one is not, with
    what it is in unproven.txt."""
    written = {original.name: (module, original) for module in modules for original in module.originals}
    gold: dict[tuple[str, str], str] = {}
    for name, text in _renamed(rtlil, written):
        # Copies with the same text are proved once.
        gold.setdefault((written[name][0].name, text), f"gold_{len(gold)}")
    (folder / "gold.il").write_text(
        "".join(f"module \\{name}\n{text}end\n" for (_, text), name in gold.items())
    )
    for module in modules:
        text = module.text.replace(f"module {module.name} (", f"module gate_{module.name} (", 1)
        (folder / f"{module.name}.v").write_text(text)
    (folder / "boxes.il").write_text("".join(f"{line}\n" for module in modules for line in _box(module)))
    pairs = [(name, f"gate_{gate}", name.replace("gold", "equal")) for (gate, _), name in gold.items()]
    read = (
        f"read_verilog -DSYNTHESIS {' '.join(f'{module.name}.v' for module in modules)}",
        "read_rtlil gold.il",
        "read_rtlil boxes.il",
        "proc -norom",
        # What a memory is given when nothing is written is any value.
        "opt_expr -mux_undef",
        "memory_nordff",
        # A byte's enable makes a port of its own in Verilog.
        "memory_share -nosat -nowiden",
        "memory_collect",
        "opt_expr -mux_undef",
        "opt_clean",
        "write_rtlil states.il",
    )
    _yosys(read, folder, "read")
    text = (folder / "states.il").read_text()
    (folder / "masked.il").write_text("".join(f"{line}\n" for line in _masked(text)))
    compare = (
        "read_rtlil masked.il",
        "expose -evert c:* t:$* %d t:$mem_v2 %u",
        *(f"equiv_make {gold} {gate} {equal}" for gold, gate, equal in pairs),
        "select equal_*",
        "equiv_simple",
        "equiv_induct",
        "tee -q -o unproven.txt equiv_status",
        "equiv_status -assert",
    )
    _yosys(compare, folder, "compare")
    states = {module.name: module for module in read_rtlil(text)}
    for gold, gate, _ in pairs:
        assert _ports(states[gold]) == _ports(states[gate]), gate
        before, after = _starts(states[gold]), _starts(states[gate])
        assert {name: before.get(name) for name in after} == after, gate
    return len(pairs)


def _yosys(commands: Sequence[str], folder: pathlib.Path, name: str) -> None:
    (folder / f"{name}.ys").write_text("\n".join(commands))
    run_tool("yosys", ("-q", f"{name}.ys"), folder, folder / f"{name}.log", lambda detail: None)


def _masked(text: str) -> Iterator[str]:
    """The text with what is written to memories 0 where nothing is written: any value does there."""
    cell: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["cell", "$mem_v2"]:
            cell = [line]
        elif not cell:
            yield line
        else:
            cell.append(line)
            if line == "  end":
                yield from _with_mask(cell)
                cell = []


def _with_mask(cell: list[str]) -> Iterator[str]:
    name = cell[0].split()[2]
    values = {line.split()[1]: line.split(maxsplit=2)[2] for line in cell[1:-1]}
    bits = int(values["\\WIDTH"]) * int(values["\\WR_PORTS"])
    if bits:
        yield f"  wire width {bits} {name}.masked"
        # Its name is not one of those that are compared.
        yield f"  cell $and $mask{name}"
        yield from (f"    parameter \\{port}_SIGNED 0" for port in "AB")
        yield from (f"    parameter \\{port}_WIDTH {bits}" for port in "ABY")
        yield "    connect \\A " + values["\\WR_DATA"]
        yield "    connect \\B " + values["\\WR_EN"]
        yield f"    connect \\Y {name}.masked"
        yield "  end"
    for line in cell:
        written = bits and line.split()[:2] == ["connect", "\\WR_DATA"]
        yield f"    connect \\WR_DATA {name}.masked" if written else line


def _box(module: Converted) -> Iterator[str]:
    """A module without contents, for its instances on both sides."""
    yield from ("attribute \\blackbox 1", f"module \\{module.name}")
    for number, port in enumerate(module.ports):
        yield f"  wire width {port.bits} {port.direction} {number + 1} \\{port.name}"
    yield "end"


def _ports(module: Netlist) -> dict[str, tuple[str, int]]:
    return {wire.name: (wire.direction, wire.bits) for wire in module.wires.values() if wire.direction}


def _starts(module: Netlist) -> dict[str, object]:
    """What registers begin with, and memories: these with zeros where nothing is said."""
    starts = {
        name: wire.attributes["init"] for name, wire in module.wires.items() if "init" in wire.attributes
    }
    # Yosys says it of one name of a register.
    for target, value in module.connections * 2:
        if len(value) == 1 and isinstance(value[0], RtlilSlice) and isinstance(target[0], RtlilSlice):
            names = (target[0].wire, value[0].wire)
            starts |= {names[i]: starts[names[1 - i]] for i in range(2) if names[1 - i] in starts}
    for cell in module.contents:
        if isinstance(cell, Cell) and cell.kind == "$mem_v2":
            parameters = {name: cell.parameters[name] for name in MEMORY}
            words = cell.parameters["INIT"]
            assert isinstance(words, Constant)
            starts[cell.name] = parameters | {"INIT": words.digits.replace("x", "0")}
    return {name: start for name, start in starts.items() if name[0] == "\\" and name != "\\at_start"}


def _renamed(rtlil: str, written: dict[str, tuple[Converted, Original]]) -> Iterator[tuple[str, str]]:
    """Each module's name, and its text with the names that signals and instances have in Verilog."""
    for netlist, lines in zip(read_rtlil(rtlil), _modules(rtlil), strict=True):
        original = written[netlist.name][1]
        names = _names(netlist, original)
        declared: set[str] = set()
        child = ""
        text: list[str] = []
        for line in lines:
            words = line.split()
            if words[0] == "attribute":
                if words[1] == "\\init":
                    text.append(line)
                continue
            if words[0] in ("wire", "memory"):
                if names[words[-1]] in declared:
                    continue
                declared.add(names[words[-1]])
            if words[0] == "cell":
                child = words[1].removeprefix("\\")
                if child in written:
                    words[1:] = [f"\\{written[child][0].name}", f"\\{original.instances[words[2]]}"]
                    ports: set[str] = set()
            elif words[0] == "connect" and line.startswith("    ") and child in written:
                words[1] = "\\" + written[child][1].signals.get(words[1], words[1].removeprefix("\\"))
                if words[1] in ports or words[2:] == ["{", "}"]:
                    continue
                ports.add(words[1])
                words[2:] = [names.get(word, word) for word in words[2:]]
                text.append(f"    {' '.join(words)}")
                continue
            elif words[1:2] == ["\\MEMID"]:
                name = words[2].strip('"').replace("\\\\", "\\")
                words[2] = '"' + names[name].replace("\\", "\\\\") + '"'
            elif words[0] == "end":
                child = "" if line.startswith("  ") else child
            text.append(" ".join(words if words[0] == "cell" else (names.get(word, word) for word in words)))
        yield netlist.name, "".join(f"{line}\n" for line in text)


def _names(netlist: Netlist, original: Original) -> dict[str, str]:
    """Of wires and memories; what is not in the Verilog has a number."""
    names: dict[str, str] = {}
    ports = [wire.name for wire in netlist.wires.values() if wire.direction]
    registers = [wire.name for wire in netlist.wires.values() if "init" in wire.attributes]
    taken: set[str] = set()
    for name in [*ports, *registers, *netlist.wires, *netlist.memories]:
        new = original.signals.get(name, "")
        if name in names:
            continue
        is_inner = name not in ports
        if not new or new.startswith(("\\", "$")) or (is_inner and new in taken):
            names[name] = f"\\gold.{len(names)}"
        else:
            names[name] = f"\\{new}"
            taken.add(new)
    return names


def _modules(rtlil: str) -> Iterator[list[str]]:
    """Lines between `module` and its `end`, without empty ones."""
    lines: list[str] = []
    for line in rtlil.splitlines():
        if line.startswith("module"):
            lines = []
        elif line == "end":
            yield lines
        elif line.strip():
            lines.append(line)
