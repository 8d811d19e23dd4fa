"""External memory made of on-chip RAM: AXI4 subordinate of the accelerator, bytes for the bridge."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.utils import exact_log2

from tosaic.hw.bridge.byte_port import BytePort
from tosaic.hw.config import Config
from tosaic.hw.interfaces import AxiRead, AxiWrite
from tosaic.hw.memory.words import WordMemory

RESP_OKAY, RESP_DECERR = 0, 3
GRANULE_BYTES = 4096


class OnChipMemory(wiring.Component):
    """`memory_bytes` bytes at bus address `base`, in words of W bytes.

    Ports:
        `read`, `write`: INCR bursts of full-width beats, one burst of each at a time; a beat per cycle, the first one
            two cycles after its address. Beats outside the memory are answered DECERR.
        `host`: goes before `read` and `write`. Its access comes a cycle after its request, the answer two cycles later:
            a byte comes out of blocks all over the device, and has a cycle of its own to the host.

    The memory does one read and one write per cycle. Writes have a register before them, for the blocks lie all
    over the device: they are in the memory one cycle after they are taken, before their answer can be seen. A read
    that meets a write of the same word then returns undefined bytes. The reset leaves the contents alone.
    """

    def __init__(self, config: Config, *, memory_bytes: int, base: int = 0):
        if memory_bytes < GRANULE_BYTES or memory_bytes % GRANULE_BYTES:
            raise ValueError(f"memory_bytes must be a multiple of {GRANULE_BYTES}, not {memory_bytes}")
        span = 1 << (memory_bytes - 1).bit_length()
        if base % span or not 0 <= base <= (1 << 32) - span:
            raise ValueError(f"base must be a multiple of {span:#x} below 2**32, not {base:#x}")
        self.config, self.memory_bytes, self.base = config, memory_bytes, base
        super().__init__(
            {
                "read": In(AxiRead(config, shared=True)),
                "write": In(AxiWrite(config, shared=True)),
                "host": In(BytePort()),
            }
        )

    def _inside(self, address: Value) -> Value:
        """Whether a bus address is one of the memory."""
        bits = (self.memory_bytes - 1).bit_length()
        return (address[bits:] == self.base >> bits) & (address[:bits] < self.memory_bytes)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.config.bus_bytes
        lane_bits = exact_log2(width)
        depth = self.memory_bytes // width
        read_data = Signal(8 * width)
        word = slice(lane_bits, lane_bits + (depth - 1).bit_length())
        read, write, host = self.read, self.write, self.host

        host_lane, host_inside = host.address[:lane_bits], Signal()
        host_asks, host_writes, host_done = Signal(), Signal(), Signal()
        host_read, host_write = Signal(), Signal()
        read_address, write_address = Signal(32), Signal(32)
        left = Signal(8)
        reading, free, issue = Signal(), Signal(), Signal()
        writing, take, failed = Signal(), Signal(), Signal()
        answered_lane = Signal(lane_bits)
        read_inside, write_inside = Signal(), Signal()
        m.d.comb += [
            host_inside.eq(self._inside(host.address)),
            host_read.eq(host_asks & ~host_writes & free),
            host_write.eq(host_asks & host_writes),
            free.eq(~read.rvalid | read.rready),
            read_inside.eq(self._inside(read_address)),
            write_inside.eq(self._inside(write_address)),
            issue.eq(reading & free & ~host_read),
            take.eq(writing & write.wvalid & write.wready),
            write.wready.eq(writing & ~host_write),
            read.arready.eq(~reading),
            read.rdata.eq(read_data),
            write.awready.eq(~writing & ~write.bvalid),
        ]
        # While no read is `free` to begin, the address does not matter: it goes to blocks all over the device, and
        # whether the other side is ready comes late.
        read_word = Mux(host_asks & ~host_writes, host.address[word], read_address[word])
        write_word = Mux(host_write, host.address[word], write_address[word])
        write_data, write_mask = Signal(8 * width), Signal(width)
        m.d.comb += write_data.eq(Mux(host_write, host.write_data.replicate(width), write.wdata))
        with m.If(host_write & host_inside):
            m.d.comb += write_mask.eq(1 << host_lane)
        with m.Elif(take & write_inside):
            m.d.comb += write_mask.eq(write.wstrb)
        m.submodules.words = words = WordMemory(8 * width, depth, granularity=8)
        m.d.comb += [
            words.read_address.eq(read_word),
            words.read_enable.eq(host_read | issue),
            read_data.eq(words.read_data),
        ]

        m.d.sync += [
            words.write_address.eq(write_word),
            words.write_data.eq(write_data),
            words.write_enable.eq(write_mask),
            host_asks.eq(host.request & ~host_done & ~host.done & ~(host_read | host_write)),
            host_writes.eq(host.write),
            host_done.eq(host_read | host_write),
            host.done.eq(host_done),
            host.error.eq(~host_inside),
            host.read_data.eq(read_data.word_select(answered_lane, 8)),
            answered_lane.eq(host_lane),
        ]
        with m.If(read.arvalid & read.arready):
            m.d.sync += [
                reading.eq(1),
                read_address.eq(read.araddr),
                left.eq(read.arlen),
                read.rid.eq(read.arid),
            ]
        with m.If(free):
            m.d.sync += read.rvalid.eq(issue)
        with m.If(issue):
            m.d.sync += [
                read.rlast.eq(left == 0),
                read.rresp.eq(Mux(read_inside, RESP_OKAY, RESP_DECERR)),
                read_address.eq(read_address + width),
                left.eq(left - 1),
            ]
            with m.If(left == 0):
                m.d.sync += reading.eq(0)

        with m.If(write.awvalid & write.awready):
            m.d.sync += [
                writing.eq(1),
                failed.eq(0),
                write_address.eq(write.awaddr),
                write.bid.eq(write.awid),
            ]
        with m.If(take):
            m.d.sync += [write_address.eq(write_address + width), failed.eq(failed | ~write_inside)]
            with m.If(write.wlast):
                m.d.sync += [
                    writing.eq(0),
                    write.bvalid.eq(1),
                    write.bresp.eq(Mux(failed | ~write_inside, RESP_DECERR, RESP_OKAY)),
                ]
        with m.If(write.bvalid & write.bready):
            m.d.sync += write.bvalid.eq(0)
        return m
