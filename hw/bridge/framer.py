"""Frames from contents: appends the CRC, escapes, puts flags around."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out

from .protocol import CRC_BYTES, ESCAPE, ESCAPE_XOR, FLAG


class Framer(wiring.Component):
    """Sends frames.

    Ports:
        content (stream of 8, in): the bytes of a frame. The next frame may follow at once.
        last (1, in): the byte offered ends its frame.
        line (stream of 8, out): what goes on the line.
    """

    content: In(stream.Signature(8))
    last: In(1)
    line: Out(stream.Signature(8))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.crc = crc = CRC32_ISO_HDLC(data_width=8).create()
        value = Signal(8)
        special, escaped, sent = Signal(), Signal(), Signal()
        crc_left = Signal(range(CRC_BYTES))
        rest = Signal(8 * CRC_BYTES)
        m.d.comb += [
            special.eq((value == FLAG) | (value == ESCAPE)),
            # A byte of the content is done when it, or the second half of its escape, is taken.
            sent.eq(self.line.ready & self.line.valid & (~special | escaped)),
            crc.data.eq(self.content.payload),
        ]

        def send_escaped(valid: object) -> None:
            m.d.comb += [
                self.line.valid.eq(valid),
                self.line.payload.eq(Mux(special, Mux(escaped, value ^ ESCAPE_XOR, ESCAPE), value)),
            ]
            with m.If(self.line.valid & self.line.ready):
                m.d.sync += escaped.eq(special & ~escaped)

        with m.FSM():
            with m.State("OPEN"):
                m.d.comb += [
                    crc.start.eq(1),
                    self.line.valid.eq(self.content.valid),
                    self.line.payload.eq(FLAG),
                ]
                with m.If(self.line.valid & self.line.ready):
                    m.next = "CONTENT"
            with m.State("CONTENT"):
                m.d.comb += [value.eq(self.content.payload), self.content.ready.eq(sent), crc.valid.eq(sent)]
                send_escaped(self.content.valid)
                with m.If(sent & self.last):
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.sync += [rest.eq(crc.crc), crc_left.eq(CRC_BYTES - 1)]
                m.next = "CRC"
            with m.State("CRC"):
                m.d.comb += value.eq(rest[:8])
                send_escaped(1)
                with m.If(sent):
                    m.d.sync += [rest.eq(rest >> 8), crc_left.eq(crc_left - 1)]
                    with m.If(crc_left == 0):
                        m.next = "CLOSE"
            with m.State("CLOSE"):
                m.d.comb += [self.line.valid.eq(1), self.line.payload.eq(FLAG)]
                with m.If(self.line.ready):
                    m.next = "OPEN"
        return m
