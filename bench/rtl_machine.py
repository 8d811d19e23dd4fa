"""A flat netlist, Yosys' JSON, for one cycle of its clock: what registers hold after it is logic of what they held.

Registers have no value of their own here, and memories read anything: a solver chooses them. Rules about states are
proved by induction: `base` asks whether they hold behind the second cycle of reset, in which those that the first one
reached reset the rest (hw/top.py), whatever was before in registers that they reach, and with 0 in the others, as they
begin; `step`, whether they hold a cycle after they held, whatever the inputs are. Yosys' SAT solver answers such
questions (`proved`).
"""

import collections
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rtl_logic import Fact, Logic, State, Words
from rtl_netlist import yosys
from rtl_unread import REGISTER, Bit, Cell

SAT_SECONDS = 60
RESET = "rst"
SOLVE = """read_json question{number}.json
pmuxtree
opt_clean
opt_expr
opt_merge
opt_clean
tee -q -o answer{number}.txt sat -timeout {seconds} -set assumed 1 -prove wrong 0 question
design -reset
"""
"""Of a $pmux whose choices are not exclusive, as a mutant's, the first one counts: so the mutants' Verilog is written,
and so `pmuxtree` has it. The solver would take the last one."""
PROVED = "no model found: SUCCESS!"


Question = Mapping[str, Any]
"""A module without registers: whether its output `wrong` is 0 wherever `assumed` is 1."""


class Machine:
    """A module for one cycle, `now` before it, `then` after it."""

    def __init__(self, module: Mapping[str, Any]):
        self.ports = module["ports"]
        self.cells: Mapping[str, Cell] = module["cells"]
        self.wires = {name: wire["bits"] for name, wire in module["netnames"].items()}
        highest = max(bit for wire in self.wires.values() for bit in wire if isinstance(bit, int))
        self.logic = Logic(highest + 1)
        self.registers = {name: cell for name, cell in self.cells.items() if REGISTER.fullmatch(cell["type"])}
        self.plain = {
            name: cell
            for name, cell in self.cells.items()
            if name not in self.registers and not cell["type"].startswith("$mem")
        }
        others = {cell["type"] for cell in self.plain.values() if re.search("ff|latch", cell["type"])}
        assert not others, f"registers of the kinds {others} have no rule here"
        self.holds = {
            bit: (cell, index)
            for cell in self.registers.values()
            for index, bit in enumerate(cell["connections"]["Q"])
        }
        """Which register has a bit."""
        self.makes = {bit: name for name, cell in self.plain.items() for bit in outputs(cell)}
        self._next: dict[Bit, Bit] = {}
        self.now = State(self.logic, self.wires, lambda bit: bit)
        self.then = State(self.logic, self.wires, self.following)

    def following(self, bit: Bit) -> Bit:
        """What a bit will be; inputs, and what memories read, will be anything."""
        if isinstance(bit, str):
            return bit if bit == "1" else "0"
        if bit not in self._next:
            if bit in self.holds:
                self._next[bit] = self.after(*self.holds[bit], lambda _, __, same: same)
            elif bit in self.makes:
                name = self.makes[bit]
                cell = self.cells[name]
                later = {port: [self.following(each) for each in bits] for port, bits in inputs(cell)}
                self._next |= self.logic.copy(f"next_{name}", cell, later)
            else:
                self._next[bit] = self.logic.bit()
        return self._next[bit]

    def after(self, cell: Cell, index: int, seen: Callable[[str, int, Bit], Bit]) -> Bit:
        """What bit `index` of a register will be, if it sees `seen` of its ports (port, index, bit)."""
        ports, kind, logic = cell["connections"], cell["type"], self.logic
        value = seen("D", index, ports["D"][index])

        def active(port: str) -> Bit:
            bit = seen(port, 0, ports[port][0])
            return bit if int(cell["parameters"][f"{port}_POLARITY"], 2) else logic.no(bit)

        old = seen("Q", index, ports["Q"][index])
        fixed = cell["parameters"]["SRST_VALUE"][::-1][index] if "SRST" in ports else "0"
        assert fixed in "01", "a reset to an unknown value"
        if kind in ("$sdff", "$sdffce"):
            value = logic.choose(active("SRST"), fixed, value)
        if "EN" in ports:
            value = logic.choose(active("EN"), value, old)
        if kind == "$sdffe":
            value = logic.choose(active("SRST"), fixed, value)
        return value

    def base(self, rules: Iterable[Bit]) -> Question:
        """Whether the rules, bits of `then`, hold behind the second cycle of reset."""
        reset = [*self.ports[RESET]["bits"], *self.later_resets()]
        begins = self.logic.either(self._never_reset(reset))
        return self.question([*reset, self.logic.no(begins)], map(self.logic.no, rules))

    def later_resets(self) -> list[Bit]:
        """Registers that are 1 in the cycle after the reset, for they take it with an OR."""
        reset, found = set(self.ports[RESET]["bits"]), list[Bit]()
        for bit, (cell, index) in self.holds.items():
            maker = self.plain.get(self.makes.get(cell["connections"]["D"][index], ""))
            if cell["type"] == "$dff" and maker and maker["type"] == "$or":
                ports, place = (
                    maker["connections"],
                    maker["connections"]["Y"].index(cell["connections"]["D"][index]),
                )
                if reset & {ports[port][place] for port in "AB" if place < len(ports[port])}:
                    found.append(bit)
        return found

    def _never_reset(self, reset: Iterable[Bit]) -> list[Bit]:
        """Bits of registers of which the reset changes nothing in the same cycle. They begin with 0."""
        readers = collections.defaultdict[Bit, list[Cell]](list)
        for cell in (self.plain | self.registers).values():
            for _, bits in inputs(cell):
                for bit in bits:
                    readers[bit].append(cell)
        reached, left = set(reset), list(reset)
        while left:
            for cell in readers[left.pop()]:
                fresh = set(outputs(cell)) - reached
                reached |= fresh
                left += fresh - self.holds.keys()
        return sorted(self.holds.keys() - reached)

    def step(self, facts: Sequence[Fact], words: Sequence[Words] = ()) -> Question:
        """Whether the facts hold a cycle after they held."""
        assumed = [fact(self.now) for fact in facts]
        assumed += [rule for state in (self.now, self.then) for rule in self.words_read(words, state)]
        return self.question(assumed, [self.logic.no(fact(self.then)) for fact in facts])

    def words_read(self, words: Sequence[Words], state: State) -> list[Bit]:
        """What is read of memories obeys the rules."""
        return [
            each.rule(state, state.values(cell["connections"]["DATA"]))
            for each in words
            for cell in self._ports(each, "$memrd")
        ]

    def written(self, words: Sequence[Words]) -> Question:
        """Whether all that is written obeys the rules, and 0, where what is read does: in every state."""
        right = list[Bit]()
        for each in words:
            for cell in self._ports(each, "$memwr"):
                (enable,) = set(cell["connections"]["EN"])
                bits = cell["connections"]["DATA"]
                right += [self.now.implies(enable, each.rule(self.now, self.now.values(bits)))]
                right += [each.rule(self.now, ["0"] * len(bits))]
        return self.question(self.words_read(words, self.now), map(self.logic.no, right))

    def _ports(self, words: Words, kind: str) -> list[Cell]:
        """Of the memory."""
        found = [
            cell
            for cell in self.cells.values()
            if cell["type"].startswith(kind)
            and cell["parameters"]["MEMID"].removeprefix("\\") == f"accelerator.{words.memory}"
        ]
        if not found:
            raise KeyError(words.memory)
        return found

    def question(self, assumed: Iterable[Bit], wrong: Iterable[Bit]) -> Question:
        """Whether none of `wrong` is 1 while all of `assumed` are."""
        ends = {"assumed": self.logic.all(assumed), "wrong": self.logic.either(wrong)}
        cells = self.plain | self.logic.cells
        made = {bit: name for name, cell in cells.items() for bit in outputs(cell)}
        used, free, left = dict[str, Cell](), set[Bit](), list(ends.values())
        while left:
            bit = left.pop()
            name = made.get(bit)
            if name and name not in used:
                used[name] = cells[name]
                left += [each for _, bits in inputs(cells[name]) for each in bits]
            elif not name and isinstance(bit, int):
                free.add(bit)
        ports: dict[str, Any] = {name: {"direction": "output", "bits": [bit]} for name, bit in ends.items()}
        if free:
            ports["free"] = {"direction": "input", "bits": sorted(free)}
        return {"attributes": {"top": 1}, "ports": ports, "cells": used, "netnames": {}}


def inputs(cell: Cell) -> list[tuple[str, Sequence[Bit]]]:
    """Ports that a cell reads, and their bits."""
    ways = cell["port_directions"]
    return [(port, bits) for port, bits in cell["connections"].items() if ways[port] == "input"]


def outputs(cell: Cell) -> list[Bit]:
    """Bits that a cell makes."""
    ways = cell["port_directions"]
    return [bit for port, bits in cell["connections"].items() if ways[port] == "output" for bit in bits]


def flat_module(folder: pathlib.Path) -> Mapping[str, Any]:
    """The netlist in `folder`."""
    yosys("read_rtlil netlist.il\nwrite_json netlist.json\n", folder)
    return json.loads((folder / "netlist.json").read_text())["modules"]["tosaic"]


def proved(questions: Sequence[Question], folder: pathlib.Path) -> list[bool]:
    """Which of the questions the solver answers with yes; those for which it takes long it does not."""
    for number, question in enumerate(questions):
        text = json.dumps({"modules": {"question": question}})
        (folder / f"question{number}.json").write_text(text)
        (folder / f"answer{number}.txt").unlink(missing_ok=True)
    numbers = range(len(questions))
    yosys("".join(SOLVE.format(number=number, seconds=SAT_SECONDS) for number in numbers), folder)
    return [PROVED in (folder / f"answer{number}.txt").read_text() for number in numbers]


def invariant(
    machine: Machine,
    facts: Sequence[Fact],
    folder: pathlib.Path,
    at_first: Sequence[Bit] = (),
    words: Sequence[Words] = (),
) -> bool:
    """Whether the facts, together, hold in every state behind the reset, and the rules `at_first` in the first one;
    and what is written to memories obeys those of `words`."""
    rules = [*at_first, *(fact(machine.then) for fact in facts)]
    questions = [machine.base(rules), machine.step(facts, words)] if rules else []
    questions += [machine.written(words)] if words else []
    return all(proved(questions, folder))
