"""The vector unit's memory streams: their configuration, their addresses, the offsets of the indexed one."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import INSTRUCTION_BYTES, OFFSETS_MAX, STORE_STREAM, Element, Opcode, layout
from .beats import StreamSizes, log2_bytes
from .layouts import stream_of, table_words
from .offsets import Offsets
from .stream_address import ADDRESS_BITS, TURN_BITS, StreamAddress

STREAMS = STORE_STREAM + 1


class Streams(wiring.Component):
    """Three load streams and the store stream. One of them may be indexed.

    Ports:
        word (128, in): the command for which one of `set_stream`, `set_dims`, `set_offsets` is high.
        set_stream, set_dims, set_offsets (1, in): a VECTOR_STREAM, VECTOR_DIMS, VECTOR_OFFSETS is taken.
        settled (1, out): `illegal` is right: none of them was taken in the cycle before.
        illegal (1, out): two streams are indexed, or one has more turns than there are offsets.
        idle (1, in): no GO is running. The cycle in which one is taken is the last one.
        write_offsets (1, in), offsets_word (0..table_words-1, in): `data` are the offsets of this word.
        data (8 W, in): a word of the activation memory.
        load, load_next_word (1, in), loads (a bit per load stream, in): this load stream steps; goes on to the next
            word of a vector.
        load_address (ADDRESS_BITS, out), load_element (Element, out), load_splat (1, out): of this load stream, of the
            first one if it is none.
        store, store_next_word (1, in): the store stream steps; goes on to the next word of a vector.
        store_address (ADDRESS_BITS, out), store_element (Element, out), store_last (1, out): the store stream's;
            `store_last`: dimension 0 is at its last turn.
        sizes (StreamSizes, out): all streams'; right when `illegal` is.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "word": In(8 * INSTRUCTION_BYTES),
                "set_stream": In(1),
                "set_dims": In(1),
                "set_offsets": In(1),
                "settled": Out(1),
                "illegal": Out(1),
                "idle": In(1),
                "write_offsets": In(1),
                "offsets_word": In(range(table_words(config))),
                "data": In(8 * config.columns),
                "load": In(1),
                "load_next_word": In(1),
                "loads": In(STORE_STREAM),
                "load_address": Out(ADDRESS_BITS),
                "load_element": Out(Element),
                "load_splat": Out(1),
                "store": In(1),
                "store_next_word": In(1),
                "store_address": Out(ADDRESS_BITS),
                "store_element": Out(Element),
                "store_last": Out(1),
                "sizes": Out(StreamSizes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        streams = [StreamAddress(number, self.config.columns) for number in range(STREAMS)]
        for number, stream in enumerate(streams):
            m.submodules[f"stream_{number}"] = stream
            m.d.comb += [
                stream.set_stream.eq(self.set_stream),
                stream.stream.eq(self.word),
                stream.set_dims.eq(self.set_dims),
                stream.dims.eq(self.word),
                stream.restart.eq(self.idle),
            ]
            if number != STORE_STREAM:
                m.d.comb += [
                    stream.step.eq(self.load & self.loads[number]),
                    stream.next_word.eq(self.load_next_word & self.loads[number]),
                ]
                m.d.sync += self.sizes[number].eq(Mux(stream.splat, 0, log2_bytes(stream.element)))
        store, of_loads, load_stream = streams[STORE_STREAM], streams[:STORE_STREAM], stream_of(self.loads)
        m.d.comb += [
            self.load_address.eq(Array(stream.address for stream in of_loads)[load_stream]),
            self.load_element.eq(Array(stream.element for stream in of_loads)[load_stream]),
            self.load_splat.eq(Array(stream.splat for stream in of_loads)[load_stream]),
            store.step.eq(self.store),
            store.next_word.eq(self.store_next_word),
            self.store_address.eq(store.address),
            self.store_element.eq(store.element),
            self.store_last.eq(store.last),
        ]
        m.d.sync += self.sizes[STORE_STREAM].eq(log2_bytes(store.element))
        self._offsets(m, streams)
        return m

    def _offsets(self, m: Module, streams: list[StreamAddress]) -> None:
        """Gives the offsets to the indexed stream. Which one that is, and whether its turns have offsets, is settled
        before a GO."""
        m.submodules.offsets = offsets = Offsets(self.config)
        offsets_there = Signal(range(OFFSETS_MAX + 1))
        with m.If(self.set_offsets):
            m.d.sync += offsets_there.eq(layout(Opcode.VECTOR_OFFSETS)(self.word).count)
        several = Cat(streams[i].indexed & streams[k].indexed for i in range(STREAMS) for k in range(i)).any()
        last_turn = Signal(TURN_BITS)
        beyond = Cat(stream.indexed for stream in streams).any() & (last_turn >= offsets_there)
        for stream in streams:
            with m.If(stream.indexed):
                m.d.comb += [
                    last_turn.eq(stream.last_turn),
                    offsets.step.eq(stream.next_offset),
                    stream.offset.eq(offsets.offset),
                ]
        m.d.sync += [
            self.illegal.eq(several | beyond),
            self.settled.eq(~(self.set_stream | self.set_dims | self.set_offsets)),
        ]
        m.d.comb += [
            offsets.last_turn.eq(last_turn),
            offsets.idle.eq(self.idle),
            offsets.write.eq(self.write_offsets),
            offsets.word_address.eq(self.offsets_word),
            offsets.word.eq(self.data),
        ]
