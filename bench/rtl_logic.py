"""Logic that is added to a netlist, Yosys' JSON of a flat module, and rules about the netlist's states made of it."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from rtl_unread import Bit, Cell


class Logic:
    """Cells of one bit that are added to a netlist."""

    def __init__(self, first: int):
        self._next, self._made = first, 0
        self.cells: dict[str, Cell] = {}

    def bit(self) -> int:
        self._next += 1
        return self._next - 1

    def copy(self, name: str, cell: Cell, inputs: Mapping[str, Sequence[Bit]]) -> Mapping[Bit, Bit]:
        """Adds the cell once more, with other inputs; what its outputs are now."""
        outputs = [bit for port, bits in cell["connections"].items() if port not in inputs for bit in bits]
        fresh = {bit: self.bit() for bit in outputs}
        connections = {
            port: inputs.get(port) or [fresh[bit] for bit in bits]
            for port, bits in cell["connections"].items()
        }
        self.cells[name] = dict(cell) | {"connections": connections}
        return fresh

    def cell(self, kind: str, **ports: Sequence[Bit]) -> int:
        out, self._made = self.bit(), self._made + 1
        connections = {name: list(bits) for name, bits in ports.items()} | {"Y": [out]}
        if kind == "$mux":
            parameters = {"WIDTH": 1}
        else:
            parameters = {f"{name}_WIDTH": len(bits) for name, bits in connections.items()}
            parameters |= {f"{name}_SIGNED": 0 for name in ports}
        self.cells[f"made{self._made}"] = {
            "type": kind,
            "parameters": parameters,
            "attributes": {},
            "port_directions": {name: "input" for name in ports} | {"Y": "output"},
            "connections": connections,
        }
        return out

    def xor(self, a: Bit, b: Bit) -> Bit:
        return self.cell("$xor", A=[a], B=[b])

    def both(self, a: Bit, b: Bit) -> Bit:
        return self.cell("$and", A=[a], B=[b])

    def no(self, a: Bit) -> Bit:
        return self.cell("$not", A=[a])

    def either(self, bits: Iterable[Bit]) -> Bit:
        bits = list(bits)
        return self.cell("$reduce_or", A=bits) if bits else "0"

    def all(self, bits: Iterable[Bit]) -> Bit:
        bits = list(bits)
        return self.cell("$reduce_and", A=bits) if bits else "1"

    def choose(self, which: Bit, one: Bit, other: Bit) -> Bit:
        return self.cell("$mux", A=[other], B=[one], S=[which])


def wire_of(wires: Mapping[str, Sequence[Bit]], name: str) -> Sequence[Bit]:
    """The bits of accelerator.`name`. A module is found without the number that Amaranth gives it when the name of its
    instance is that of a signal, too: these numbers change with any other module."""
    if bits := wires.get(f"accelerator.{name}"):
        return bits
    *modules, wire = f"accelerator.{name}".split(".")
    numbered = re.compile(
        "".join(rf"{re.escape(module)}(?:\$\d+)?\." for module in modules) + re.escape(wire)
    )
    found = [bits for each, bits in wires.items() if numbered.fullmatch(each)]
    if len(found) != 1:
        raise KeyError(name)
    return found[0]


class State:
    """What a rule is made of: the netlist's bits, now or after the cycle."""

    def __init__(self, logic: Logic, wires: Mapping[str, Sequence[Bit]], value: Callable[[Bit], Bit]):
        self.logic, self._wires, self._value = logic, wires, value

    def values(self, bits: Iterable[Bit]) -> list[Bit]:
        return [self._value("0" if bit == "x" else bit) for bit in bits]

    def bits(self, name: str, first: int = 0, width: int | None = None) -> list[Bit]:
        """Of the wire accelerator.`name`."""
        bits = wire_of(self._wires, name)
        return self.values(bits[first : len(bits) if width is None else first + width])

    def bit(self, name: str, index: int = 0) -> Bit:
        return self.bits(name, index, 1)[0]

    def equals(self, bits: Sequence[Bit], value: int) -> Bit:
        return self.all(bit if value >> place & 1 else self.no(bit) for place, bit in enumerate(bits))

    def sum(self, a: Sequence[Bit], b: Sequence[Bit]) -> list[Bit]:
        """Of two numbers without a sign, with a bit more than the longer one."""
        found, carry = list[Bit](), "0"
        for place in range(max(len(a), len(b))):
            x, y = (part[place] if place < len(part) else "0" for part in (a, b))
            differ = self.logic.xor(x, y)
            found.append(self.logic.xor(differ, carry))
            carry = self.logic.choose(differ, carry, x)
        return [*found, carry]

    def at_most(self, bits: Sequence[Bit], limit: Sequence[Bit]) -> Bit:
        """Of two numbers without a sign."""
        result: Bit = "1"
        for place in range(max(len(bits), len(limit))):
            mine, most = (part[place] if place < len(part) else "0" for part in (bits, limit))
            result = self.logic.choose(self.logic.xor(mine, most), most, result)
        return result

    def implies(self, condition: Bit, then: Bit) -> Bit:
        return self.either((self.no(condition), then))

    def same(self, a: Sequence[Bit], b: Sequence[Bit]) -> Bit:
        return self.all(self.no(self.logic.xor(x, y)) for x, y in zip(a, b, strict=True))

    all = property(lambda self: self.logic.all)
    either = property(lambda self: self.logic.either)
    no = property(lambda self: self.logic.no)


Fact = Callable[[State], Bit]
"""A rule that is said to hold in every state behind the reset."""


@dataclasses.dataclass(frozen=True)
class Words:
    """A rule of the words of a memory, accelerator.`memory`: 0 obeys it, with which memories begin, and all that is
    written, whatever the state is."""

    memory: str
    rule: Callable[[State, Sequence[Bit]], Bit]
