"""Bytes of an SPI flash, one after the other."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tosaic.boards.spi_flash import ADDRESS_BITS

WAKE, READ = 0xAB, 0x03
HALF_CYCLES = 2
"""Cycles of half a period of the flash's clock: 12.5 MHz at 50 MHz, where a pad, the chip and a pad have 40 ns."""
WAKE_SECONDS = 50e-6
"""Seconds from WAKE to the first command; data sheets ask for 3 to 35 µs."""


class SpiPins(wiring.Signature):
    """Pins to the flash; levels are the chip's. Mode 0: both sides change data at the falling edge."""

    def __init__(self) -> None:
        super().__init__({"cs_n": Out(1, init=1), "clk": Out(1), "copi": Out(1), "cipo": In(1)})


class SpiReader(wiring.Component):
    """Wakes the flash after a reset; then, after each `start`, `data` are its bytes from `offset` on, until the next
    one. The clock stands while nobody takes a byte.

    Ports:
        `pins`: to the flash.
        `start` (in): one cycle: begin anew at `offset`.
        `data` (stream of 8, out).
    """

    def __init__(self, offset: int, clock_hz: float):
        self.offset, self.wake_cycles = offset, round(WAKE_SECONDS * clock_hz)
        super().__init__({"pins": Out(SpiPins()), "start": In(1), "data": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pins, data = self.pins, self.data
        command = Cat(Const(self.offset, ADDRESS_BITS), Const(READ, 8))
        shift, left, timer = Signal(32), Signal(range(33)), Signal(range(max(self.wake_cycles, HALF_CYCLES)))
        listens, wanted, woken = Signal(), Signal(), Signal()
        m.d.comb += [pins.copi.eq(shift[-1]), data.payload.eq(shift[:8])]
        with m.If(self.start):
            m.d.sync += wanted.eq(1)
        with m.FSM():
            with m.State("SELECT"):
                m.d.sync += [pins.cs_n.eq(0), shift.eq(Cat(Const(0, 24), Const(WAKE, 8))), left.eq(8)]
                m.d.sync += [timer.eq(HALF_CYCLES - 1), listens.eq(0)]
                m.next = "LOW"
            with m.State("LOW"):
                m.d.sync += timer.eq(timer - 1)
                with m.If(timer == 0):
                    m.d.sync += [pins.clk.eq(1), timer.eq(HALF_CYCLES - 1)]
                    m.next = "HIGH"
            with m.State("HIGH"):
                m.d.sync += timer.eq(timer - 1)
                with m.If(timer == 0):
                    m.d.sync += [pins.clk.eq(0), shift.eq(Cat(pins.cipo, shift[:-1])), left.eq(left - 1)]
                    m.d.sync += timer.eq(HALF_CYCLES - 1)
                    m.next = "LOW"
                    with m.If(left == 1):
                        m.next = "END"
            with m.State("END"):
                # A command is out, or a byte is in.
                m.d.comb += data.valid.eq(listens & ~wanted)
                with m.If(~woken):
                    m.d.sync += [pins.cs_n.eq(1), woken.eq(1), timer.eq(self.wake_cycles - 1)]
                    m.next = "WAKE"
                with m.Elif(wanted):
                    m.d.sync += [pins.cs_n.eq(1), timer.eq(HALF_CYCLES - 1)]
                    m.next = "PAUSE"
                with m.Elif(~pins.cs_n & (~listens | data.ready)):
                    m.d.sync += [listens.eq(1), left.eq(8), timer.eq(HALF_CYCLES - 1)]
                    m.next = "LOW"
            with m.State("WAKE"):
                m.d.sync += timer.eq(timer - 1)
                with m.If(timer == 0):
                    m.next = "END"
            with m.State("PAUSE"):
                m.d.sync += timer.eq(timer - 1)
                with m.If(timer == 0):
                    m.d.sync += [pins.cs_n.eq(0), shift.eq(command), left.eq(32), wanted.eq(0), listens.eq(0)]
                    m.d.sync += timer.eq(HALF_CYCLES - 1)
                    m.next = "LOW"
        return m
