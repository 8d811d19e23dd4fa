"""Bits of the RTL's netlist that no output depends on, in however many cycles: a change of them is none.

Such bits are, for example, those of an address beyond the memory: sums carry upwards only, so what is read does not
depend on them, but their register depends on them itself, and an optimizer of whole registers leaves it. Each bit is
followed by itself, through registers and columns of memories, from the outputs back.
"""

import collections
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rtl_netlist import Mutant, yosys

Bit = int | str
"""A bit of a wire, "0" or "1", or a column of a memory."""
Cell = Mapping[str, Any]

_BITWISE = {"$and", "$or", "$xor", "$xnor", "$not"}
_CARRYING = {"$add", "$sub", "$neg", "$mul"}
"""Bit i depends on bits up to i."""
REGISTER = re.compile(r"\$s?dff(e|ce)?")


def _own_bits(port: Sequence[Bit], index: int, signed: bool) -> Sequence[Bit]:
    """Bit `index` of an operand that is extended."""
    return port[index : index + 1] or (port[-1:] if signed else ())


def _sources(cell: Cell) -> Iterator[tuple[Bit, str, int]]:
    """For each bit that a cell makes: (that bit, port, index) of all that it depends on."""
    kind, ports, signed = cell["type"], cell["connections"], cell["parameters"]
    inputs = [port for port, way in cell["port_directions"].items() if way == "input"]
    outputs = [port for port, way in cell["port_directions"].items() if way == "output"]
    width = len(ports[outputs[0]]) if outputs else len(ports["DATA"])
    for index in range(width):
        for port in inputs:
            bits = ports[port]
            if kind in _BITWISE:
                last = len(bits) - 1 if int(signed[f"{port}_SIGNED"], 2) else index
                used: Sequence[int] = [min(index, last)]
            elif kind in _CARRYING:
                used = range(min(index, len(bits) - 1) + 1)
            elif kind == "$mux" and port != "S":
                used = [index]
            elif kind == "$pmux" and port != "S":
                used = range(index, len(bits), width)
            elif (REGISTER.fullmatch(kind) and port == "D") or (
                kind.startswith("$memwr") and port in ("DATA", "EN")
            ):
                used = [index]
            else:
                used = range(len(bits))
            for place in used:
                if place < len(bits):
                    yield _made(cell, index), port, place


def _made(cell: Cell, index: int) -> Bit:
    """Bit `index` of what a cell makes; of one that writes a memory a column of it."""
    if cell["type"].startswith("$memwr"):
        return f"{cell['parameters']['MEMID']} {index}"
    (output,) = (port for port, way in cell["port_directions"].items() if way == "output")
    return cell["connections"][output][index]


class Reach:
    """What the outputs of a netlist, Yosys' JSON of a flat module, depend on."""

    def __init__(self, module: Mapping[str, Any]):
        self._cells: Mapping[str, Cell] = module["cells"]
        self._uses = {name: list(_sources(cell)) for name, cell in self._cells.items()}
        before = collections.defaultdict[Bit, list[Bit]](list)
        for name, uses in self._uses.items():
            ports = self._cells[name]["connections"]
            for made, port, index in uses:
                before[made].append(ports[port][index])
        for cell in self._cells.values():
            if cell["type"].startswith("$memrd"):
                for index, bit in enumerate(cell["connections"]["DATA"]):
                    before[bit].append(f"{cell['parameters']['MEMID']} {index}")
        outputs = [port["bits"] for port in module["ports"].values() if port["direction"] == "output"]
        left = [bit for bits in outputs for bit in bits]
        self._read = set(left)
        while left:
            for bit in before[left.pop()]:
                if bit not in self._read:
                    self._read.add(bit)
                    left.append(bit)

    def is_read(self, mutant: Mutant) -> bool:
        """Whether some output depends on what the mutant changes."""
        words = dict(re.findall(r"-(cell|port|portbit) (\S+)", mutant.change))
        cell = self._cells[words["cell"].removeprefix("\\")]
        port, place = words["port"].removeprefix("\\"), int(words.get("portbit", 0))
        if cell["port_directions"][port] == "output":
            return cell["connections"][port][place] in self._read
        return any(
            made in self._read
            for made, *where in self._uses[words["cell"].removeprefix("\\")]
            if where == [port, place]
        )


def unread(mutants: Sequence[Mutant], folder: pathlib.Path) -> set[Mutant]:
    """Those of the netlist in `folder` that change no bit on which an output depends."""
    yosys("read_rtlil netlist.il\nwrite_json netlist.json\n", folder)
    reach = Reach(json.loads((folder / "netlist.json").read_text())["modules"]["tosaic"])
    return {mutant for mutant in mutants if not reach.is_read(mutant)}
