"""Executes requests from a line on the control port and on memory."""

from amaranth.hdl import Array, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..csr_map import RESP_OKAY
from ..interfaces import AxiLite
from ..skid import SkidBuffer
from .byte_port import BytePort
from .deframer import Deframer
from .framer import Framer
from .protocol import IDENTITY_BYTES, Identity, Operation, RequestStatus

RESET_CYCLES = 16
REGISTER_BYTES = 4


class Bridge(wiring.Component):
    """One request at a time: checks it, executes it, answers (`protocol` says how).

    Ports:
        received (1, in), received_byte (8, in): one cycle: a byte from the line.
        line (stream of 8, out): bytes to the line.
        registers (AxiLite, out): to the control port.
        memory (BytePort, out): bytes of the board's memory.
        reset (1, out): RESET_CYCLES long: the machine and whatever serves `memory` are to be reset.
        answered (1, out): one cycle: a request was answered; for a lamp.
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
        data_bytes = identity.data_bytes
        self.deframer, self.framer = Deframer(data_bytes), Framer()
        # Between the two: a byte goes through much before it is known, and through the escapes and the CRC.
        self.answers = SkidBuffer(data.StructLayout({"byte": 8, "last": 1}))
        # The request: what it is, whether its numbers fit, how its sequence number relates to the current one.
        self.is_write, self.is_read, self.fits = Signal(), Signal(), Signal()
        self.repeated, self.follows = Signal(), Signal()
        self.greeted, self.current = Signal(), Signal(8)
        # How far it is: bytes done of `count`, the next one's address, the register that they are part of.
        self.done_bytes = Signal(range(max(data_bytes, IDENTITY_BYTES) + 1))
        self.count = Signal.like(self.done_bytes)
        self.at_end = Signal()
        self.address, self.off_map = Signal(32), Signal()
        self.word, self.in_word = Signal(32), Signal(range(REGISTER_BYTES))
        # How it ended, and how the current write ended, for its repetition.
        self.status, self.current_status = Signal(RequestStatus), Signal(RequestStatus)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.deframer, m.submodules.framer = self.deframer, self.framer
        m.submodules.answers = self.answers
        wiring.connect(m, self.framer.line, wiring.flipped(self.line))
        registers, port = self.registers, self.memory
        content, answer = self.framer.content, self.answers.output
        m.d.comb += [
            self.deframer.valid.eq(self.received),
            self.deframer.byte.eq(self.received_byte),
            self.deframer.index.eq(self.done_bytes),
            self.at_end.eq(self.done_bytes == self.count),
            self.in_word.eq(self.done_bytes),
            self.off_map.eq(self.address[len(registers.araddr) :] != 0),
            registers.awaddr.eq(self.address),
            registers.araddr.eq(self.address),
            registers.wdata.eq(self.word),
            registers.wstrb.eq(-1),
            port.address.eq(self.address),
            port.write_data.eq(self.deframer.value),
            content.valid.eq(answer.valid),
            content.payload.eq(answer.payload.byte),
            self.framer.last.eq(answer.payload.last),
            answer.ready.eq(content.ready),
        ]
        self._classify(m)
        m.d.sync += self.reset.eq(0)
        with m.FSM():
            self._listen(m)
            self._write(m)
            self._answer(m)
        return m

    def _classify(self, m: Module) -> None:
        """Decides what the request is, as far as its header says."""
        header, data_bytes = self.deframer.header, self.identity.data_bytes
        aligned = Signal()
        m.d.comb += [
            self.repeated.eq(self.greeted & (header.sequence == self.current)),
            self.follows.eq(self.greeted & (header.sequence == (self.current + 1)[:8])),
            aligned.eq((header.count[:2] == 0) & (header.address[:2] == 0)),
        ]
        with m.Switch(header.operation):
            with m.Case(Operation.READ_REGISTERS):
                m.d.comb += [self.is_read.eq(1), self.fits.eq(aligned & (header.count <= data_bytes))]
            with m.Case(Operation.READ_MEMORY):
                m.d.comb += [self.is_read.eq(1), self.fits.eq(header.count <= data_bytes)]
            with m.Case(Operation.WRITE_REGISTERS):
                m.d.comb += [
                    self.is_write.eq(1),
                    self.fits.eq(aligned & (header.count == self.deframer.data_length)),
                ]
            with m.Case(Operation.WRITE_MEMORY, Operation.RESET):
                m.d.comb += [self.is_write.eq(1), self.fits.eq(header.count == self.deframer.data_length)]

    def _listen(self, m: Module) -> None:
        """States from a request's arrival to the decision what to do with it."""
        header = self.deframer.header
        with m.State("LISTEN"):
            m.d.comb += self.deframer.listen.eq(1)
            m.d.sync += [self.done_bytes.eq(0), self.address.eq(header.address), self.count.eq(header.count)]
            with m.If(self.deframer.frame):
                m.next = "JUDGE"
        with m.State("JUDGE"):
            m.d.sync += self.status.eq(RequestStatus.OK)
            m.next = "SEQUENCE"
            with m.If(header.operation == Operation.HELLO):
                m.d.sync += [
                    self.greeted.eq(1),
                    self.current.eq(header.sequence),
                    self.current_status.eq(RequestStatus.OK),
                    self.count.eq(IDENTITY_BYTES),
                ]
            with m.Elif(~(self.repeated | self.follows)):
                m.d.sync += [self.status.eq(RequestStatus.OUT_OF_SEQUENCE), self.count.eq(0)]
            with m.Else():
                m.d.sync += self.current.eq(header.sequence)
                with m.If(~((self.is_read | self.is_write) & self.fits)):
                    m.d.sync += [
                        self.status.eq(RequestStatus.BAD_REQUEST),
                        self.current_status.eq(RequestStatus.BAD_REQUEST),
                    ]
                    m.d.sync += self.count.eq(0)
                with m.Elif(self.is_write & self.repeated):
                    m.d.sync += self.status.eq(self.current_status)
                with m.Elif(self.is_write):
                    m.next = "WRITE"

    def _write(self, m: Module) -> None:
        """States of a write: byte by byte, registers when four bytes are there."""
        header, registers, port = self.deframer.header, self.registers, self.memory
        timer = Signal(range(RESET_CYCLES), init=RESET_CYCLES - 1)
        with m.State("WRITE"):
            # The buffer's value, a cycle after its index, is there in WRITE_BYTE.
            m.next = "WRITE_BYTE"
            with m.If(header.operation == Operation.RESET):
                m.next = "RESET"
            with m.Elif(self.at_end):
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
                    m.d.sync += [self.done_bytes.eq(self.done_bytes + 1), self.address.eq(self.address + 1)]
                    m.next = "WRITE"
                    with m.If(port.error):
                        m.d.sync += self.status.eq(RequestStatus.MEMORY_ERROR)
                        m.next = "WRITTEN"
            with m.Elif(self.off_map):
                m.d.sync += self.status.eq(RequestStatus.REGISTER_ERROR)
                m.next = "WRITTEN"
            with m.Else():
                m.d.sync += [
                    self.word.eq(self.word >> 8 | self.deframer.value << 24),
                    self.done_bytes.eq(self.done_bytes + 1),
                ]
                m.next = "WRITE"
                with m.If(self.in_word == REGISTER_BYTES - 1):
                    m.d.sync += [registers.awvalid.eq(1), registers.wvalid.eq(1)]
                    m.next = "WRITE_REGISTER"
        with m.State("WRITE_REGISTER"):
            m.d.comb += registers.bready.eq(1)
            with m.If(registers.awready):
                m.d.sync += registers.awvalid.eq(0)
            with m.If(registers.wready):
                m.d.sync += registers.wvalid.eq(0)
            with m.If(registers.bvalid):
                m.d.sync += self.address.eq(self.address + REGISTER_BYTES)
                m.next = "WRITE"
                with m.If(registers.bresp != RESP_OKAY):
                    m.d.sync += self.status.eq(RequestStatus.REGISTER_ERROR)
                    m.next = "WRITTEN"
        with m.State("WRITTEN"):
            m.d.sync += [self.current_status.eq(self.status), self.count.eq(0)]
            m.next = "SEQUENCE"

    def _answer(self, m: Module) -> None:
        """States of the answer: sequence number, data of a read byte by byte, status."""
        header, registers, port = self.deframer.header, self.registers, self.memory
        content = self.answers.input
        rom = Array(Const(byte, 8) for byte in self.identity.to_bytes())
        with m.State("SEQUENCE"):
            m.d.comb += [content.valid.eq(1), content.payload.byte.eq(header.sequence)]
            m.d.sync += self.done_bytes.eq(0)
            with m.If(content.ready):
                m.next = "READ"
        with m.State("READ"):
            with m.If(self.at_end | self.is_write | (self.status != RequestStatus.OK)):
                m.next = "STATUS"
            with m.Elif(header.operation == Operation.HELLO):
                m.d.sync += self.word.eq(rom[self.done_bytes[: (IDENTITY_BYTES - 1).bit_length()]])
                m.next = "SEND"
            with m.Elif(header.operation == Operation.READ_MEMORY):
                m.d.comb += port.request.eq(1)
                m.d.sync += self.word.eq(port.read_data)
                with m.If(port.done):
                    m.d.sync += self.address.eq(self.address + 1)
                    m.next = "SEND"
                    with m.If(port.error):
                        m.d.sync += self.status.eq(RequestStatus.MEMORY_ERROR)
                        m.next = "STATUS"
            with m.Elif((self.in_word == 0) & self.off_map):
                m.d.sync += self.status.eq(RequestStatus.REGISTER_ERROR)
                m.next = "STATUS"
            with m.Elif(self.in_word == 0):
                m.d.sync += registers.arvalid.eq(1)
                m.next = "READ_REGISTER"
            with m.Else():
                m.d.sync += self.word.eq(self.word >> 8)
                m.next = "SEND"
        with m.State("READ_REGISTER"):
            m.d.comb += registers.rready.eq(1)
            with m.If(registers.arready):
                m.d.sync += registers.arvalid.eq(0)
            with m.If(registers.rvalid):
                m.d.sync += [self.word.eq(registers.rdata), self.address.eq(self.address + REGISTER_BYTES)]
                m.next = "SEND"
                with m.If(registers.rresp != RESP_OKAY):
                    m.d.sync += self.status.eq(RequestStatus.REGISTER_ERROR)
                    m.next = "STATUS"
        with m.State("SEND"):
            m.d.comb += [content.valid.eq(1), content.payload.byte.eq(self.word[:8])]
            with m.If(content.ready):
                m.d.sync += self.done_bytes.eq(self.done_bytes + 1)
                m.next = "READ"
        with m.State("STATUS"):
            m.d.comb += [
                content.valid.eq(1),
                content.payload.byte.eq(self.status),
                content.payload.last.eq(1),
            ]
            with m.If(content.ready):
                m.d.comb += self.answered.eq(1)
                m.next = "LISTEN"
