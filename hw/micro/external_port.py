"""The core's and the host's way to memory outside of the machine, with a cache for what the core reads again and again:
instructions are read where they lie."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ..bridge.byte_port import BytePort
from ..memory.words import NO_COLLISION_LOGIC
from .core import CoreBus
from .memory_map import EXTERNAL_BASE, MemoryMap
from .ram_port import WORD_BYTES

CACHE_WORDS = 512
"""Lines of the cache, of one word each: as deep as a block RAM is at its widest."""
_EXTERNAL_BIT = EXTERNAL_BASE.bit_length() - 1
_BYTE_BITS = (WORD_BYTES - 1).bit_length()
_INDEX_BITS = (CACHE_WORDS - 1).bit_length()


class ExternalBus(wiring.Signature):
    """Accesses to words of the memory outside, from the requester's side, one at a time.

    `request` with `write`, `address` (number of the word), `write_data` and `mask` (a bit per byte) is held until the
    cycle with `done`, in which `read_data` is the word of a read.
    """

    def __init__(self, memory_bytes: int):
        super().__init__(
            {
                "request": Out(1),
                "write": Out(1),
                "address": Out(range(memory_bytes // WORD_BYTES)),
                "write_data": Out(8 * WORD_BYTES),
                "mask": Out(WORD_BYTES),
                "done": In(1),
                "read_data": In(8 * WORD_BYTES),
            }
        )


class ExternalPort(wiring.Component):
    """Executes the core's accesses to the memory outside and the host's, one at a time; the core's go first.

    A read of the core that finds its word in the cache takes one cycle, as from the RAM. Words that were read are kept,
    a write drops its word. No reset clears the cache: what it holds is what the memory held. Where a reset may cost the
    memory its content, the host must write it again.

    Ports:
        `core`: all of the core's accesses; the ones to the memory outside are executed. `ready` and `read_data` are
            valid while `waiting`.
        `core_runs`: while low, the core has no access under way any more.
        `waiting`: an access of the core is under way.
        `host`: bytes of the memory, by their bus addresses.
        `memory`: the memory outside.
    """

    def __init__(self, regions: MemoryMap):
        self.regions = regions
        super().__init__(
            {
                "core": In(CoreBus()),
                "core_runs": In(1),
                "waiting": Out(1),
                "host": In(BytePort()),
                "memory": Out(ExternalBus(regions.window_bytes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core, host, outside = self.core, self.host, self.memory
        word_bits = len(outside.address)
        line = data.StructLayout(
            {"valid": 1, "tag": unsigned(word_bits - _INDEX_BITS), "word": unsigned(8 * WORD_BYTES)}
        )
        m.submodules.cache = cache = memory.Memory(
            shape=line, depth=CACHE_WORDS, init=[], attrs=NO_COLLISION_LOGIC
        )
        look, keep = cache.read_port(), cache.write_port()
        asks = Signal()
        hit = Signal()
        ends = Signal()
        for_core = Signal()
        for_host = Signal()
        address = Signal(word_bits)
        write = Signal()
        write_data = Signal.like(core.write_data)
        mask = Signal.like(core.mask)
        inside = Signal()
        host_lane = Signal(_BYTE_BITS)
        window_bits = word_bits + _BYTE_BITS
        m.d.comb += [
            asks.eq((core.read | core.write) & core.address[_EXTERNAL_BIT]),
            inside.eq(host.address[window_bits:] == self.regions.window_base >> window_bits),
            look.addr.eq(Mux(self.waiting, address, core.address[_BYTE_BITS:])),
            hit.eq(look.data.valid & (look.data.tag == address[_INDEX_BITS:]) & ~write),
            ends.eq(outside.request & outside.done),
            keep.addr.eq(outside.address),
            keep.data.valid.eq(~outside.write),
            keep.data.tag.eq(outside.address[_INDEX_BITS:]),
            keep.data.word.eq(outside.read_data),
            keep.en.eq(ends),
            core.ready.eq(0),
            core.read_data.eq(Mux(outside.request, outside.read_data, look.data.word)),
        ]
        m.d.sync += [host.done.eq(0), host.error.eq(0)]
        with m.If(asks):
            m.d.sync += [
                self.waiting.eq(1),
                address.eq(core.address[_BYTE_BITS:]),
                write.eq(core.write),
                write_data.eq(core.write_data),
                mask.eq(core.mask),
            ]
        with m.If(core.ready | ~self.core_runs):
            m.d.sync += self.waiting.eq(asks & self.core_runs)
        with m.If(~self.core_runs):
            m.d.sync += for_core.eq(0)
        with m.FSM():
            with m.State("IDLE"):
                with m.If(asks | self.waiting):
                    m.next = "LOOK"
                with m.Elif(host.request & ~host.done):
                    with m.If(inside):
                        m.d.sync += [
                            outside.request.eq(1),
                            for_core.eq(0),
                            for_host.eq(1),
                            outside.write.eq(host.write),
                            outside.address.eq(host.address[_BYTE_BITS:]),
                            outside.write_data.eq(host.write_data.replicate(WORD_BYTES)),
                            outside.mask.eq(1 << host.address[:_BYTE_BITS]),
                            host_lane.eq(host.address[:_BYTE_BITS]),
                        ]
                        m.next = "BUSY"
                    with m.Else():
                        m.d.sync += [host.done.eq(1), host.error.eq(1)]
            with m.State("LOOK"):
                with m.If(hit | ~self.waiting):
                    m.d.comb += core.ready.eq(1)
                    m.next = "IDLE"
                with m.Else():
                    m.d.sync += [
                        outside.request.eq(1),
                        for_core.eq(self.core_runs),
                        for_host.eq(0),
                        outside.write.eq(write),
                        outside.address.eq(address),
                        outside.write_data.eq(write_data),
                        outside.mask.eq(mask),
                    ]
                    m.next = "BUSY"
            with m.State("BUSY"):
                with m.If(outside.done):
                    m.d.comb += core.ready.eq(for_core)
                    m.d.sync += [
                        outside.request.eq(0),
                        host.done.eq(for_host),
                        host.read_data.eq(outside.read_data.word_select(host_lane, 8)),
                    ]
                    m.next = "IDLE"
        return m
