"""Reads parameters, tables, offsets and the byte of a VECTOR_TEST out of the activation memory."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..constants import BIAS_BYTES, MULTIPLIER_BYTES, NARROW_BIAS_BYTES, SHIFT_BYTES
from ..interfaces import VECTOR_READ_LATENCY
from ..isa import Opcode, width
from .layouts import FetchedWord, ParameterBlock

KINDS = ("bias", "narrow_bias", "multiplier", "shift", "table", "offsets", "test")
"""What is fetched, in the order in which it lies in memory."""


class ParameterFetch(wiring.Component):
    """Reads consecutive memory words and says what each of them is.

    Ports:
        start_params (1, in): fetch the parameters of `block`. Like the other starts not while `busy`.
        start_table, start_offsets (1, in): fetch `entries` of 32 bits; they may end inside a word.
        start_test (1, in): fetch one word.
        block (ParameterBlock, in): its `address` is where any of them begins.
        entries (VECTOR_TABLE.entries, in): entries of the table, or offsets.
        request (1, out): prepare a read of the activation memory at `read_address`. It is granted in the next cycle.
        read_address (VECTOR_PARAM.address, out): its address.
        fetched (FetchedWord, out): what the memory gives in this cycle, VECTOR_READ_LATENCY cycles after `request`.
        busy (1, out): there are reads to prepare; for offsets and tests also: their data are not yet there.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "start_params": In(1),
                "start_table": In(1),
                "start_offsets": In(1),
                "start_test": In(1),
                "block": In(ParameterBlock),
                "entries": In(width(Opcode.VECTOR_TABLE, "entries")),
                "busy": Out(1),
                "request": Out(1),
                "read_address": Out(ParameterBlock["address"].shape),
                "fetched": Out(FetchedWord(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, last_word = Signal.like(self.fetched.word), Signal.like(self.fetched.word)
        left = {kind: Signal(name=f"{kind}_left") for kind in KINDS}
        taken = {kind: Signal(name=f"{kind}_taken") for kind in KINDS}
        # Words of a byte for each column.
        last = {
            "bias": BIAS_BYTES - 1,
            "narrow_bias": NARROW_BIAS_BYTES - 1,
            "multiplier": MULTIPLIER_BYTES - 1,
            "shift": SHIFT_BYTES - 1,
            "table": last_word,
            "offsets": last_word,
            "test": 0,
        }
        starts_words = self.start_table | self.start_offsets
        m.d.comb += self.request.eq(Cat(left.values()).any())
        with m.If(self.start_params | starts_words | self.start_test):
            m.d.sync += [word.eq(0), self.read_address.eq(self.block.address)]
        with m.Elif(self.request):
            m.d.sync += self.read_address.eq(self.read_address + self.config.columns)
            for kind in KINDS:
                with m.If(taken[kind]):
                    m.d.sync += [
                        left[kind].eq(word != last[kind]),
                        word.eq(Mux(word == last[kind], 0, word + 1)),
                    ]
        with m.If(self.start_params):
            m.d.sync += [
                left["bias"].eq(self.block.bias & ~self.block.narrow),
                left["narrow_bias"].eq(self.block.bias & self.block.narrow),
                left["multiplier"].eq(self.block.scale),
                left["shift"].eq(self.block.scale),
            ]
        with m.Elif(starts_words):
            entry_bits = (self.config.columns // 4 - 1).bit_length()
            m.d.sync += [left["table"].eq(self.start_table), left["offsets"].eq(self.start_offsets)]
            m.d.sync += last_word.eq((self.entries - 1) >> entry_bits)
        with m.Elif(self.start_test):
            m.d.sync += left["test"].eq(1)
        # A word is of the first kind that is left. Nothing is left while something begins.
        blocked = C(0, 1)
        for kind in KINDS:
            m.d.comb += taken[kind].eq(left[kind] & ~blocked)
            blocked = blocked | left[kind]
        stays = Cat(left[kind] & ~(taken[kind] & (word == last[kind])) for kind in KINDS).any()
        self._follow(m, taken, word, stays)
        return m

    def _follow(self, m: Module, taken: dict[str, Signal], word: Signal, stays: object) -> None:
        """Follows what was read until it arrives; `busy` if something `stays` to be read in the next cycle."""
        read, arriving = Signal(FetchedWord(self.config)), []
        m.d.comb += [read.word.eq(word), *(read[kind].eq(taken[kind]) for kind in KINDS)]
        for stage in range(VECTOR_READ_LATENCY):
            arriving.append(Signal(FetchedWord(self.config), name=f"arriving_{stage}"))
            m.d.sync += arriving[stage].eq(arriving[stage - 1] if stage else read)
        m.d.comb += self.fetched.eq(arriving[-1])
        lingering = Cat((what.offsets, what.test) for what in (read, *arriving[:-1])).any()
        # Off the critical path: all commands wait for `busy`. So it is a register, high from the cycle after a start.
        starts = self.start_table | self.start_offsets | self.start_test
        begins = starts | (self.start_params & (self.block.bias | self.block.scale))
        begun = starts | self.start_params
        m.d.sync += self.busy.eq(begins | (~begun & stays) | lingering)
