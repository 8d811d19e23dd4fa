"""Loads and starts a program from SPI flash, without a host."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out

from tosaic.hw.bridge.boot_image import CRC_BYTES, MAGIC, MAX_BYTES, BootCode, RecordKind
from tosaic.hw.bridge.byte_port import BytePort
from tosaic.hw.csr_map import REGISTER, RESP_OKAY
from tosaic.hw.interfaces import AxiLite

WORD_BYTES = 4
_STATUS = REGISTER["STATUS"]


class FlashBoot(wiring.Component):
    """Reads a boot image twice after a reset (hw.bridge.boot_image says what it is). The first time it is
    checked; the second time its records are executed. A fault ends it with its code; nothing is executed of
    an image whose CRC-32 is wrong.

    Ports:
        `data` (stream of 8, in), `start` (out): the flash; its bytes begin anew after `start`.
        `memory` (BytePort, out), `registers` (AxiLite, out): used while `busy`.
        `busy` (out): the machine is not the host's yet.
        `leave` (in): one cycle: what was loaded is not there any more.
        `code` (BootCode, out).
        `crc32` (32, out): the last word read: of a whole image its CRC-32.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "data": In(stream.Signature(8)),
                "start": Out(1),
                "memory": Out(BytePort()),
                "registers": Out(AxiLite()),
                "busy": Out(1),
                "leave": In(1),
                "code": Out(BootCode),
                "crc32": Out(32),
            }
        )
        self.executes = Signal()
        """This is the second time."""
        self.left = Signal(range(MAX_BYTES))
        """Bytes of the records that are still to come."""
        self.word, self.place = Signal(32), Signal(range(WORD_BYTES))
        self.kind, self.address, self.count = Signal(32), Signal(32), Signal(32)
        self.taken, self.byte = Signal(), Signal(8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.crc = crc = CRC32_ISO_HDLC(data_width=8).create()
        m.d.comb += [
            self.busy.eq(self.code == BootCode.BOOTING),
            self.byte.eq(self.data.payload),
            self.taken.eq(self.data.valid & self.data.ready),
            crc.data.eq(self.byte),
            crc.valid.eq(self.taken),
            crc.start.eq(self.start),
            self.crc32.eq(self.word),
            self.registers.awaddr.eq(self.address),
            self.registers.araddr.eq(_STATUS.offset),
            self.registers.wdata.eq(self.word),
            self.registers.wstrb.eq(-1),
            self.memory.write.eq(1),
            self.memory.address.eq(self.address),
            self.memory.write_data.eq(self.byte),
        ]
        with m.If(self.taken):
            m.d.sync += [self.word.eq(self.word >> 8 | self.byte << 24), self.place.eq(self.place + 1)]
        with m.If(self.leave & ~self.busy):
            m.d.sync += self.code.eq(BootCode.LEFT)
        with m.FSM():
            self._head(m, crc.match_detected)
            self._record_head(m)
            self._memory_record(m)
            self._register_record(m)
            self._run_record(m)
        return m

    def _end(self, m: Module, code: BootCode) -> None:
        m.d.sync += self.code.eq(code)
        m.next = "END"

    def _word_comes(self, m: Module) -> Signal:
        """Takes bytes; whether the last one of a word is taken. `word` is there in the next cycle."""
        m.d.comb += self.data.ready.eq(1)
        return self.taken & (self.place == WORD_BYTES - 1)

    def _head(self, m: Module, right: Signal) -> None:
        """States of the image's head and of its end."""
        with m.State("START"):
            m.d.comb += self.start.eq(1)
            m.d.sync += self.place.eq(0)
            m.next = "MAGIC"
        with m.State("MAGIC"):
            with m.If(self._word_comes(m)):
                m.next = "LENGTH"
        with m.State("LENGTH"):
            # The magic is in `word` until the first byte of the length comes.
            with m.If((self.place == 0) & (self.word != MAGIC)):
                self._end(m, BootCode.NO_IMAGE)
            with m.Else():
                with m.If(self._word_comes(m)):
                    m.next = "BOUND"
        with m.State("BOUND"):
            m.d.sync += self.left.eq(self.word)
            m.next = "RECORDS"
            with m.If(self.word >= MAX_BYTES):
                self._end(m, BootCode.DAMAGED)
        with m.State("RECORDS"):
            with m.If(self.left == 0):
                m.next = "CRC"
            with m.Elif(self.executes):
                m.d.sync += self.place.eq(0)
                m.next = "KIND"
            with m.Else():
                m.d.comb += self.data.ready.eq(1)
                with m.If(self.taken):
                    m.d.sync += self.left.eq(self.left - 1)
        with m.State("CRC"):
            m.d.sync += self.count.eq(CRC_BYTES)
            m.next = "CRC_BYTES"
        with m.State("CRC_BYTES"):
            m.d.comb += self.data.ready.eq(self.count != 0)
            with m.If(self.taken):
                m.d.sync += self.count.eq(self.count - 1)
            with m.If(self.count == 0):
                m.d.sync += self.executes.eq(1)
                m.next = "START"
                with m.If(~right):
                    self._end(m, BootCode.DAMAGED)
                with m.Elif(self.executes):
                    self._end(m, BootCode.DONE)
        with m.State("END"):
            pass

    def _record_head(self, m: Module) -> None:
        """States of a record's head: its words, and whether it can be."""
        for state, target, following in (
            ("KIND", self.kind, "ADDRESS"),
            ("ADDRESS", self.address, "COUNT"),
            ("COUNT", self.count, "JUDGE"),
        ):
            with m.State(state):
                with m.If(self._word_comes(m)):
                    m.next = following
                with m.If(self.taken):
                    m.d.sync += [target.eq(target >> 8 | self.byte << 24), self.left.eq(self.left - 1)]
                    with m.If(self.left == 0):
                        self._end(m, BootCode.BAD_RECORD)
        with m.State("JUDGE"):
            m.d.sync += self.place.eq(0)
            with m.Switch(self.kind):
                with m.Case(RecordKind.MEMORY):
                    m.next = "MEMORY"
                with m.Case(RecordKind.REGISTERS):
                    m.next = "REGISTERS"
                with m.Case(RecordKind.RUN):
                    m.next = "STATUS"
                with m.Default():
                    self._end(m, BootCode.BAD_RECORD)
            with m.If(self.count > self.left):
                self._end(m, BootCode.BAD_RECORD)
            with m.If((self.kind != RecordKind.MEMORY) & (self.count[:2] != 0)):
                self._end(m, BootCode.BAD_RECORD)

    def _memory_record(self, m: Module) -> None:
        """A byte is taken from the flash when the memory has it."""
        with m.State("MEMORY"):
            with m.If(self.count == 0):
                m.next = "RECORDS"
            with m.Else():
                m.d.comb += self.memory.request.eq(self.data.valid)
                with m.If(self.memory.request & self.memory.done):
                    m.d.comb += self.data.ready.eq(1)
                    m.d.sync += [
                        self.count.eq(self.count - 1),
                        self.left.eq(self.left - 1),
                        self.address.eq(self.address + 1),
                    ]
                    with m.If(self.memory.error):
                        self._end(m, BootCode.NO_MEMORY)

    def _register_record(self, m: Module) -> None:
        axi = self.registers
        with m.State("REGISTERS"):
            with m.If(self.count == 0):
                m.next = "RECORDS"
            with m.Else():
                with m.If(self._word_comes(m)):
                    m.d.sync += [axi.awvalid.eq(1), axi.wvalid.eq(1)]
                    m.next = "WRITE"
                with m.If(self.taken):
                    m.d.sync += self.left.eq(self.left - 1)
        with m.State("WRITE"):
            m.d.comb += axi.bready.eq(1)
            with m.If(axi.awready):
                m.d.sync += axi.awvalid.eq(0)
            with m.If(axi.wready):
                m.d.sync += axi.wvalid.eq(0)
            with m.If(axi.bvalid):
                m.d.sync += [
                    self.address.eq(self.address + WORD_BYTES),
                    self.count.eq(self.count - WORD_BYTES),
                ]
                m.next = "REGISTERS"
                with m.If((axi.bresp != RESP_OKAY) | (self.address[len(axi.awaddr) :] != 0)):
                    self._end(m, BootCode.NO_REGISTER)

    def _run_record(self, m: Module) -> None:
        axi = self.registers
        status = {name: axi.rdata[_STATUS.field(name).lsb] for name in ("running", "error")}
        with m.State("STATUS"):
            m.d.sync += axi.arvalid.eq(1)
            m.next = "READ"
        with m.State("READ"):
            m.d.comb += axi.rready.eq(1)
            with m.If(axi.arready):
                m.d.sync += axi.arvalid.eq(0)
            with m.If(axi.rvalid):
                m.next = "RECORDS"
                with m.If(status["running"]):
                    m.next = "STATUS"
                with m.If(status["error"]):
                    self._end(m, BootCode.PROGRAM_FAILED)


class BootLamp(wiring.Component):
    """Blinks as often as the number of a fault says, and pauses.

    Ports: `code` (BootCode, in), `lit` (out)."""

    def __init__(self, step_cycles: int):
        if step_cycles < 1:
            raise ValueError(f"step_cycles must be at least 1, not {step_cycles}")
        self.step_cycles = step_cycles
        super().__init__({"code": In(BootCode), "lit": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        timer, step = Signal(range(self.step_cycles)), Signal(5)
        fault = Signal()
        m.d.sync += timer.eq(Mux(timer == 0, self.step_cycles - 1, timer - 1))
        with m.If(timer == 0):
            m.d.sync += step.eq(step + 1)
        m.d.comb += [
            fault.eq(self.code.matches(*(code.value for code in BootCode if code.is_fault))),
            self.lit.eq(fault & ~step[0] & (step[1:] < self.code)),
        ]
        return m
