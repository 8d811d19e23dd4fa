"""What a program has set up of its micro-program, so that nothing an earlier program left is executed."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import Lookahead
from ..isa import Op, Opcode, Source, layout

TABLE_OPS = {Op.TABLE8: 256, Op.TABLE16: 512}
"""Entries of the lookup table that an operation looks up."""


class Definitions(wiring.Component):
    """Finds a VECTOR_GO that would execute what was not written since the reset.

    Ports:
        `word`: the command at the head of the queue.
        `lookahead`: the one that comes after.
        `has_uop`, `has_bounds`, `has_params`, `has_table`: it is this one. It may still wait: what uses that which it
            sets up is behind it, and if it is refused, nothing behind it is executed.
        `missing`: the command at the head, if it is a VECTOR_GO, uses something that is not there: one of its
            micro-ops; the VECTOR_BOUNDS of one that clamps or has an immediate; or, of any micro-op written so far,
            the biases, the multipliers and shifts, or the table. From a register: much depends on it.
    """

    word: In(128)
    lookahead: In(Lookahead())
    has_uop: In(1)
    has_bounds: In(1)
    has_params: In(1)
    has_table: In(1)
    missing: Out(1)

    def __init__(self, config: Config):
        self.config = config
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.missing.eq(self._micro_program(m) | self._parameters(m))
        return m

    def _micro_program(self, m: Module) -> Signal:
        """Whether a micro-op of the GO, or the bounds of one, are missing."""
        uop, bounds = layout(Opcode.VECTOR_UOP)(self.word), layout(Opcode.VECTOR_BOUNDS)(self.word)
        go = layout(Opcode.VECTOR_GO)(self.lookahead.following)
        uops = range(self.config.vector_uops)
        written, bounded = Signal(len(uops)), Signal(len(uops))
        # A bit per micro-op: it is not written, or its bounds are missing; and whether that is so behind this command.
        incomplete, incomplete_then = Signal(len(uops), init=-1), Signal(len(uops))
        immediate, needs_bounds = Source.IMMEDIATE.value, Signal()
        m.d.comb += [
            needs_bounds.eq(uop.clamp | (uop.a_source == immediate) | (uop.b_source == immediate)),
            incomplete_then.eq(incomplete),
        ]
        for index in uops:
            with m.If(self.has_uop & (uop.index == index)):
                m.d.comb += incomplete_then[index].eq(needs_bounds & ~bounded[index])
                m.d.sync += written[index].eq(1)
            with m.If(self.has_bounds & (bounds.index == index)):
                m.d.comb += incomplete_then[index].eq(~written[index])
                m.d.sync += bounded[index].eq(1)
        m.d.sync += incomplete.eq(incomplete_then)
        missing = Signal(name="missing_uop", reset_less=True)
        with m.If(self.lookahead.moves):
            m.d.sync += missing.eq((incomplete_then & Cat(go.uops > index for index in uops)).any())
        return missing

    def _parameters(self, m: Module) -> Signal:
        """Whether a micro-op uses parameters or a table, and there are none."""
        uop, params = layout(Opcode.VECTOR_UOP)(self.word), layout(Opcode.VECTOR_PARAM)(self.word)
        table = layout(Opcode.VECTOR_TABLE)(self.word)
        kinds = [
            (uop.bias, self.has_params & params.bias),
            ((uop.op == Op.RESCALE.value) & uop.per_channel, self.has_params & params.scale),
            *(
                (uop.op == op.value, self.has_table & (table.entries >= entries))
                for op, entries in TABLE_OPS.items()
            ),
        ]
        used, there, used_then, there_then = (
            Signal(len(kinds), name=name) for name in ("used", "there", "used_then", "there_then")
        )
        m.d.comb += [
            used_then.eq(used | (Cat(uses for uses, _ in kinds) & self.has_uop.replicate(len(kinds)))),
            there_then.eq(there | Cat(loads for _, loads in kinds)),
        ]
        missing = Signal(name="missing_parameters")
        m.d.sync += [used.eq(used_then), there.eq(there_then), missing.eq((used_then & ~there_then).any())]
        return missing


__all__ = ["TABLE_OPS", "Definitions"]
