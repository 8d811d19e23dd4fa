"""The micro-program: what each micro-op needs, kept in tables that are read at the stage that needs it."""

from amaranth.hdl import Module, Mux, Signal, ValueCastable
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import STORE_STREAM, Opcode, Source, layout
from ..layouts import shapes
from ..memory.blocks import placement
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


class MicroOpStore(wiring.Component):
    """`vector_uops` micro-ops.

    Ports:
        write_uop (1, in), uop (VECTOR_UOP, in): store this VECTOR_UOP under its index.
        write_bounds (1, in), bounds (VECTOR_BOUNDS, in): store this VECTOR_BOUNDS under its index.
        issue, immediate, arithmetic, out_zp, finish, limits (TableRead, in): the tables.
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
                "immediate": In(TableRead(config, *shapes(Opcode.VECTOR_BOUNDS, "immediate").values())),
                "arithmetic": In(TableRead(config, Arithmetic)),
                "out_zp": In(TableRead(config, *shapes(Opcode.VECTOR_UOP, "out_zp").values())),
                "finish": In(TableRead(config, Finish)),
                "limits": In(TableRead(config, Limits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        uop, bounds = self.uop, self.bounds
        issue = self._table(m, "issue", self.issue, self.write_uop, NO_COLLISION_LOGIC)
        finish = self._table(m, "finish", self.finish, self.write_uop, NO_COLLISION_LOGIC)
        # Registers follow these at once, so that they may come late.
        late = placement(platform)
        arithmetic = self._table(m, "arithmetic", self.arithmetic, self.write_uop, late)
        out_zp = self._table(m, "out_zp", self.out_zp, self.write_uop, late)
        immediate = self._table(m, "immediate", self.immediate, self.write_bounds, late)
        limits = self._table(m, "limits", self.limits, self.write_bounds, late)
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
            *(arithmetic[field].eq(uop[field]) for field in Arithmetic.members),
            *(finish[field].eq(uop[field]) for field in Finish.members),
            *(limits[field].eq(bounds[field]) for field in Limits.members),
            out_zp.eq(uop.out_zp),
            immediate.eq(bounds.immediate),
        ]
        return m

    def _table(
        self, m: Module, name: str, port: wiring.PureInterface, write: Signal, attributes: dict
    ) -> ValueCastable:
        """A table read by `port`; what to store in it."""
        memory = Memory(shape=port.data.shape(), depth=self.config.vector_uops, init=[], attrs=attributes)
        index = self.uop.index if write is self.write_uop else self.bounds.index
        m.submodules[name] = memory
        reader, writer = memory.read_port(), memory.write_port()
        m.d.comb += [
            reader.en.eq(port.enable),
            reader.addr.eq(port.index),
            port.data.eq(reader.data),
            writer.en.eq(write),
            writer.addr.eq(index),
        ]
        return writer.data
