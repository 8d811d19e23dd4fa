"""What a processor would do to start an SDR SDRAM behind LiteDRAM's controller: a list of register writes."""

import dataclasses
import math

from amaranth.hdl import Array, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tosaic.boards.dram.chips import SdrChip

MARGIN = 1.1
"""Factor on the chip's waiting time: the clock may be a little fast."""
_INIT_DONE, _CONTROL, _COMMAND, _ISSUE, _ADDRESS, _BANK = 0x000, 0x200, 0x201, 0x202, 0x203, 0x204
"""Registers of the core, as numbers of 32-bit words."""
_STOPPED, _BY_SOFTWARE, _BY_CONTROLLER = 0x0C, 0x0E, 0x01
"""_CONTROL: commands come from _COMMAND, the clock is disabled; the same, it is enabled; commands come from the
controller."""
_PRECHARGE, _LOAD_MODE, _REFRESH = 0x0B, 0x0F, 0x0D
_ALL_BANKS = 0x400
_ADDRESS_BITS, _DATA_BITS = 10, 13


@dataclasses.dataclass(frozen=True)
class Write:
    """A register write, and the cycles to wait after it."""

    address: int
    data: int
    cycles: int = 0


def init_writes(chip: SdrChip, clock_hz: float) -> list[Write]:
    """What data sheets ask for. LiteDRAM's own software also sets a mode for DDR's sake, and refreshes twice only."""
    gaps = chip.gaps(clock_hz)
    settle = max(chip.mode_cycles, gaps["rp"]) + 1

    def command(address: int, code: int, cycles: int) -> list[Write]:
        return [Write(_ADDRESS, address), Write(_COMMAND, code), Write(_ISSUE, 1, cycles)]

    power_up = math.ceil(chip.power_up_ns * 1e-9 * clock_hz * MARGIN)
    return [
        Write(_BANK, 0),
        Write(_ADDRESS, 0),
        # A chip that ran before a reset: it starts anew, for nobody refreshes its rows in time meanwhile.
        Write(_CONTROL, _STOPPED),
        Write(_CONTROL, _BY_SOFTWARE, power_up),
        *command(_ALL_BANKS, _PRECHARGE, settle),
        *command(0, _REFRESH, gaps["rfc"]),
        *[Write(_ISSUE, 1, gaps["rfc"])] * (chip.refreshes - 1),
        *command(chip.mode, _LOAD_MODE, settle),
        Write(_CONTROL, _BY_CONTROLLER),
        Write(_INIT_DONE, 1),
    ]


class SdramInit(wiring.Component):
    """Writes `init_writes` to the core's control port, after every reset.

    Ports:
        `address` (number of a 32-bit word), `data`, `request`: a Wishbone write, held until `done`.
        `done` (in): it is taken.
        `ready`: everything is written; the memory may be used.
    """

    def __init__(self, chip: SdrChip, clock_hz: float):
        self.writes = init_writes(chip, clock_hz)
        super().__init__(
            {
                "address": Out(_ADDRESS_BITS),
                "data": Out(_DATA_BITS),
                "request": Out(1),
                "done": In(1),
                "ready": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        last = len(self.writes)
        index = Signal(range(last + 1))
        wait = Signal(range(max(write.cycles for write in self.writes) + 1))
        cycles = Signal.like(wait)
        for field, target in (("address", self.address), ("data", self.data), ("cycles", cycles)):
            values = Array(Const(getattr(write, field), target.shape()) for write in self.writes)
            m.d.comb += target.eq(values[index])
        with m.If(self.request):
            with m.If(self.done):
                m.d.sync += [self.request.eq(0), wait.eq(cycles), index.eq(index + 1)]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Elif(index == last):
            m.d.sync += self.ready.eq(1)
        with m.Else():
            m.d.sync += self.request.eq(1)
        return m
