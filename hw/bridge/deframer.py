"""Requests from bytes: unescapes, checks the CRC, keeps the header and the data."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out

from ..memory.words import NO_COLLISION_LOGIC
from .protocol import CRC_BYTES, ESCAPE, ESCAPE_XOR, FLAG, REQUEST_HEADER

Header = data.StructLayout({"sequence": 8, "operation": 8, "count": 16, "address": 32})
"""REQUEST_HEADER's fields."""


class Deframer(wiring.Component):
    """The last request that came whole.

    Ports:
        valid (1, in), byte (8, in): one cycle: a byte from the line.
        listen (1, in): while low, bytes are lost; a frame that lost bytes is dropped.
        frame (1, out): one cycle: a frame with a right CRC ended. From the next cycle on, as long as `listen` is low,
            `header`, `data_length` and the buffer are its own.
        header (Header, out): the request's header.
        data_length (0..data_bytes, out): bytes between header and CRC.
        index (0..data_bytes-1, in): place in the buffer of data bytes.
        value (8, out): the byte there, one cycle after its index.
    """

    def __init__(self, data_bytes: int):
        if data_bytes < 4 or data_bytes & (data_bytes - 1):
            raise ValueError(f"data_bytes must be a power of two of at least 4, not {data_bytes}")
        self.data_bytes = data_bytes
        self.overhead = REQUEST_HEADER.size + CRC_BYTES
        super().__init__(
            {
                "valid": In(1),
                "byte": In(8),
                "listen": In(1),
                "frame": Out(1),
                "header": Out(Header),
                "data_length": Out(range(data_bytes + 1)),
                "index": In(range(data_bytes)),
                "value": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.crc = crc = CRC32_ISO_HDLC(data_width=8).create()
        m.submodules.buffer = buffer = memory.Memory(
            shape=unsigned(8), depth=self.data_bytes, init=[], attrs=NO_COLLISION_LOGIC
        )
        write, read = buffer.write_port(), buffer.read_port()
        limit = self.data_bytes + self.overhead
        count = Signal(range(limit + 1))
        escaped, lost = Signal(), Signal()
        taken = Signal()
        value = Signal(8)
        header_bits = self.header.as_value()
        flag = Signal()
        m.d.comb += [
            flag.eq(self.valid & (self.byte == FLAG)),
            value.eq(Mux(escaped, self.byte ^ ESCAPE_XOR, self.byte)),
            taken.eq(self.valid & self.listen & ~flag & (escaped | (self.byte != ESCAPE))),
            crc.data.eq(value),
            crc.valid.eq(taken),
            crc.start.eq(flag),
            write.data.eq(value),
            write.addr.eq(count - REQUEST_HEADER.size),
            write.en.eq(
                taken & (count >= REQUEST_HEADER.size) & (count < REQUEST_HEADER.size + self.data_bytes)
            ),
            read.addr.eq(self.index),
            self.value.eq(read.data),
            self.frame.eq(
                flag & self.listen & ~lost & ~escaped & crc.match_detected & (count >= self.overhead)
            ),
        ]
        with m.If(taken):
            m.d.sync += escaped.eq(0)
            with m.If(count == limit):
                m.d.sync += lost.eq(1)
            with m.Else():
                m.d.sync += count.eq(count + 1)
            with m.If(count < REQUEST_HEADER.size):
                m.d.sync += header_bits.eq(header_bits >> 8 | value << len(header_bits) - 8)
        with m.Elif(self.valid & self.listen & ~flag):
            m.d.sync += escaped.eq(1)
        with m.If(flag):
            m.d.sync += [count.eq(0), escaped.eq(0), lost.eq(~self.listen)]
            m.d.sync += self.data_length.eq(count - self.overhead)
        with m.Elif(self.valid & ~self.listen):
            m.d.sync += lost.eq(1)
        return m
