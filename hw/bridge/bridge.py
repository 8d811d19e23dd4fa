"""Executes requests from a line on the control port and on memory."""

from amaranth.hdl import Array, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..csr_map import RESP_OKAY
from ..interfaces import AxiLite
from .byte_port import BytePort
from .deframer import Deframer
from .framer import Framer
from .protocol import IDENTITY_BYTES, Identity, Operation, Status

RESET_CYCLES = 16
REGISTER_BYTES = 4


class Bridge(wiring.Component):
    """One request at a time: checks it, executes it, answers (`protocol` says how).

    Ports:
        `received`, `received_byte`: bytes from the line, each for one cycle.
        `line`: bytes to the line.
        `registers`: AXI4-Lite manager to the control port.
        `memory`: bytes of the board's memory.
        `reset`: the machine and whatever serves `memory` are to be reset; RESET_CYCLES long.
        `answered`: a request was answered in this cycle, for a lamp.
    """

    def __init__(self, identity: Identity):
        if not isinstance(identity, Identity):
            raise TypeError(f"identity must be an Identity, not {identity!r}")
        self.identity = identity
        super().__init__(
            {
                "received": In(1),
                "received_byte": In(8),
                "line": Out(stream.Signature(8)),
                "registers": Out(AxiLite()),
                "memory": Out(BytePort()),
                "reset": Out(1),
                "answered": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        data_bytes = self.identity.data_bytes
        m.submodules.deframer = deframer = Deframer(data_bytes)
        m.submodules.framer = framer = Framer()
        wiring.connect(m, framer.line, wiring.flipped(self.line))
        header = deframer.header
        rom = Array(Const(byte, 8) for byte in self.identity.to_bytes())
        registers, port = self.registers, self.memory

        current = Signal(8)
        greeted = Signal()
        status = Signal(Status)
        current_status = Signal(Status)  # How the current write ended, for its repetition.
        is_write, is_read, fits, repeated, follows = Signal(), Signal(), Signal(), Signal(), Signal()
        done_bytes = Signal(range(max(data_bytes, IDENTITY_BYTES) + 1))
        count = Signal.like(done_bytes)
        word = Signal(32)
        address = Signal(32)
        in_word = Signal(range(REGISTER_BYTES))
        aligned = Signal()
        off_map = Signal()
        timer = Signal(range(RESET_CYCLES), init=RESET_CYCLES - 1)
        at_end = Signal()

        m.d.comb += [
            deframer.valid.eq(self.received),
            deframer.byte.eq(self.received_byte),
            deframer.index.eq(done_bytes),
            repeated.eq(greeted & (header.sequence == current)),
            follows.eq(greeted & (header.sequence == (current + 1)[:8])),
            aligned.eq((header.count[:2] == 0) & (header.address[:2] == 0)),
            at_end.eq(done_bytes == count),
            in_word.eq(done_bytes),
            off_map.eq(address[len(registers.araddr) :] != 0),
            registers.awaddr.eq(address),
            registers.araddr.eq(address),
            registers.wdata.eq(word),
            registers.wstrb.eq(-1),
            port.address.eq(address),
            port.write_data.eq(deframer.value),
        ]
        with m.Switch(header.operation):
            with m.Case(Operation.READ_REGISTERS):
                m.d.comb += [is_read.eq(1), fits.eq(aligned & (header.count <= data_bytes))]
            with m.Case(Operation.READ_MEMORY):
                m.d.comb += [is_read.eq(1), fits.eq(header.count <= data_bytes)]
            with m.Case(Operation.WRITE_REGISTERS):
                m.d.comb += [is_write.eq(1), fits.eq(aligned & (header.count == deframer.data_length))]
            with m.Case(Operation.WRITE_MEMORY, Operation.RESET):
                m.d.comb += [is_write.eq(1), fits.eq(header.count == deframer.data_length)]

        m.d.sync += self.reset.eq(0)
        with m.FSM():
            with m.State("LISTEN"):
                m.d.comb += deframer.listen.eq(1)
                m.d.sync += [done_bytes.eq(0), address.eq(header.address), count.eq(header.count)]
                with m.If(deframer.frame):
                    m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += status.eq(Status.OK)
                m.next = "SEQUENCE"
                with m.If(header.operation == Operation.HELLO):
                    m.d.sync += [
                        greeted.eq(1),
                        current.eq(header.sequence),
                        current_status.eq(Status.OK),
                        count.eq(IDENTITY_BYTES),
                    ]
                with m.Elif(~(repeated | follows)):
                    m.d.sync += [status.eq(Status.OUT_OF_SEQUENCE), count.eq(0)]
                with m.Else():
                    m.d.sync += current.eq(header.sequence)
                    with m.If(~((is_read | is_write) & fits)):
                        m.d.sync += [status.eq(Status.BAD_REQUEST), current_status.eq(Status.BAD_REQUEST)]
                        m.d.sync += count.eq(0)
                    with m.Elif(is_write & repeated):
                        m.d.sync += status.eq(current_status)
                    with m.Elif(is_write):
                        m.next = "WRITE"
            with m.State("WRITE"):
                # The buffer's value, a cycle after its index, is there in WRITE_BYTE.
                m.next = "WRITE_BYTE"
                with m.If(header.operation == Operation.RESET):
                    m.next = "RESET"
                with m.Elif(at_end):
                    m.next = "WRITTEN"
            with m.State("RESET"):
                m.d.sync += self.reset.eq(1)
                m.d.sync += timer.eq(timer - 1)
                with m.If(timer == 0):
                    m.next = "WRITTEN"
            with m.State("WRITE_BYTE"):
                with m.If(header.operation == Operation.WRITE_MEMORY):
                    m.d.comb += [port.request.eq(1), port.write.eq(1)]
                    with m.If(port.done):
                        m.d.sync += [done_bytes.eq(done_bytes + 1), address.eq(address + 1)]
                        m.next = "WRITE"
                        with m.If(port.error):
                            m.d.sync += status.eq(Status.MEMORY_ERROR)
                            m.next = "WRITTEN"
                with m.Elif(off_map):
                    m.d.sync += status.eq(Status.REGISTER_ERROR)
                    m.next = "WRITTEN"
                with m.Else():
                    m.d.sync += [word.eq(word >> 8 | deframer.value << 24), done_bytes.eq(done_bytes + 1)]
                    m.next = "WRITE"
                    with m.If(in_word == REGISTER_BYTES - 1):
                        m.d.sync += [registers.awvalid.eq(1), registers.wvalid.eq(1)]
                        m.next = "WRITE_REGISTER"
            with m.State("WRITE_REGISTER"):
                m.d.comb += registers.bready.eq(1)
                with m.If(registers.awready):
                    m.d.sync += registers.awvalid.eq(0)
                with m.If(registers.wready):
                    m.d.sync += registers.wvalid.eq(0)
                with m.If(registers.bvalid):
                    m.d.sync += address.eq(address + REGISTER_BYTES)
                    m.next = "WRITE"
                    with m.If(registers.bresp != RESP_OKAY):
                        m.d.sync += status.eq(Status.REGISTER_ERROR)
                        m.next = "WRITTEN"
            with m.State("WRITTEN"):
                m.d.sync += [current_status.eq(status), count.eq(0)]
                m.next = "SEQUENCE"

            with m.State("SEQUENCE"):
                m.d.comb += [framer.content.valid.eq(1), framer.content.payload.eq(header.sequence)]
                m.d.sync += done_bytes.eq(0)
                with m.If(framer.content.ready):
                    m.next = "READ"
            with m.State("READ"):
                with m.If(at_end | is_write | (status != Status.OK)):
                    m.next = "STATUS"
                with m.Elif(header.operation == Operation.HELLO):
                    m.d.sync += word.eq(rom[done_bytes[: (IDENTITY_BYTES - 1).bit_length()]])
                    m.next = "SEND"
                with m.Elif(header.operation == Operation.READ_MEMORY):
                    m.d.comb += port.request.eq(1)
                    m.d.sync += word.eq(port.read_data)
                    with m.If(port.done):
                        m.d.sync += address.eq(address + 1)
                        m.next = "SEND"
                        with m.If(port.error):
                            m.d.sync += status.eq(Status.MEMORY_ERROR)
                            m.next = "STATUS"
                with m.Elif((in_word == 0) & off_map):
                    m.d.sync += status.eq(Status.REGISTER_ERROR)
                    m.next = "STATUS"
                with m.Elif(in_word == 0):
                    m.d.sync += registers.arvalid.eq(1)
                    m.next = "READ_REGISTER"
                with m.Else():
                    m.d.sync += word.eq(word >> 8)
                    m.next = "SEND"
            with m.State("READ_REGISTER"):
                m.d.comb += registers.rready.eq(1)
                with m.If(registers.arready):
                    m.d.sync += registers.arvalid.eq(0)
                with m.If(registers.rvalid):
                    m.d.sync += [word.eq(registers.rdata), address.eq(address + REGISTER_BYTES)]
                    m.next = "SEND"
                    with m.If(registers.rresp != RESP_OKAY):
                        m.d.sync += status.eq(Status.REGISTER_ERROR)
                        m.next = "STATUS"
            with m.State("SEND"):
                m.d.comb += [framer.content.valid.eq(1), framer.content.payload.eq(word[:8])]
                with m.If(framer.content.ready):
                    m.d.sync += done_bytes.eq(done_bytes + 1)
                    m.next = "READ"
            with m.State("STATUS"):
                m.d.comb += [
                    framer.content.valid.eq(1),
                    framer.content.payload.eq(status),
                    framer.last.eq(1),
                ]
                with m.If(framer.content.ready):
                    m.d.comb += self.answered.eq(1)
                    m.next = "LISTEN"
        return m
