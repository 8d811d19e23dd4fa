"""The RTL and the RTL with one mutant, side by side for one cycle (a product machine).

Both have the same state but for registers of which it is said when they are read (Loose). Cells that see something
else in the machine with the mutant are there twice. `question` asks whether after the cycle the states are the same
again, but for what is not read then, and whether outputs and what is written to memories are the same.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rtl_logic import Fact, State, Words, wire_of
from rtl_machine import Machine, Question, inputs, outputs
from rtl_netlist import Mutant
from rtl_unread import Bit, Cell


@dataclasses.dataclass(frozen=True)
class Loose:
    """Bits of a register that differ from those of the other machine, at most while `read` is 0; with `other` they
    differ by that while `read` is 1, or always."""

    wire: str
    bits: tuple[int, ...]
    read: Callable[[State], Bit] | None = None
    other: Callable[[State], Bit] | None = None

    def fixed(self, state: State) -> Bit:
        """Whether the other machine's bits follow from these."""
        if self.read:
            return self.read(state)
        return "1" if self.other else "0"


@dataclasses.dataclass(frozen=True)
class Renamed:
    """A memory of the module, of which the other machine calls each word by another address: these bits of it are
    inverted. At first all words are the same, for none was written."""

    module: str
    bits: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a mutant is, and what it makes of the bit there."""

    cell: str
    port: str
    index: int
    mode: str
    control: int
    """The port's bit with which `cnot` mixes it."""

    @classmethod
    def of(cls, mutant: Mutant) -> "Place":
        """What a `mutate` of Yosys says."""
        words = dict(re.findall(r"-(mode|cell|port|portbit|ctrlbit) (\S+)", mutant.change))
        cell, port = (words[name].removeprefix("\\") for name in ("cell", "port"))
        return cls(cell, port, int(words.get("portbit", 0)), words["mode"], int(words.get("ctrlbit", 0)))


COMPARED = {
    "register": ("D", "Q", "EN", "SRST"),
    "$memwr": ("ADDR", "DATA", "EN"),
    "$memrd": ("ADDR", "DATA"),
}
"""Ports of what holds a state at which a mutant is judged: not of a clock, for example."""


class Product:
    """A machine, and the one with the mutant."""

    def __init__(
        self,
        module: Mapping[str, Any],
        mutant: Mutant,
        loose: Sequence[Loose],
        facts: Sequence[Fact],
        renamed: Sequence[Renamed] = (),
        words: Sequence[Words] = (),
    ):
        self._machine = Machine(module)
        self._cells, self._logic = self._machine.cells, self._machine.logic
        self._place = Place.of(mutant)
        self._facts, self._renamed, self._words = facts, renamed, words
        self._other: dict[Bit, Bit] = {}
        """Bits that may differ: what they are in the other machine."""
        self._loose = dict[Bit, Loose]()
        for each in loose:
            for index in each.bits:
                bit = wire_of(self._machine.wires, each.wire)[index]
                if bit in self._machine.holds:  # else it is the same as another one, or a constant
                    self._loose[bit] = each
        self._reads = {name: cell for name, cell in self._cells.items() if cell["type"].startswith("$memrd")}
        self._stored: dict[Bit, Bit] = {}
        """A register's bit of which the mutant changes what is read: what the other machine's holds."""

    def question(self) -> Question:
        """Whether the machines stay the same, but for what is not read."""
        machine, logic = self._machine, self._logic
        if not self._is_judged():
            return machine.question([], ["1"])
        assumed = [fact(machine.now) for fact in self._facts] + machine.words_read(self._words, machine.now)
        for bit, each in self._loose.items():
            following = logic.xor(bit, each.other(machine.now)) if each.other else bit
            if each.other and not each.read:
                self._other[bit] = following
                continue
            self._other[bit] = logic.bit()
            differs = logic.xor(following, self._other[bit])
            assumed.append(logic.no(logic.both(each.fixed(machine.now), differs)))
        self._spread()
        wrong = [*self._registers(), *self._memories()]
        for port in machine.ports.values():
            if port["direction"] == "output":
                wrong += [logic.xor(bit, self._other[bit]) for bit in port["bits"] if bit in self._other]
        return machine.question(assumed, wrong)

    def _is_judged(self) -> bool:
        """Whether all that the mutant changes is looked at."""
        name = self._place.cell
        kind = "register" if name in self._machine.registers else self._cells[name]["type"].partition("_")[0]
        return self._place.port in COMPARED.get(kind, (self._place.port,))

    def _mutated(self, value: Callable[[int], Bit]) -> Bit:
        """The mutant's bit, made of the port's bits."""
        if self._place.mode in ("const0", "const1"):
            return self._place.mode[-1]
        if self._place.mode == "inv":
            return self._logic.no(value(self._place.index))
        assert self._place.mode in ("cnot0", "cnot1")
        flipped = self._logic.xor(value(self._place.index), value(self._place.control))
        return flipped if self._place.mode == "cnot1" else self._logic.no(flipped)

    def _seen(self, name: str) -> Callable[[str, int, Bit], Bit]:
        """What a cell of the other machine sees at its inputs."""
        mutated = {port for port, _ in inputs(self._cells[name])} & {self._place.port}

        def seen(port: str, index: int, bit: Bit) -> Bit:
            if mutated and (name, port, index) == (self._place.cell, self._place.port, self._place.index):
                bits = self._cells[name]["connections"][port]
                return self._mutated(lambda at: self._other.get(bits[at], bits[at]))
            return self._other.get(bit, bit)

        return seen

    def _spread(self) -> None:
        """The bits of the other machine that may be other ones."""
        spread = self._machine.plain | self._reads
        self._change_output(self._place.cell, self._place.cell not in spread)
        for name in self._order(spread):
            cell, seen = self._cells[name], self._seen(name)
            ports = {
                port: [seen(port, at, bit) for at, bit in enumerate(bits)] for port, bits in inputs(cell)
            }
            if name in self._reads:
                self._other |= self._read_elsewhere(cell, ports["ADDR"])
            elif any(bits != cell["connections"][port] for port, bits in ports.items()):
                self._other |= self._logic.copy(f"other_{name}", cell, ports)
            self._change_output(name, name == self._place.cell)

    def _moved(self, cell: Cell, place: Sequence[Bit]) -> list[Bit]:
        """Bits of which one is 1 if the other machine's `place` is another one than a port's."""
        logic, renamed = self._logic, set[int]()
        for each in self._renamed:
            if f"accelerator.{each.module}." in cell["parameters"]["MEMID"].replace("\\", ""):
                renamed |= set(each.bits)
        own = [logic.no(bit) if at in renamed else bit for at, bit in enumerate(cell["connections"]["ADDR"])]
        return [logic.xor(a, b) for a, b in zip(own, place, strict=True) if a != b]

    def _read_elsewhere(self, cell: Cell, place: Sequence[Bit]) -> Mapping[Bit, Bit]:
        """What the other machine may read otherwise: anything where it reads another place."""
        assert not int(cell["parameters"]["CLK_ENABLE"], 2), "what it reads would be a state"
        logic, moved = self._logic, self._moved(cell, place)
        if not moved:
            return {}
        any_moved = logic.either(moved)
        return {bit: logic.choose(any_moved, logic.bit(), bit) for bit in cell["connections"]["DATA"]}

    def _change_output(self, name: str, here: bool) -> None:
        """The mutant, if it is at what this cell makes."""
        cell, port = self._cells[name], self._place.port
        if not here or cell["port_directions"][port] != "output":
            return
        bits = cell["connections"][port]
        own = [self._other.get(bit, bit) for bit in bits]
        self._stored[bits[self._place.index]] = own[self._place.index]
        self._other[bits[self._place.index]] = self._mutated(lambda at: own[at])

    def _order(self, cells: Mapping[str, Cell]) -> Iterator[str]:
        """Cells without a state, each behind those that it depends on."""
        makes, done = {bit: name for name, cell in cells.items() for bit in outputs(cell)}, set[str]()
        for first in cells:
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
                before = {makes[bit] for _, bits in inputs(cells[name]) for bit in bits if bit in makes}
                stack += [(each, False) for each in before if each not in done]

    def _registers(self) -> Iterator[Bit]:
        """Differences of what registers will hold, and what will be read of them."""
        logic, then = self._logic, self._machine.then
        for name, cell in self._machine.registers.items():
            seen, ports = self._seen(name), cell["connections"]

            def held(port: str, at: int, bit: Bit, seen: Callable[..., Bit] = seen) -> Bit:
                return self._stored[bit] if port == "Q" and bit in self._stored else seen(port, at, bit)

            for index, bit in enumerate(ports["Q"]):
                used = [("D", index), ("Q", index), *((port, 0) for port in ("EN", "SRST") if port in ports)]
                if all(held(port, at, ports[port][at]) == ports[port][at] for port, at in used):
                    continue
                mine, other = self._machine.following(bit), self._machine.after(cell, index, held)
                each = self._loose.get(bit)
                if each and each.other:
                    mine = logic.xor(mine, each.other(then))
                differs = logic.xor(mine, other)
                yield logic.both(each.fixed(then), differs) if each else differs

    def _memories(self) -> Iterator[Bit]:
        """Differences of what is written."""
        for name, cell in self._cells.items():
            if cell["type"].startswith("$memwr"):
                seen, place = self._seen(name), cell["connections"]["ADDR"]
                others = [seen("ADDR", at, bit) for at, bit in enumerate(place)]
                yield from self._written(name, cell, self._moved(cell, others))

    def _written(self, name: str, cell: Cell, moved: Sequence[Bit]) -> Iterator[Bit]:
        """Differences of what a port writes; `moved`: of its address."""
        logic, seen, ports = self._logic, self._seen(name), cell["connections"]
        for index, data in enumerate(ports["DATA"]):
            enable = ports["EN"][index]
            enable_2, data_2 = seen("EN", index, enable), seen("DATA", index, data)
            if (enable, data) == (enable_2, data_2):
                continue
            result = logic.either((logic.xor(enable, enable_2), logic.both(enable, logic.xor(data, data_2))))
            for here, there in () if moved else self._there(name, cell, index):
                mine, other = logic.choose(enable, data, there), logic.choose(enable_2, data_2, there)
                result = logic.choose(here, logic.xor(mine, other), result)
            yield result
        if moved:
            yield logic.both(logic.either(dict.fromkeys(ports["EN"])), logic.either(moved))

    def _there(self, name: str, cell: Cell, index: int) -> list[tuple[Bit, Bit]]:
        """What the memory has in a bit that a port may write, as it is read in the same cycle: (the address is that of
        the write, bit). To write it again changes nothing, if no other port writes such bits."""
        memory, place = cell["parameters"]["MEMID"], cell["connections"]["ADDR"]
        found, logic = list[tuple[Bit, Bit]](), self._logic
        for other, each in self._cells.items():
            if not each["type"].startswith("$mem") or each["parameters"]["MEMID"] != memory:
                continue
            ports = each["connections"]
            if each["type"].startswith("$memrd"):
                pairs = zip(ports["ADDR"], place, strict=True) if len(ports["ADDR"]) == len(place) else None
                if pairs is not None:
                    here = logic.all(logic.no(logic.xor(a, b)) for a, b in pairs if a != b)
                    found.append((here, ports["DATA"][index]))
            elif other != name and ports["EN"][index] != "0":
                return []
        return found
