"""The vector unit's command queue: checks each command and hands it to who executes it."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import Command, Lookahead, Tokens
from ..isa import Error, Opcode, layout
from . import checks

_STARTS = {
    Opcode.VECTOR_UOP: "write_uop",
    Opcode.VECTOR_BOUNDS: "write_bounds",
    Opcode.VECTOR_STREAM: "set_stream",
    Opcode.VECTOR_DIMS: "set_dims",
    Opcode.VECTOR_PARAM: "start_params",
    Opcode.VECTOR_TABLE: "start_table",
    Opcode.VECTOR_GO: "start_go",
    Opcode.VECTOR_MARK: "mark",
    Opcode.VECTOR_OFFSETS: "start_offsets",
    Opcode.VECTOR_TEST: "start_test",
}


class Commands(wiring.Component):
    """Takes one command per cycle. What it is, and whether it is legal, is known from registers.

    - `complete`: all that was started is complete. Every command but VECTOR_WAIT waits for it.
    - `streams_illegal`: a GO would be illegal with the streams as they are set up; not yet `streams_settled`: a GO
      waits. `missing`: a GO would be illegal, for it uses what was not set up (see Definitions).
    - `word`: the command at the head; one of the outputs named after what is to be done with it is high in the cycle
      in which it is taken.
    - `taken`: a command is taken in this cycle.
    - `error`, `code`: the command of the cycle before was illegal; nothing is taken from then on until reset.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "commands": In(Command),
                "lookahead": In(Lookahead()),
                "tokens": Out(Tokens()),
                "complete": In(1),
                "streams_illegal": In(1),
                "streams_settled": In(1),
                "missing": In(1),
                "word": Out(128),
                "taken": Out(1),
                **{name: Out(1) for name in _STARTS.values()},
                "error": Out(1),
                "code": Out(4),
            }
        )

    def _illegal(self, m: Module) -> Signal:
        """Whether the command that comes to the head must not be executed, as far as its fields say."""
        word = self.lookahead.following

        def fields(opcode: Opcode) -> Value:
            return layout(opcode)(word)

        opcode, illegal = word[:8], Signal()
        with m.Switch(opcode):
            with m.Case(Opcode.VECTOR_UOP):
                m.d.comb += illegal.eq(checks.illegal_uop(fields(Opcode.VECTOR_UOP), self.config))
            with m.Case(Opcode.VECTOR_BOUNDS):
                m.d.comb += illegal.eq(checks.illegal_bounds(fields(Opcode.VECTOR_BOUNDS), self.config))
            with m.Case(Opcode.VECTOR_STREAM):
                m.d.comb += illegal.eq(checks.illegal_stream(fields(Opcode.VECTOR_STREAM), self.config))
            with m.Case(Opcode.VECTOR_DIMS):
                m.d.comb += illegal.eq(checks.illegal_dims(fields(Opcode.VECTOR_DIMS)))
            with m.Case(Opcode.VECTOR_TABLE):
                m.d.comb += illegal.eq(checks.illegal_table(fields(Opcode.VECTOR_TABLE)))
            with m.Case(Opcode.VECTOR_GO):
                m.d.comb += illegal.eq(checks.illegal_go(fields(Opcode.VECTOR_GO), self.config))
            with m.Case(Opcode.VECTOR_OFFSETS):
                m.d.comb += illegal.eq(checks.illegal_offsets(fields(Opcode.VECTOR_OFFSETS)))
            with m.Case(
                Opcode.VECTOR_WAIT,
                Opcode.VECTOR_SIGNAL,
                Opcode.VECTOR_PARAM,
                Opcode.VECTOR_MARK,
                Opcode.VECTOR_TEST,
            ):
                pass
            with m.Default():
                m.d.comb += illegal.eq(1)
        return illegal

    def elaborate(self, platform: object) -> Module:
        m = Module()
        halted = Signal()
        valid = Signal()
        token = layout(Opcode.VECTOR_WAIT)(self.word)
        opcodes = [*_STARTS, Opcode.VECTOR_WAIT, Opcode.VECTOR_SIGNAL]
        is_ = {member: Signal(name=f"is_{member.name.lower()}", reset_less=True) for member in opcodes}
        illegal, may_go = Signal(reset_less=True), Signal()
        with m.If(self.lookahead.moves):
            m.d.sync += illegal.eq(self._illegal(m))
            m.d.sync += [
                flag.eq(self.lookahead.following[:8] == member.value) for member, flag in is_.items()
            ]
        m.d.comb += [
            self.word.eq(self.commands.payload),
            valid.eq(self.commands.valid & ~halted),
            self.tokens.semaphore.eq(token.semaphore),
            self.tokens.count.eq(token.count),
            self.tokens.signal_semaphore.eq(token.semaphore),
            self.tokens.signal_count.eq(token.count),
            self.code.eq(Error.ILLEGAL.value),
            self.taken.eq(self.commands.ready & valid),
        ]
        m.d.sync += self.error.eq(0)
        m.d.comb += may_go.eq(self.complete & (self.streams_settled | ~is_[Opcode.VECTOR_GO]))
        with m.If(valid & is_[Opcode.VECTOR_WAIT]):
            m.d.comb += [self.tokens.wait.eq(1), self.commands.ready.eq(self.tokens.ok)]
        with m.Elif(valid & may_go):
            with m.If(illegal | (is_[Opcode.VECTOR_GO] & (self.streams_illegal | self.missing))):
                m.d.sync += [self.error.eq(1), halted.eq(1)]
            with m.Else():
                is_signal = is_[Opcode.VECTOR_SIGNAL]
                m.d.comb += [
                    self.commands.ready.eq(~(is_signal & self.tokens.signal_full)),
                    self.tokens.signal.eq(is_signal & ~self.tokens.signal_full),
                ]
                for member, name in _STARTS.items():
                    m.d.comb += getattr(self, name).eq(is_[member])
        return m


__all__ = ["Commands"]
