"""Reads parameters, tables and the byte of a VECTOR_TEST out of the activation memory."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import VECTOR_READ_LATENCY
from .table import table_words

BIAS_WORDS = MULTIPLIER_WORDS = 4
SHIFT_WORDS = 1


class Fetch(wiring.Component):
    """Reads consecutive memory words and says what each of them is.

    - `start_params` with `address`, `bias`, `scale`, or `start_table` or `start_offsets` with `address`, `entries` (of
      32 bits; they may end inside a word), or `start_test` with `address`: begin. Not while `busy`.
    - `request`, `read_address`: prepare a read of the activation memory. It is granted in the next cycle.
    - `busy`: there are reads to prepare. Their data arrive VECTOR_READ_LATENCY cycles after that, in which
      cycle one of `bias_data`, `multiplier_data`, `shift_data`, `table_data`, `offsets_data`, `test_data` is high, with
      the `word` number within its kind. For offsets and tests `busy` stays high until the last of them has been there.
    """

    def __init__(self, config: Config):
        self.config = config
        self.entries_per_word = config.columns // 4
        super().__init__(
            {
                "start_params": In(1),
                "start_table": In(1),
                "start_offsets": In(1),
                "start_test": In(1),
                "address": In(24),
                "bias": In(1),
                "scale": In(1),
                "entries": In(10),
                "busy": Out(1),
                "request": Out(1),
                "read_address": Out(24),
                "bias_data": Out(1),
                "multiplier_data": Out(1),
                "shift_data": Out(1),
                "table_data": Out(1),
                "offsets_data": Out(1),
                "test_data": Out(1),
                "word": Out(range(table_words(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word = Signal.like(self.word)
        last_word = Signal.like(self.word)
        names = ("bias", "multiplier", "shift", "table", "offsets", "test")
        bias, multiplier, shift, table, offsets, test = (Signal(name=f"{n}_left") for n in names)
        left = bias | multiplier | shift | table | offsets | test
        m.d.comb += self.request.eq(left)

        # In the order they lie in memory; each kind is taken off the list with its last word.
        kinds = [
            (bias, self.bias_data, BIAS_WORDS - 1),
            (multiplier, self.multiplier_data, MULTIPLIER_WORDS - 1),
            (shift, self.shift_data, SHIFT_WORDS - 1),
            (table, self.table_data, last_word),
            (offsets, self.offsets_data, last_word),
            (test, self.test_data, 0),
        ]
        taken = [Signal(name=f"{n}_taken") for n in names]
        with m.If(self.start_params):
            m.d.sync += [bias.eq(self.bias), multiplier.eq(self.scale), shift.eq(self.scale)]
            m.d.sync += [word.eq(0), self.read_address.eq(self.address)]
        with m.Elif(self.start_table | self.start_offsets):
            entry_bits = (self.entries_per_word - 1).bit_length()
            m.d.sync += [table.eq(self.start_table), offsets.eq(self.start_offsets)]
            m.d.sync += last_word.eq((self.entries - 1) >> entry_bits)
            m.d.sync += [word.eq(0), self.read_address.eq(self.address)]
        with m.Elif(self.start_test):
            m.d.sync += [test.eq(1), word.eq(0), self.read_address.eq(self.address)]
        with m.Elif(left):
            m.d.sync += self.read_address.eq(self.read_address + self.config.columns)
            for (wanted, _, last), now in zip(kinds, taken, strict=True):
                with m.If(now):
                    m.d.sync += [wanted.eq(word != last), word.eq(Mux(word == last, 0, word + 1))]
        # Nothing is left while something begins.
        blocked = C(0, 1)
        for (wanted, _, _), now in zip(kinds, taken, strict=True):
            m.d.comb += now.eq(wanted & ~blocked)
            blocked = blocked | wanted

        arriving = word
        for stage in range(VECTOR_READ_LATENCY):
            delayed = Signal.like(word, name=f"word_{stage}")
            m.d.sync += delayed.eq(arriving)
            arriving = delayed
        m.d.comb += self.word.eq(arriving)
        lingering = []
        for (wanted, output, _), now in zip(kinds, taken, strict=True):
            for stage in range(VECTOR_READ_LATENCY):
                if wanted is offsets or wanted is test:
                    lingering.append(now)
                delayed = Signal(name=f"{now.name}_{stage}")
                m.d.sync += delayed.eq(now)
                now = delayed
            m.d.comb += output.eq(now)
        # `busy` is left | late, from a register: all commands wait for it.
        starts = self.start_table | self.start_offsets | self.start_test
        begins = starts | (self.start_params & (self.bias | self.scale))
        begun = starts | self.start_params
        stays = Cat(
            wanted & ~(now & (word == last)) for (wanted, _, last), now in zip(kinds, taken, strict=True)
        ).any()
        m.d.sync += self.busy.eq(begins | (~begun & stays) | Cat(lingering).any())
        return m


__all__ = ["BIAS_WORDS", "MULTIPLIER_WORDS", "SHIFT_WORDS", "Fetch"]
