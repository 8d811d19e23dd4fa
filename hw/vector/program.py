"""The micro-program: what each micro-op needs, kept in tables that are read at the stage that needs it."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import STORE_STREAM, Opcode, Source, layout
from ..layouts import shapes
from ..memory.blocks import has_small_memories, placement
from ..memory.words import NO_COLLISION_LOGIC
from .layouts import Arithmetic, Finish, IssueFields, Limits, Select, micro_op_index

_SELECTS = {Source.REGISTER: Select.REGISTER, Source.LOAD: Select.LOAD, Source.ARRAY: Select.ARRAY}
"""Sources that differ from lane to lane; all others are SCALAR."""


class TableRead(wiring.Signature):
    """A read of a table, from the reader's side.

    Ports:
        enable (1, out), index (0..vector_uops-1, out): read the entry of micro-op `index`.
        data (the entry's shape, in): the entry, from the next cycle on until the next read.
    """

    def __init__(self, config: Config, shape: object):
        super().__init__({"enable": Out(1), "index": Out(micro_op_index(config)), "data": In(shape)})


class EntryRead(wiring.Signature):
    """What comes with another read, or some cycles behind it, from the reader's side.

    Ports:
        data (the entry's shape, in): the entry, for one cycle.
    """

    def __init__(self, shape: object):
        super().__init__({"data": In(shape)})


OUT_ZP_CYCLES, FINISH_CYCLES = 5, 7
"""Cycles from an entry of `arithmetic` to the same micro-op's `out_zp`, and to its `finish` and `limits`."""


class MicroOpStore(wiring.Component):
    """`vector_uops` micro-ops.

    Where small memories are LUTs or blocks, what a later stage needs is read by an index that is as late. On a chip
    they would be flip-flops: there one memory, half of it of VECTOR_UOP and half of VECTOR_BOUNDS, is large enough for
    a macro. It is read once, and what later stages need follows in registers.

    Ports:
        write_uop (1, in), uop (VECTOR_UOP, in): store this VECTOR_UOP under its index.
        write_bounds (1, in), bounds (VECTOR_BOUNDS, in): the same with VECTOR_BOUNDS. Not with `write_uop`.
        issue (TableRead, in): the table of the issue.
        arithmetic (TableRead, in): the table of all that comes later; what the operation needs.
        immediate (EntryRead, in): with the data of `arithmetic`.
        out_zp (EntryRead, in): OUT_ZP_CYCLES later.
        finish, limits (EntryRead, in): FINISH_CYCLES later.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "write_uop": In(1),
                "uop": In(layout(Opcode.VECTOR_UOP)),
                "write_bounds": In(1),
                "bounds": In(layout(Opcode.VECTOR_BOUNDS)),
                "issue": In(TableRead(config, IssueFields)),
                "arithmetic": In(TableRead(config, Arithmetic)),
                "immediate": In(EntryRead(*shapes(Opcode.VECTOR_BOUNDS, "immediate").values())),
                "out_zp": In(EntryRead(*shapes(Opcode.VECTOR_UOP, "out_zp").values())),
                "finish": In(EntryRead(Finish)),
                "limits": In(EntryRead(Limits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._issue(m)
        uop, bounds = self.uop, self.bounds
        of_uop = (
            ("arithmetic", 0, Cat(uop[field] for field in Arithmetic.members)),
            ("out_zp", OUT_ZP_CYCLES, uop.out_zp),
            ("finish", FINISH_CYCLES, Cat(uop[field] for field in Finish.members)),
        )
        of_bounds = (
            ("immediate", 0, bounds.immediate),
            ("limits", FINISH_CYCLES, Cat(bounds[field] for field in Limits.members)),
        )
        if has_small_memories(platform):
            for name, cycles, entry in of_uop:
                self._table(m, platform, (name, cycles, entry), self.write_uop, uop.index)
            for name, cycles, entry in of_bounds:
                self._table(m, platform, (name, cycles, entry), self.write_bounds, bounds.index)
            return m
        halves = [Cat(entry for *_, entry in half) for half in (of_uop, of_bounds)]
        half_bits = max(map(len, halves))
        m.submodules.later = memory = Memory(shape=2 * half_bits, depth=self.config.vector_uops, init=[])
        reader, writer = memory.read_port(), memory.write_port(granularity=half_bits)
        m.d.comb += [
            reader.en.eq(self.arithmetic.enable),
            reader.addr.eq(self.arithmetic.index),
            writer.en.eq(Cat(self.write_uop, self.write_bounds)),
            writer.addr.eq(Mux(self.write_uop, uop.index, bounds.index)),
            writer.data[:half_bits].eq(halves[0]),
            writer.data[half_bits:].eq(halves[1]),
        ]
        for begin, half in ((0, of_uop), (half_bits, of_bounds)):
            for name, cycles, entry in half:
                read = Signal(len(entry), name=f"{name}_read")
                m.d.comb += read.eq(reader.data[begin:][: len(entry)])
                m.d.comb += Value.cast(getattr(self, name).data).eq(_later(m, read, cycles))
                begin += len(entry)
        return m

    def _table(
        self, m: Module, platform: object, read: tuple[str, int, Value], write: Signal, index: Value
    ) -> None:
        """A memory of entries that are read some cycles after `arithmetic`. `read`: its name, the cycles, and what to
        store in it."""
        name, cycles, entry = read
        # Registers follow, so that it may come late: that of a few bits is not worth a block.
        late = NO_COLLISION_LOGIC if name == "finish" else placement(platform)
        memory = Memory(shape=len(entry), depth=self.config.vector_uops, init=[], attrs=late)
        m.submodules[name] = memory
        reader, writer = memory.read_port(), memory.write_port()
        m.d.comb += [
            reader.en.eq(_later(m, self.arithmetic.enable, cycles, f"{name}_enable")),
            reader.addr.eq(_later(m, self.arithmetic.index, cycles, f"{name}_index")),
            Value.cast(getattr(self, name).data).eq(reader.data),
            writer.en.eq(write),
            writer.addr.eq(index),
            writer.data.eq(entry),
        ]

    def _issue(self, m: Module) -> None:
        """What the issue decides by."""
        uop = self.uop
        m.submodules.issue = memory = Memory(
            shape=IssueFields, depth=self.config.vector_uops, init=[], attrs=NO_COLLISION_LOGIC
        )
        reader, writer = memory.read_port(), memory.write_port()
        issue = writer.data
        m.d.comb += [
            reader.en.eq(self.issue.enable),
            reader.addr.eq(self.issue.index),
            self.issue.data.eq(reader.data),
            writer.en.eq(self.write_uop),
            writer.addr.eq(uop.index),
        ]
        a, b = uop.a_source, uop.b_source
        for operand, source, index in ((issue.a, a, uop.a_index), (issue.b, b, uop.b_index)):
            with m.Switch(source):
                for member in Source:
                    with m.Case(member.value):
                        m.d.comb += operand.select.eq(_SELECTS.get(member, Select.SCALAR))
            m.d.comb += [
                operand.register.eq(index),
                operand.immediate.eq(source == Source.IMMEDIATE.value),
                operand.iteration.eq(source == Source.ITERATION.value),
            ]
        m.d.comb += [
            *(
                issue.loads[stream].eq(
                    Mux(
                        a == Source.LOAD.value,
                        uop.a_index == stream,
                        (b == Source.LOAD.value) & (uop.b_index == stream),
                    )
                )
                for stream in range(STORE_STREAM)
            ),
            issue.array.eq(a == Source.ARRAY.value),
            issue.bias.eq(uop.bias),
            issue.store.eq(uop.to_memory),
            issue.registers.eq((a == Source.REGISTER.value) | (b == Source.REGISTER.value)),
        ]


def _later(m: Module, value: Signal, cycles: int, name: str = "") -> Signal:
    """What `value` was some cycles ago."""
    for cycle in range(1, cycles + 1):
        register = Signal(value.shape(), name=f"{name or value.name}_{cycle}", reset_less=True)
        m.d.sync += register.eq(value)
        name, value = name or value.name, register
    return value
