"""Words of one block in memory to the streams they belong to."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..nnr_streams import TAG_BITS
from ..skid import SkidBuffer
from .job import STREAM_BYTES_BITS


class Distributor(wiring.Component):
    """Hands each word to its stream. A single stream's words have no tags. Those of several streams come in groups,
    each after a tag word: its bits 1:0 name the stream of the first word, bits 3:2 that of the second one, and so on.

    Ports:
        start (1, in): a block begins; the one before has ended.
        tagged (1, in): the block has tag words; with `start`.
        word_count (STREAM_BYTES_BITS, in): its words without the tag words; with `start`.
        words (stream of 8 W, in): the block; taken no further than it goes.
        late (1, out): the block has more words, and none is there.
        streams (stream of 8 W per engine, out): the words of each stream.
    """

    def __init__(self, config: Config):
        self.config = config
        word = stream.Signature(8 * config.word_bytes)
        super().__init__(
            {
                "start": In(1),
                "tagged": In(1),
                "word_count": In(STREAM_BYTES_BITS),
                "words": In(word),
                "late": Out(1),
                "streams": Out(word).array(config.cabac_engines),
            }
        )
        # The state, for the tests' proofs.
        width = 8 * config.word_bytes
        self.words_left = Signal.like(self.word_count)
        self.is_tagged = Signal()
        self.tags = Signal(width, reset_less=True)
        self.tags_left = Signal(range(width // TAG_BITS + 1))
        self.skids = [SkidBuffer(data.StructLayout({"word": width})) for _ in range(config.cabac_engines)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = 8 * self.config.word_bytes
        words_left, tagged, tags, tags_left = self.words_left, self.is_tagged, self.tags, self.tags_left
        takes_tags = Signal()
        passes = Signal()
        readies = []
        target = Signal(exact_log2(self.config.cabac_engines))
        m.d.comb += [
            target.eq(Mux(tagged, tags[:TAG_BITS], 0)),
            takes_tags.eq((words_left != 0) & tagged & (tags_left == 0)),
        ]
        for index, (skid, output) in enumerate(zip(self.skids, self.streams, strict=True)):
            m.submodules[f"skid{index}"] = skid
            m.d.comb += [
                skid.input.payload.word.eq(self.words.payload),
                skid.input.valid.eq(self.words.valid & (words_left != 0) & ~takes_tags & (target == index)),
                output.valid.eq(skid.output.valid),
                output.payload.eq(skid.output.payload.word),
                skid.output.ready.eq(output.ready),
            ]
            readies.append(skid.input.ready)
        m.d.comb += [
            passes.eq((words_left != 0) & ~takes_tags & Array(readies)[target]),
            self.words.ready.eq(takes_tags | passes),
            self.late.eq((words_left != 0) & ~self.words.valid),
        ]
        with m.If(self.start):
            m.d.sync += [words_left.eq(self.word_count), tagged.eq(self.tagged), tags_left.eq(0)]
        with m.Elif(self.words.valid & takes_tags):
            m.d.sync += [tags.eq(self.words.payload), tags_left.eq(width // TAG_BITS)]
        with m.Elif(self.words.valid & passes):
            m.d.sync += [words_left.eq(words_left - 1), tags.eq(tags >> TAG_BITS)]
            with m.If(tagged):
                m.d.sync += tags_left.eq(tags_left - 1)
        return m
