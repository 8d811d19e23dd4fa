"""Mutants of the RTL of which it is proved that no later cycle shows the change, though registers may differ.

Two machines, one with the change, are in the same state but for registers that are not read now: each of these has a
condition under which it is read (Loose), for example that of a valid word. Some facts hold in every state. Yosys' SAT
solver proves: whatever the state and the inputs are, after a cycle all registers, memories and outputs are the same
again, but for those that are not read then, and the facts hold again. Both begin in the same state, that of the RTL's
initial values, in which the facts hold. So an output is never another one.
"""

import collections
import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rtl_netlist import Mutant, yosys
from rtl_unread import REGISTER, Bit, Cell

SAT_SECONDS = 60


class Logic:
    """Cells of one bit that are added to a netlist."""

    def __init__(self, first: int):
        self._next, self._made = first, 0
        self.cells: dict[str, Cell] = {}

    def bit(self) -> int:
        self._next += 1
        return self._next - 1

    def cell(self, kind: str, **ports: Bit) -> int:
        out, self._made = self.bit(), self._made + 1
        connections = {name: [bit] for name, bit in ports.items()} | {"Y": [out]}
        parameters = {f"{name}_WIDTH": 1 for name in connections} if kind != "$mux" else {"WIDTH": 1}
        if kind != "$mux":
            parameters |= {f"{name}_SIGNED": 0 for name in ports}
        directions = {name: "input" for name in ports} | {"Y": "output"}
        self.cells[f"made{self._made}"] = _cell(kind, parameters, connections, directions)
        return out

    def xor(self, a: Bit, b: Bit) -> Bit:
        return self.cell("$xor", A=a, B=b)

    def both(self, a: Bit, b: Bit) -> Bit:
        return self.cell("$and", A=a, B=b)

    def no(self, a: Bit) -> Bit:
        return self.cell("$not", A=a)

    def either(self, bits: Iterable[Bit]) -> Bit:
        result: Bit = "0"
        for bit in bits:
            result = self.cell("$or", A=result, B=bit)
        return result

    def all(self, bits: Iterable[Bit]) -> Bit:
        result: Bit = "1"
        for bit in bits:
            result = self.both(result, bit)
        return result

    def choose(self, which: Bit, one: Bit, other: Bit) -> Bit:
        return self.cell("$mux", A=other, B=one, S=which)


def _cell(kind: str, parameters: Mapping[str, Any], connections: Any, directions: Any) -> Cell:
    return {
        "hide_name": 0,
        "type": kind,
        "parameters": parameters,
        "attributes": {},
        "port_directions": directions,
        "connections": connections,
    }


class State:
    """What a fact or a condition is made of: bits of registers by name, now or after the cycle."""

    def __init__(self, logic: Logic, wires: Mapping[str, Sequence[Bit]], value: Callable[[Bit], Bit]):
        self.logic, self._wires, self._value = logic, wires, value

    def bits(self, name: str, first: int = 0, width: int | None = None) -> list[Bit]:
        """Of the wire accelerator.`name`."""
        bits = self._wires[f"accelerator.{name}"]
        last = len(bits) if width is None else first + width
        return [self._value("0" if bit == "x" else bit) for bit in bits[first:last]]

    def bit(self, name: str, index: int = 0) -> Bit:
        return self.bits(name, index, 1)[0]

    def equals(self, bits: Sequence[Bit], value: int) -> Bit:
        return self.logic.all(
            bit if value >> place & 1 else self.logic.no(bit) for place, bit in enumerate(bits)
        )

    def implies(self, condition: Bit, then: Bit) -> Bit:
        return self.logic.either((self.logic.no(condition), then))

    def same(self, a: Sequence[Bit], b: Sequence[Bit]) -> Bit:
        return self.logic.all(self.logic.no(self.logic.xor(x, y)) for x, y in zip(a, b, strict=True))

    all = property(lambda self: self.logic.all)
    either = property(lambda self: self.logic.either)
    no = property(lambda self: self.logic.no)


@dataclasses.dataclass(frozen=True)
class Loose:
    """Bits of a register that differ from those of the other machine, at most while `read` is 0; or they differ by
    `other`, always."""

    wire: str
    bits: tuple[int, ...]
    read: Callable[[State], Bit] = lambda _: "0"
    other: Callable[[State], Bit] | None = None


Fact = Callable[[State], Bit]


class Twins:
    """A machine and the one with the change, for one cycle: a module with two outputs, `assumed` and `wrong`."""

    def __init__(
        self, module: Mapping[str, Any], mutant: Mutant, loose: Sequence[Loose], facts: Sequence[Fact]
    ):
        self._module, self._mutant = module, mutant
        self._cells: dict[str, Cell] = dict(module["cells"])
        self._wires = {name: wire["bits"] for name, wire in module["netnames"].items()}
        highest = max(bit for wire in self._wires.values() for bit in wire if isinstance(bit, int))
        self._logic = Logic(highest + 1)
        self._other: dict[Bit, Bit] = {}
        """Bits that may differ: what they are in the other machine."""
        self._next: dict[Bit, Bit] = {}
        self._state = [cell for cell in self._cells.values() if REGISTER.fullmatch(cell["type"])]
        self._now = State(self._logic, self._wires, lambda bit: bit)
        self._then = State(self._logic, self._wires, self._following)
        self._owner = {bit: cell for cell in self._state for bit in cell["connections"]["Q"]}
        self._name_of = {id(cell): name for name, cell in self._cells.items()}
        self._loose, self._facts = loose, facts

    def _following(self, bit: Bit) -> Bit:
        """What a register's bit will be; what is used nowhere is 0."""
        if isinstance(bit, str):
            return bit if bit == "1" else "0"
        if bit not in self._next:
            cell = self._owner[bit]
            self._next[bit] = self._after(cell, cell["connections"]["Q"].index(bit), lambda _, __, b: b)
        return self._next[bit]

    def _after(self, cell: Cell, index: int, seen: Callable[[str, int, Bit], Bit]) -> Bit:
        """What bit `index` of a register will be, if it sees `seen` of its ports (port, index, bit)."""
        ports, kind, logic = cell["connections"], cell["type"], self._logic
        parameters = {name: int(value, 2) for name, value in cell["parameters"].items() if "x" not in value}
        value = seen("D", index, ports["D"][index])

        def active(port: str) -> Bit:
            bit = seen(port, 0, ports[port][0])
            return bit if parameters[f"{port}_POLARITY"] else logic.no(bit)

        old = seen("Q", index, ports["Q"][index])
        start = cell["parameters"].get("SRST_VALUE", "")[::-1]
        fixed = (start[index] if index < len(start) and start[index] in "01" else "0") if start else "0"
        if kind in ("$sdff", "$sdffce"):
            value = logic.choose(active("SRST"), fixed, value)
        if "EN" in ports:
            value = logic.choose(active("EN"), value, old)
        if kind == "$sdffe":
            value = logic.choose(active("SRST"), fixed, value)
        return value

    def build(self) -> Mapping[str, Any]:
        """The module of one cycle."""
        logic = self._logic
        assumed = [fact(self._now) for fact in self._facts]
        self.wrong = [
            (f"fact {number}", logic.no(fact(self._then))) for number, fact in enumerate(self._facts)
        ]
        held = dict[Bit, Loose]()
        for each in self._loose:
            for place in each.bits:
                bit = self._wires[f"accelerator.{each.wire}"][place]
                if bit not in self._owner:  # it was the same as another one, or a constant
                    continue
                held[bit] = each
                if each.other:
                    self._other[bit] = logic.xor(bit, each.other(self._now))
                    continue
                self._other[bit] = logic.bit()
                differs = logic.xor(bit, self._other[bit])
                assumed.append(logic.no(logic.both(each.read(self._now), differs)))
        self._spread()
        for cell in self._state:
            for index, bit in enumerate(cell["connections"]["Q"]):
                other = self._register_after(cell, index)
                if other is not None:
                    self.wrong.append((self._name_of[id(cell)], self._differs(held.get(bit), bit, other)))
        self.wrong += [("memories", bit) for bit in self._memories()]
        for port in self._module["ports"].values():
            if port["direction"] == "output":
                self.wrong += [
                    ("output", logic.xor(bit, self._other[bit])) for bit in port["bits"] if bit in self._other
                ]
        return self._as_module(logic.all(assumed), logic.either(bit for _, bit in self.wrong))

    def _differs(self, each: Loose | None, bit: Bit, other: Bit) -> Bit:
        """Whether a register's bit will be read and be another one than it may."""
        logic, mine = self._logic, self._following(bit)
        if each and each.other:
            mine = logic.xor(mine, each.other(self._then))
        differs = logic.xor(mine, other)
        return logic.both(each.read(self._then), differs) if each and not each.other else differs

    def beginning(self) -> Mapping[str, Any]:
        """Of the facts in the initial state alone: what a reset sets, elsewhere 0."""
        first = State(self._logic, self._wires, self._initial)
        wrong = [self._logic.no(fact(first)) for fact in self._facts]
        wrong += [each.other(first) for each in self._loose if each.other]
        return self._as_module("1", self._logic.either(wrong))

    def _initial(self, bit: Bit) -> Bit:
        if isinstance(bit, str):
            return bit
        cell = self._owner[bit]
        value = cell["parameters"].get("SRST_VALUE", "")[::-1]
        index = cell["connections"]["Q"].index(bit)
        return "1" if value[index : index + 1] == "1" else "0"

    def _change(self) -> tuple[str, str, int, str]:
        words = dict(re.findall(r"-(mode|cell|port|portbit|ctrlbit) (\S+)", self._mutant.change))
        return (
            words["cell"].removeprefix("\\"),
            words["port"].removeprefix("\\"),
            int(words.get("portbit", 0)),
            words["mode"],
        )

    def _mutated(self, cell: Cell, port: str, value: Callable[[int], Bit]) -> Bit:
        """The mutant's bit, made of the port's bits."""
        _, _, place, mode = self._change()
        control = int(re.search(r"-ctrlbit (\d+)|$", self._mutant.change)[1] or 0)
        if mode.startswith("const"):
            return mode[-1]
        if mode == "inv":
            return self._logic.no(value(place))
        flipped = self._logic.xor(value(place), value(control))
        return flipped if mode == "cnot1" else self._logic.no(flipped)

    def _seen(self, name: str) -> Callable[[str, int, Bit], Bit]:
        """What a cell of the other machine sees at its inputs."""
        cell_name, place_port, place, _ = self._change()

        def seen(port: str, index: int, bit: Bit) -> Bit:
            if (name, port, index) == (cell_name, place_port, place) and port != "Q":
                ports = self._cells[name]["connections"][port]
                return self._mutated(
                    self._cells[name], port, lambda at: self._other.get(ports[at], ports[at])
                )
            return self._other.get(bit, bit)

        return seen

    def _spread(self) -> None:
        """The cells of the other machine that may have another result."""
        target, port, place, _ = self._change()
        cell = self._cells[target]
        own = cell["connections"][port]
        if cell["port_directions"][port] == "output":
            self._ends_at = own[place]
            self._pending_output = REGISTER.fullmatch(cell["type"]) or cell["type"].startswith("$memrd")
        else:
            self._ends_at, self._pending_output = None, False
        if self._pending_output:
            before = {at: self._other.get(bit, bit) for at, bit in enumerate(own)}
            self._register_value = before[place]
            self._other[own[place]] = self._mutated(cell, port, lambda at: before[at])
        for name in self._order():
            self._copy(name, target, port, place)

    def _copy(self, name: str, target: str, port: str, place: int) -> None:
        cell = self._cells[name]
        outputs = [p for p, way in cell["port_directions"].items() if way == "output"]
        seen = self._seen(name)
        inputs = {
            p: [seen(p, i, bit) for i, bit in enumerate(bits)]
            for p, bits in cell["connections"].items()
            if p not in outputs
        }
        touched = any(bits != cell["connections"][p] for p, bits in inputs.items())
        (out,) = outputs
        bits = cell["connections"][out]
        if touched:
            fresh: list[Bit] = [self._logic.bit() for _ in bits]
            self._logic.cells[f"other_{name}"] = dict(cell) | {"connections": inputs | {out: fresh}}
            self._other |= dict(zip(bits, fresh, strict=True))
        if (name, out) == (target, port):
            now = [self._other.get(bit, bit) for bit in bits]
            self._other[bits[place]] = self._mutated(cell, out, lambda at: now[at])

    def _order(self) -> Iterator[str]:
        """Cells without a state, each behind those that it depends on."""
        makes = dict[Bit, str]()
        plain = {
            name: cell
            for name, cell in self._cells.items()
            if not REGISTER.fullmatch(cell["type"]) and not cell["type"].startswith("$mem")
        }
        for name, cell in plain.items():
            for port, way in cell["port_directions"].items():
                if way == "output":
                    makes |= {bit: name for bit in cell["connections"][port]}
        done = set[str]()
        for first in plain:
            stack = [(first, False)]
            while stack:
                name, ready = stack.pop()
                if name in done:
                    continue
                if ready:
                    done.add(name)
                    yield name
                    continue
                stack.append((name, True))
                cell = plain[name]
                for port, way in cell["port_directions"].items():
                    if way == "input":
                        stack += [
                            (makes[bit], False)
                            for bit in set(cell["connections"][port])
                            if bit in makes and makes[bit] not in done
                        ]

    def _register_after(self, cell: Cell, index: int) -> Bit | None:
        """What a register's bit of the other machine will be; None if nothing of it may differ."""
        name = self._name_of[id(cell)]
        seen = self._seen(name)
        ports = cell["connections"]
        used = [("D", index), ("Q", index), *((p, 0) for p in ("EN", "SRST") if p in ports)]
        stored = seen
        if self._pending_output and ports["Q"][index] == self._ends_at:
            # The register itself is right: what reads it is not.
            def stored(port: str, at: int, bit: Bit) -> Bit:
                return self._register_value if port == "Q" else seen(port, at, bit)

        if all(stored(p, at, ports[p][at]) == ports[p][at] for p, at in used):
            return None
        return self._after(cell, index, stored)

    def _memories(self) -> Iterator[Bit]:
        """Differences of what is written, and of the places that are read."""
        logic = self._logic
        reads = collections.defaultdict[tuple[str, tuple[Bit, ...]], list[Sequence[Bit]]](list)
        for cell in self._cells.values():
            if cell["type"].startswith("$memrd"):
                place = tuple(cell["connections"]["ADDR"])
                reads[cell["parameters"]["MEMID"], place].append(cell["connections"]["DATA"])
        for name, cell in self._cells.items():
            if not cell["type"].startswith("$mem"):
                continue
            seen, ports = self._seen(name), cell["connections"]
            other = {p: [seen(p, i, bit) for i, bit in enumerate(ports[p])] for p in ("ADDR",)}
            differs = [logic.xor(a, b) for a, b in zip(ports["ADDR"], other["ADDR"], strict=True) if a != b]
            if cell["type"].startswith("$memrd"):
                assert not int(cell["parameters"]["CLK_ENABLE"], 2), "what it reads would be a state"
                yield from differs
                continue
            old = reads.get((cell["parameters"]["MEMID"], tuple(ports["ADDR"])))
            if old and not differs:
                # What is there is read in the same cycle: to write it again changes nothing.
                for index, bit in enumerate(ports["DATA"]):
                    enable, data = ports["EN"][index], bit
                    enable_2, data_2 = seen("EN", index, enable), seen("DATA", index, bit)
                    if (enable, data) != (enable_2, data_2):
                        there = old[0][index]
                        yield logic.xor(
                            logic.choose(enable, data, there), logic.choose(enable_2, data_2, there)
                        )
                continue
            for index, bit in enumerate(ports["DATA"]):
                enable = ports["EN"][index]
                enable_2, data_2 = seen("EN", index, enable), seen("DATA", index, bit)
                if enable != enable_2:
                    yield logic.xor(enable, enable_2)
                if bit != data_2:
                    yield logic.both(enable, logic.xor(bit, data_2))
            enabled = logic.either(dict.fromkeys(ports["EN"])) if differs else "0"
            yield from (logic.both(enabled, each) for each in differs)

    def _as_module(self, assumed: Bit, wrong: Bit) -> Mapping[str, Any]:
        cells = {
            name: cell
            for name, cell in (self._cells | self._logic.cells).items()
            if not REGISTER.fullmatch(cell["type"]) and not cell["type"].startswith("$mem")
        }
        made, needed = (
            {
                bit
                for cell in cells.values()
                for port, way in cell["port_directions"].items()
                if way == wanted
                for bit in cell["connections"][port]
                if isinstance(bit, int)
            }
            for wanted in ("output", "input")
        )
        free = sorted(needed - made)
        ports = {
            "given": {"direction": "input", "bits": free},
            "assumed": {"direction": "output", "bits": [assumed]},
            "wrong": {"direction": "output", "bits": [wrong]},
        }
        return {"attributes": {"top": 1}, "ports": ports, "cells": cells, "netnames": {}}


def unseen(
    mutants: Sequence[Mutant], loose: Sequence[Loose], facts: Sequence[Fact], folder: pathlib.Path
) -> set[Mutant]:
    """Those of the netlist in `folder` that are proved."""
    yosys("read_rtlil netlist.il\nwrite_json netlist.json\n", folder)
    module = json.loads((folder / "netlist.json").read_text())["modules"]["tosaic"]
    proved = set[Mutant]()
    for mutant in mutants:
        twins = Twins(module, mutant, loose, facts)
        if _proved(twins.beginning(), folder) and _proved(twins.build(), folder):
            proved.add(mutant)
    return proved


def _proved(twins: Mapping[str, Any], folder: pathlib.Path) -> bool:
    (folder / "twins.json").write_text(json.dumps({"modules": {"twins": twins}}))
    script = "read_json twins.json\nopt_clean\nopt_expr\nopt_merge\nopt_clean\ntee -q -o twins.txt "
    script += f"sat -timeout {SAT_SECONDS} -set assumed 1 -prove wrong 0 twins\n"
    yosys(script, folder)
    return "no model found: SUCCESS!" in (folder / "twins.txt").read_text()
