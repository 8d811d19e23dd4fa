"""UART: 8 data bits, no parity, 1 stop bit, no flow control."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

MIN_BIT_CYCLES = 4
MAX_BAUD_ERROR = 0.02
"""The two ends may be 5 % apart in total at the middle of the tenth bit; this leaves the other end its share."""


def bit_cycles(clock_hz: float, baud: int) -> int:
    """Clock cycles of a bit; ValueError when the clock cannot make the baud rate well enough."""
    cycles = round(clock_hz / baud)
    if cycles < MIN_BIT_CYCLES:
        raise ValueError(
            f"baud must be at most clock_hz / {MIN_BIT_CYCLES} = {clock_hz / MIN_BIT_CYCLES:g}, not {baud}"
        )
    error = abs(clock_hz / cycles / baud - 1)
    if error > MAX_BAUD_ERROR:
        raise ValueError(
            f"baud {baud} is {error:.1%} off at {clock_hz:g} Hz, more than {MAX_BAUD_ERROR:.0%}; "
            f"try {clock_hz / cycles:.0f}"
        )
    return cycles


def _check(cycles: int) -> None:
    if not isinstance(cycles, int) or cycles < MIN_BIT_CYCLES:
        raise ValueError(f"cycles must be an integer of at least {MIN_BIT_CYCLES}, not {cycles!r}")


class UartReceiver(wiring.Component):
    """Bytes from a line, `cycles` clock cycles per bit.

    Ports:
        pin (1, in): the line, asynchronous; idle is 1.
        valid (1, out), data (8, out): one cycle: a byte. A byte without its stop bit is dropped.
    """

    def __init__(self, cycles: int):
        _check(cycles)
        self.cycles = cycles
        super().__init__({"pin": In(1), "valid": Out(1), "data": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.pin, line, init=1)
        timer = Signal(range(self.cycles))
        left = Signal(range(11))
        m.d.sync += self.valid.eq(0)
        with m.If(left == 0):
            # The start bit is sampled again in its middle, so that a short spike is not taken for one.
            with m.If(~line):
                m.d.sync += [left.eq(10), timer.eq(self.cycles // 2 - 1)]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [left.eq(left - 1), timer.eq(self.cycles - 1)]
            with m.If((left == 10) & line):
                m.d.sync += left.eq(0)
            with m.If(left == 1):
                m.d.sync += self.valid.eq(line)
            with m.Else():
                m.d.sync += self.data.eq(Cat(self.data[1:], line))
        return m


class UartTransmitter(wiring.Component):
    """Bytes to a line, `cycles` clock cycles per bit.

    Ports:
        data (stream of 8, in): bytes to send.
        pin (1, out): the line; idle is 1.
        busy (1, out): a byte is on the line.
    """

    def __init__(self, cycles: int):
        _check(cycles)
        self.cycles = cycles
        super().__init__({"data": In(stream.Signature(8)), "pin": Out(1, init=1), "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        timer = Signal(range(self.cycles))
        left = Signal(range(11))
        shift = Signal(9)
        m.d.comb += [self.busy.eq(left != 0), self.data.ready.eq(left == 0)]
        with m.If(left == 0):
            m.d.sync += self.pin.eq(1)
            with m.If(self.data.valid):
                m.d.sync += [
                    self.pin.eq(0),
                    shift.eq(Cat(self.data.payload, 1)),
                    left.eq(10),
                    timer.eq(self.cycles - 1),
                ]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [
                left.eq(left - 1),
                timer.eq(self.cycles - 1),
                self.pin.eq(shift[0]),
                shift.eq(Cat(shift[1:], 1)),
            ]
        return m
