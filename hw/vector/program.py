"""The micro-program: what each micro-op needs, kept in tables that are read at the stage that needs it."""

import typing

from amaranth.hdl import Module, signed
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Opcode, Source, layout
from ..memory.words import NO_COLLISION_LOGIC


class Select(enum.Enum, shape=2):
    """Where a lane's operand comes from."""

    SCALAR = 0
    REGISTER = 1
    LOAD = 2
    ARRAY = 3


def scalar_select(source: enum.Enum) -> Select:
    """The lane's choice for an isa.Source; the sources that are the same in all lanes are SCALAR."""
    return {Source.REGISTER: Select.REGISTER, Source.LOAD: Select.LOAD, Source.ARRAY: Select.ARRAY}.get(
        source, Select.SCALAR
    )


Operand = data.StructLayout({"select": Select, "register": 3, "immediate": 1, "iteration": 1})
"""Source of an operand, decoded; with neither `immediate` nor `iteration` a SCALAR is zero."""

Issue = data.StructLayout(
    {
        "a": Operand,
        "b": Operand,
        "load": 1,  # reads load stream `stream`
        "stream": 2,
        "array": 1,  # takes a vector of the array
        "registers": 1,  # reads a register
        "bias": 1,  # adds the lanes' biases to A
    }
)
"""What the issue needs to know of a micro-op."""

Arithmetic = data.StructLayout(
    {
        "op": 5,
        "per_channel": 1,
        "round": 1,
        "shift": 6,
        "a_zp": signed(18),
        "multiplier": signed(32),
    }
)
Finish = data.StructLayout({"clamp": 1, "wrap32": 1, "to_memory": 1, "destination": 3})
Bounds = data.StructLayout({"low": signed(32), "high": signed(32)})


class Program(wiring.Component):
    """`vector_uops` micro-ops.

    - `write_uop`, `write_bounds`: store the instruction `uop` (VECTOR_UOP) or `bounds` (VECTOR_BOUNDS) under its index.
    - Each table X has `X_enable`, `X_index` and gives `X` in the next cycle (and keeps it while not enabled).
    """

    TABLES: typing.ClassVar = {
        "issue": Issue,
        "immediate": signed(32),
        "arithmetic": Arithmetic,
        "out_zp": signed(18),
        "finish": Finish,
        "limits": Bounds,
    }

    def __init__(self, config: Config):
        self.config = config
        ports = {
            "write_uop": In(1),
            "uop": In(layout(Opcode.VECTOR_UOP)),
            "write_bounds": In(1),
            "bounds": In(layout(Opcode.VECTOR_BOUNDS)),
        }
        for name, shape in self.TABLES.items():
            ports[f"{name}_enable"] = In(1)
            ports[f"{name}_index"] = In(range(max(config.vector_uops, 2)))
            ports[name] = Out(shape)
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        write = {}
        for name, shape in self.TABLES.items():
            memory = Memory(shape=shape, depth=self.config.vector_uops, init=[], attrs=NO_COLLISION_LOGIC)
            m.submodules[name] = memory
            read, write[name] = memory.read_port(), memory.write_port()
            by_bounds = name in ("immediate", "limits")
            m.d.comb += [
                read.en.eq(getattr(self, f"{name}_enable")),
                read.addr.eq(getattr(self, f"{name}_index")),
                getattr(self, name).eq(read.data),
                write[name].en.eq(self.write_bounds if by_bounds else self.write_uop),
                write[name].addr.eq(self.bounds.index if by_bounds else self.uop.index),
            ]

        issue = write["issue"].data
        for letter in ("a", "b"):
            source, operand = self.uop[f"{letter}_source"], issue[letter]
            with m.Switch(source):
                for member in Source:
                    with m.Case(member.value):
                        m.d.comb += operand.select.eq(scalar_select(member))
            m.d.comb += [
                operand.register.eq(self.uop[f"{letter}_index"]),
                operand.immediate.eq(source == Source.IMMEDIATE.value),
                operand.iteration.eq(source == Source.ITERATION.value),
            ]
        a, b = self.uop.a_source, self.uop.b_source
        m.d.comb += [
            issue.load.eq((a == Source.LOAD.value) | (b == Source.LOAD.value)),
            issue.array.eq(a == Source.ARRAY.value),
            issue.bias.eq(self.uop.bias),
            issue.registers.eq((a == Source.REGISTER.value) | (b == Source.REGISTER.value)),
        ]
        with m.If(a == Source.LOAD.value):
            m.d.comb += issue.stream.eq(self.uop.a_index)
        with m.Else():
            m.d.comb += issue.stream.eq(self.uop.b_index)
        for name in ("arithmetic", "finish"):
            shape = self.TABLES[name]
            m.d.comb += [write[name].data[field].eq(self.uop[field]) for field in shape.members]
        m.d.comb += [
            write["out_zp"].data.eq(self.uop.out_zp),
            write["immediate"].data.eq(self.bounds.immediate),
            write["limits"].data.low.eq(self.bounds.low),
            write["limits"].data.high.eq(self.bounds.high),
        ]
        return m


__all__ = ["Arithmetic", "Bounds", "Finish", "Issue", "Operand", "Program", "Select"]
