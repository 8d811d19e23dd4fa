"""The vector unit's command queue: checks each command and hands it to who executes it."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import Command, Lookahead, Tokens
from ..isa import INSTRUCTION_BYTES, Error, Opcode, Unit, layout
from . import checks


class VectorCommands(wiring.Component):
    """Takes one command per cycle. What it is, and whether it is legal, is known from registers.

    Ports:
        commands (Command, in), lookahead (Lookahead, in): the unit's queue, and the command that comes after.
        tokens (Tokens, out): the semaphores.
        may_follow (1, in): all that was started is as good as complete. Every command waits for it, but for
            VECTOR_WAIT and
        may_signal (1, in): for this, a VECTOR_SIGNAL;
        may_set_up (1, in): and for this, VECTOR_UOP and VECTOR_BOUNDS. Both are high where `may_follow` is.
        streams_illegal (1, in): a GO would be illegal with the streams as they are set up.
        streams_settled (1, in): `streams_illegal` is right; a GO waits for it.
        missing (1, in): a GO would be illegal, for it uses what was not set up (see Definitions).
        word (128, out): the command at the head.
        has_uop, has_bounds, has_params, has_table (1, out): it is this one, whether it is taken or not.
        taken (1, out): it is taken in this cycle.
        write_uop, write_bounds, set_stream, set_dims, start_params, start_table, start_go, mark, start_offsets,
            start_test (1, out): it is taken in this cycle, and this is what it asks for.
        error (1, out), code (4, out): the command of the cycle before was illegal; nothing is taken until reset.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "commands": In(Command),
                "lookahead": In(Lookahead()),
                "tokens": Out(Tokens(config.core_mask_bits)),
                "may_follow": In(1),
                "may_signal": In(1),
                "may_set_up": In(1),
                "streams_illegal": In(1),
                "streams_settled": In(1),
                "missing": In(1),
                "word": Out(8 * INSTRUCTION_BYTES),
                "has_uop": Out(1),
                "has_bounds": Out(1),
                "has_params": Out(1),
                "has_table": Out(1),
                "taken": Out(1),
                "write_uop": Out(1),
                "write_bounds": Out(1),
                "set_stream": Out(1),
                "set_dims": Out(1),
                "start_params": Out(1),
                "start_table": Out(1),
                "start_go": Out(1),
                "mark": Out(1),
                "start_offsets": Out(1),
                "start_test": Out(1),
                "error": Out(1),
                "code": Out(4),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        halted, valid, may_go, refused = Signal(), Signal(), Signal(), Signal()
        token = layout(Opcode.VECTOR_SIGNAL)(self.word)  # WAIT's fields lie in the same places
        opcodes = [opcode for opcode in Opcode if opcode.unit == Unit.VECTOR]
        is_ = {opcode: Signal(name=f"is_{opcode.name.lower()}", reset_less=True) for opcode in opcodes}
        illegal = Signal(reset_less=True)
        with m.If(self.lookahead.moves):
            m.d.sync += illegal.eq(self._illegal(m))
            m.d.sync += [flag.eq(self.lookahead.following[:8] == opcode) for opcode, flag in is_.items()]
        m.d.comb += [
            self.word.eq(self.commands.payload),
            valid.eq(self.commands.valid & ~halted),
            self.tokens.semaphore.eq(token.semaphore),
            self.tokens.count.eq(token.count),
            self.tokens.signal_semaphore.eq(token.semaphore),
            self.tokens.signal_count.eq(token.count),
            self.tokens.signal_cores.eq(token.cores[: self.config.core_mask_bits]),
            self.code.eq(Error.ILLEGAL.value),
            self.has_uop.eq(self.commands.valid & is_[Opcode.VECTOR_UOP]),
            self.has_bounds.eq(self.commands.valid & is_[Opcode.VECTOR_BOUNDS]),
            self.has_params.eq(self.commands.valid & is_[Opcode.VECTOR_PARAM]),
            self.has_table.eq(self.commands.valid & is_[Opcode.VECTOR_TABLE]),
            self.taken.eq(self.commands.ready & valid & ~refused),
            may_go.eq(
                (self.may_follow & (self.streams_settled | ~is_[Opcode.VECTOR_GO]))
                | (self.may_signal & is_[Opcode.VECTOR_SIGNAL])
                | (self.may_set_up & (is_[Opcode.VECTOR_UOP] | is_[Opcode.VECTOR_BOUNDS]))
            ),
        ]
        m.d.sync += self.error.eq(0)
        is_signal, is_go = is_[Opcode.VECTOR_SIGNAL], is_[Opcode.VECTOR_GO]
        streams_refuse = self.streams_illegal | self.missing
        with m.If(valid & is_[Opcode.VECTOR_WAIT]):
            m.d.comb += [self.tokens.wait.eq(1), self.commands.ready.eq(self.tokens.ok)]
        with m.Elif(valid & may_go):
            # What is refused leaves the queue, too: that it is refused comes late, and the queue has many registers.
            m.d.comb += [
                self.commands.ready.eq(~(is_signal & self.tokens.signal_full)),
                refused.eq(illegal | (is_go & streams_refuse)),
            ]
            with m.If(refused):
                m.d.sync += [self.error.eq(1), halted.eq(1)]
        # What a command starts hangs only on what this command waits for: the streams settle late.
        legal = valid & ~illegal
        alone = legal & self.may_follow
        m.d.comb += [
            self.tokens.signal.eq(legal & self.may_signal & is_signal & ~self.tokens.signal_full),
            self.write_uop.eq(legal & self.may_set_up & is_[Opcode.VECTOR_UOP]),
            self.write_bounds.eq(legal & self.may_set_up & is_[Opcode.VECTOR_BOUNDS]),
            self.set_stream.eq(alone & is_[Opcode.VECTOR_STREAM]),
            self.set_dims.eq(alone & is_[Opcode.VECTOR_DIMS]),
            self.start_params.eq(alone & is_[Opcode.VECTOR_PARAM]),
            self.start_table.eq(alone & is_[Opcode.VECTOR_TABLE]),
            self.start_go.eq(alone & is_go & self.streams_settled & ~streams_refuse),
            self.mark.eq(alone & is_[Opcode.VECTOR_MARK]),
            self.start_offsets.eq(alone & is_[Opcode.VECTOR_OFFSETS]),
            self.start_test.eq(alone & is_[Opcode.VECTOR_TEST]),
        ]
        return m

    def _illegal(self, m: Module) -> Signal:
        """Whether the command that comes to the head must not be executed, as far as its fields say."""
        word, illegal = self.lookahead.following, Signal()
        rules = {
            Opcode.VECTOR_UOP: checks.illegal_uop,
            Opcode.VECTOR_BOUNDS: checks.illegal_bounds,
            Opcode.VECTOR_STREAM: checks.illegal_stream,
            Opcode.VECTOR_DIMS: checks.illegal_dims,
            Opcode.VECTOR_TABLE: checks.illegal_table,
            Opcode.VECTOR_GO: checks.illegal_go,
            Opcode.VECTOR_OFFSETS: checks.illegal_offsets,
        }
        with m.Switch(word[:8]):
            for opcode, rule in rules.items():
                with m.Case(opcode):
                    m.d.comb += illegal.eq(rule(layout(opcode)(word), self.config))
            with m.Case(*(opcode for opcode in Opcode if opcode.unit == Unit.VECTOR and opcode not in rules)):
                pass
            with m.Default():
                m.d.comb += illegal.eq(1)
        return illegal
