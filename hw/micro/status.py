"""The registers that the hardware keeps itself: what a host must see at once, whatever the firmware does."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..csr_map import REGISTER

POWER_UP_CYCLES = 64
"""iCE40's block RAM cannot be read for 3 us after configuration."""
CYCLES_BITS = 48
HELD = ("CONTROL", "STATUS", "IRQ", "CYCLES", "CYCLES_HIGH", "LOCK")
"""The registers of this block."""


class Status(wiring.Component):
    """CONTROL, STATUS, IRQ, CYCLES and LOCK; the core's reset.

    Ports:
        `write_control`, `write_irq`, `write_lock`, `write_data`: the host writes the register's lowest byte.
        `control`, `status`, `irq_pending`, `cycles`, `lock`: the registers' values; `cycles` is both CYCLES registers.
        `irq`: the interrupt line.
        `ready`, `done`, `failed`: the firmware says so (SIGNAL_*).
        `running`, `cold`: what it is told (EVENT_*).
        `core_runs`: while low, the core is in reset.
        `up`: the firmware has said `ready` since then.
    """

    write_control: In(1)
    write_irq: In(1)
    write_lock: In(1)
    write_data: In(8)
    control: Out(32)
    status: Out(32)
    irq_pending: Out(32)
    cycles: Out(64)
    lock: Out(32)
    irq: Out(1)
    ready: In(1)
    done: In(1)
    failed: In(1)
    running: Out(1)
    cold: Out(1, init=1)
    core_runs: Out(1)
    up: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, status, pending = REGISTER["CONTROL"], REGISTER["STATUS"], REGISTER["IRQ"]
        timer = Signal(range(POWER_UP_CYCLES), init=POWER_UP_CYCLES - 1)
        done, failed, irq_enable = Signal(), Signal(), Signal()
        irq_done, irq_error = Signal(), Signal()
        start, soft_reset = Signal(), Signal()

        locks = Signal(max(field.lsb for field in REGISTER["LOCK"].fields) + 1)
        m.d.comb += self.lock.eq(locks)

        def bit(register: str, field: str) -> int:
            return REGISTER[register].field(field).lsb

        m.d.comb += [
            start.eq(self.write_control & self.write_data[bit("CONTROL", "start")]),
            soft_reset.eq(self.write_control & self.write_data[bit("CONTROL", "soft_reset")]),
            self.control[control.field("irq_enable").lsb].eq(irq_enable),
            self.status[status.field("idle").lsb].eq(self.up & ~self.running & ~failed),
            self.status[status.field("running").lsb].eq(self.running),
            self.status[status.field("done").lsb].eq(done),
            self.status[status.field("error").lsb].eq(failed),
            self.status[status.field("resetting").lsb].eq(~self.up),
            self.irq_pending[pending.field("done").lsb].eq(irq_done),
            self.irq_pending[pending.field("error").lsb].eq(irq_error),
            self.irq.eq(irq_enable & (irq_done | irq_error)),
            self.core_runs.eq(timer == 0),
        ]
        with m.If(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.If(self.ready):
            m.d.sync += self.up.eq(1)

        cycles = Signal(CYCLES_BITS)
        m.d.comb += self.cycles.eq(cycles)
        with m.If(self.running):
            m.d.sync += cycles.eq(cycles + 1)

        with m.If(self.write_irq):
            m.d.sync += [
                Cat(irq_done, irq_error).eq(
                    Cat(irq_done, irq_error)
                    & ~Cat(self.write_data[bit("IRQ", "done")], self.write_data[bit("IRQ", "error")])
                )
            ]
        with m.If(self.write_control):
            m.d.sync += irq_enable.eq(self.write_data[bit("CONTROL", "irq_enable")])
        with m.If(self.write_lock):
            m.d.sync += locks.eq(locks | self.write_data)
        with m.If(start & self.up & ~self.running & ~failed):
            m.d.sync += [self.running.eq(1), done.eq(0), cycles.eq(0)]
        with m.If(self.running & self.done):
            m.d.sync += [self.running.eq(0), done.eq(1), irq_done.eq(1)]
        with m.If(self.running & self.failed):
            m.d.sync += [self.running.eq(0), failed.eq(1), irq_error.eq(1)]
        with m.If(soft_reset):
            m.d.sync += [
                Cat(self.running, done, failed, irq_done, irq_error, self.up, self.cold, cycles).eq(0),
                timer.eq(3),
            ]
        return m
