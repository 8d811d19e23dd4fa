"""The weight memory."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..interfaces import WmRead, WmWrite
from ..one_hot import any_of, only_if
from .words import WordMemory


class WeightMemory(wiring.Component):
    """`wm_words` words of W bytes, one read and one write per cycle, both always taken.

    Word addresses wrap at `wm_words`.

    Ports:
        read (WmRead, in): data is valid exactly WM_READ_LATENCY cycles (memory and output register) after `enable`.
        write (WmWrite, in): a read enabled later sees it; a read of the word in the same cycle returns the old one.
        wrong (1, out): only with `memory_parity`, a bit behind each word: in the cycle before, the data of a read had
            a wrong one.
    """

    def __init__(self, config: Config):
        self.config = config
        self._parity = config.memory_parity
        super().__init__(
            {
                **({"wrong": Out(1)} if self._parity else {}),
                "read": In(WmRead(config)),
                "write": In(WmWrite(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        if self.config.most_row_parts > 1:
            return self._banked()
        m = Module()
        width = 8 * self.config.word_bytes + self._parity
        m.submodules.words = words = WordMemory(width, self.config.wm_words)
        pending = Signal()
        output = Signal(width)
        m.d.comb += [
            words.write_enable.eq(self.write.enable),
            words.write_address.eq(self.write.address),
            words.write_data.eq(self._kept(self.write.data)),
            words.read_enable.eq(self.read.enable),
            words.read_address.eq(self.read.address),
            self.read.data.eq(output[:-1] if self._parity else output),
        ]
        m.d.sync += pending.eq(self.read.enable)
        with m.If(pending):
            m.d.sync += output.eq(words.read_data)
        self._check(m, [(words, pending, output)])
        return m

    def _kept(self, word: Value) -> Value:
        """What a memory keeps of a word."""
        return Cat(word, word.xor()) if self._parity else word

    def _check(self, m: Module, outputs: list[tuple[WordMemory, Signal, Signal]]) -> None:
        """`outputs`: for each bank, whether a word comes to its output register, and this register. A word that was
        written in the cycle of its read may be anything."""
        if not self._parity:
            return
        wrong = []
        for bank, (words, pending, output) in enumerate(outputs):
            there, written = Signal(name=f"there_{bank}"), Signal(name=f"written_{bank}")
            m.d.sync += [
                written.eq(words.write_enable & (words.read_address == words.write_address)),
                there.eq(pending & ~written),
            ]
            wrong.append(there & output.xor())
        m.d.sync += self.wrong.eq(Cat(wrong).any())

    def _banked(self) -> Module:
        """Words go round the banks, as many at a time as a part of the rows has rows."""
        m, config = Module(), self.config
        banks, width = config.most_row_parts, 8 * config.word_bytes
        low, high = exact_log2(config.divided_rows // banks), exact_log2(config.divided_rows)
        read, write = self.read, self.write
        reads = [(read.enable, read.address, read.data)]
        reads += [
            (
                read.part_enable[number],
                read.part_address.word_select(number, len(read.address)),
                read.part_data.word_select(number, width),
            )
            for number in range(banks - 1)
        ]
        outputs: list[Value] = []
        kept: list[tuple[WordMemory, Signal, Signal]] = []
        for bank in range(banks):
            m.submodules[f"bank_{bank}"] = words = WordMemory(width + self._parity, config.wm_words // banks)
            here = [enable & (address[low:high] == bank) for enable, address, _ in reads]
            pending, output = (
                Signal(name=f"pending_{bank}"),
                Signal(width + self._parity, name=f"output_{bank}"),
            )
            rows = [Cat(address[:low], address[high:])[: len(words.read_address)] for _, address, _ in reads]
            m.d.comb += [
                words.write_enable.eq(write.enable & (write.address[low:high] == bank)),
                words.write_address.eq(Cat(write.address[:low], write.address[high:])),
                words.write_data.eq(self._kept(write.data)),
                words.read_enable.eq(Cat(here).any()),
                words.read_address.eq(any_of(map(only_if, here, rows))),
            ]
            m.d.sync += pending.eq(words.read_enable)
            with m.If(pending):
                m.d.sync += output.eq(words.read_data)
            outputs.append(output[:width] if self._parity else output)
            kept.append((words, pending, output))
        self._check(m, kept)
        for number, (_, address, word) in enumerate(reads):
            chosen = [
                Signal(high - low, name=f"chosen_{number}_{cycle}", reset_less=True) for cycle in (1, 2)
            ]
            m.d.sync += [chosen[0].eq(address[low:high]), chosen[1].eq(chosen[0])]
            # A tree of pairs takes fewer LUTs than what synthesis makes of an index.
            choices = outputs
            for bit in chosen[1]:
                choices = [Mux(bit, odd, even) for even, odd in zip(choices[::2], choices[1::2], strict=True)]
            m.d.comb += word.eq(choices[0])
        return m
