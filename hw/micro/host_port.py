"""The host's way to the RAM: its bytes of external memory, and the registers, which lie there, too."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..bridge.byte_port import BytePort
from ..csr_map import REGISTER, REGISTERS, RESP_OKAY, RESP_SLVERR, FieldAccess, Register
from ..interfaces import AxiLite
from .memory_map import RAM_BYTES, REGISTERS_BYTES, MemoryMap
from .ram_port import WORD_BYTES, RamPort
from .status import HELD

_ADDRESS_BITS = (RAM_BYTES - 1).bit_length()
_OFFSET_BITS = (REGISTERS_BYTES - 1).bit_length()


class HostPort(wiring.Component):
    """Executes the host's accesses, one at a time, in cycles in which the core leaves the RAM alone.

    Ports:
        `registers`: AXI4-Lite. Accesses wait until the firmware is `up`; else a read answers 2 cycles after its address
            was accepted, a write one cycle after address and data were, together.
        `memory`: bytes of the external memory.
        `held`: the values of status.HELD; `write_control`, `write_irq`, `write_lock`, `write_data`: a write to one of
            them.
        `ram`: the access of this cycle; it is taken if `free`.
    """

    def __init__(self, regions: MemoryMap):
        self.regions = regions
        super().__init__(
            {
                "registers": In(AxiLite()),
                "memory": In(BytePort()),
                "up": In(1),
                "held": In(32 * len(HELD)),
                "write_control": Out(1),
                "write_irq": Out(1),
                "write_lock": Out(1),
                "write_data": Out(8),
                "ram": Out(RamPort()),
                "free": In(1),
            }
        )

    def _inside(self, address: Value) -> Value:
        """Whether a bus address is one of the external memory."""
        base, size = self.regions.window_base, self.regions.window_bytes
        return (address[_ADDRESS_BITS:] == base >> _ADDRESS_BITS) & (address[:_ADDRESS_BITS] < size)

    def _locked(self, register: Register) -> Value:
        """Whether LOCK keeps the register as it is."""
        if not register.lock:
            return Const(0, 1)
        return self.held.word_select(HELD.index("LOCK"), 32)[REGISTER["LOCK"].field(register.lock).lsb]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        registers, memory, ram = self.registers, self.memory, self.ram
        write, read, access, reading = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            write.eq(registers.awvalid & registers.wvalid & ~registers.bvalid & self.up),
            read.eq(registers.arvalid & ~registers.rvalid & ~reading & self.up),
            access.eq(memory.request & ~memory.done & ~write & ~read),
        ]
        offset = Signal(len(registers.araddr))
        m.d.comb += offset.eq(Mux(write, registers.awaddr, registers.araddr))
        known, kept, mask = self._find(m, offset, write)
        inside = Signal()
        m.d.comb += [
            inside.eq(self._inside(memory.address)),
            ram.write.eq(write | (access & memory.write)),
            ram.write_data.eq(Mux(write, registers.wdata & mask, memory.write_data.replicate(WORD_BYTES))),
            # A register's word is found by its offset.
            ram.address.eq(
                Mux(
                    write | read,
                    Cat(offset[2:_OFFSET_BITS], Const(-1, _ADDRESS_BITS - _OFFSET_BITS)),
                    memory.address[2:_ADDRESS_BITS],
                )
            ),
        ]
        with m.If(write):
            m.d.comb += [ram.enable.eq(kept), ram.mask.eq(registers.wstrb)]
        with m.Elif(read):
            m.d.comb += ram.enable.eq(1)
        with m.Else():
            m.d.comb += [ram.enable.eq(access & inside), ram.mask.eq(1 << memory.address[:2])]
        self._answer_writes(m, write, offset, known)
        self._answer_reads(m, read & ~write, reading, offset, known)
        self._answer_bytes(m, access, inside)
        return m

    def _find(self, m: Module, offset: Signal, write: Signal) -> tuple[Signal, Signal, Signal]:
        """Of the register at `offset`: whether there is one (for a write: one that is written); whether its word in the
        RAM takes what is written; and which bits do."""
        known, kept, mask = Signal(), Signal(), Signal(32)
        with m.Switch(offset[2:]):
            for register in REGISTERS:
                with m.Case(register.offset >> 2):
                    written = register.mask(
                        FieldAccess.RW, FieldAccess.PULSE, FieldAccess.W1C, FieldAccess.SET
                    )
                    m.d.comb += known.eq(~write | bool(written))
                    if written and register.name not in HELD:
                        m.d.comb += [kept.eq(~self._locked(register)), mask.eq(written)]
        return known, kept, mask

    def _answer_writes(self, m: Module, write: Signal, offset: Signal, known: Signal) -> None:
        registers = self.registers
        m.d.comb += [
            registers.awready.eq(write & self.free),
            registers.wready.eq(write & self.free),
            self.write_data.eq(registers.wdata),
        ]
        strobes = {"CONTROL": self.write_control, "IRQ": self.write_irq, "LOCK": self.write_lock}
        for name, strobe in strobes.items():
            number = REGISTER[name].offset >> 2
            m.d.comb += strobe.eq(write & self.free & registers.wstrb[0] & (offset[2:] == number))
        with m.If(write & self.free):
            m.d.sync += [registers.bvalid.eq(1), registers.bresp.eq(Mux(known, RESP_OKAY, RESP_SLVERR))]
        with m.Elif(registers.bready):
            m.d.sync += registers.bvalid.eq(0)

    def _answer_reads(self, m: Module, read: Value, reading: Signal, offset: Signal, known: Signal) -> None:
        """A held register's value is there at once, the RAM's word in the cycle `reading`."""
        registers, from_ram = self.registers, Signal()
        m.d.comb += registers.arready.eq(read & self.free)
        with m.If(registers.arready):
            m.d.sync += [
                reading.eq(1),
                from_ram.eq(1),
                registers.rresp.eq(Mux(known, RESP_OKAY, RESP_SLVERR)),
            ]
            with m.Switch(offset[2:]):
                for index, name in enumerate(HELD):
                    with m.Case(REGISTER[name].offset >> 2):
                        m.d.sync += [from_ram.eq(0), registers.rdata.eq(self.held.word_select(index, 32))]
        with m.If(reading):
            m.d.sync += [reading.eq(0), registers.rvalid.eq(1)]
            with m.If(from_ram):
                m.d.sync += registers.rdata.eq(self.ram.data)
        with m.Elif(registers.rready):
            m.d.sync += registers.rvalid.eq(0)

    def _answer_bytes(self, m: Module, access: Signal, inside: Signal) -> None:
        """A byte of memory is there in the cycle after the RAM's."""
        memory, lane = self.memory, Signal(2)
        m.d.sync += [
            memory.done.eq(access & self.free),
            memory.error.eq(~inside),
            lane.eq(memory.address[:2]),
        ]
        m.d.comb += memory.read_data.eq(self.ram.data.word_select(lane, 8))
