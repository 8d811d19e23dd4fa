"""One report of all cores: who runs, who is done, and whose fault is told."""

from amaranth.sim import Simulator
from share_bench import machine

from tosaic.hw.cores import Reports
from tosaic.hw.isa import Error, Unit

CORES = 4


def check(steps):
    """Each step: `start` with a mask of programs or None, the cores' (running, done, error, code) and what is told."""
    dut = Reports(machine(CORES, 1))

    async def testbench(ctx):
        for start, cores, told in steps:
            ctx.set(dut.start, start is not None)
            ctx.set(dut.has_program, start or 0)
            for port, (running, done, error, code) in zip(dut.cores, cores, strict=True):
                ctx.set(port.running, running)
                ctx.set(port.done, done)
                ctx.set(port.error, error)
                ctx.set(port.code, code)
                ctx.set(port.unit, Unit.STORE)
            await ctx.delay(1e-7)
            whole = dut.whole
            assert tuple(map(ctx.get, (whole.running, whole.done, whole.error, whole.code, dut.core))) == told
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


IDLE, RUNS, DONE, STOPPED = (0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, Error.NONE)
FAULT = (0, 0, 1, Error.BUS_READ)


def test_done_when_all_that_have_a_program_are():
    check(
        [
            (None, [IDLE] * 4, (0, 0, 0, 0, 0)),
            (0b1011, [IDLE] * 4, (0, 0, 0, 0, 0)),
            (None, [RUNS, RUNS, IDLE, RUNS], (1, 0, 0, 0, 0)),
            (None, [DONE, RUNS, IDLE, DONE], (1, 0, 0, 0, 0)),
            (None, [DONE, DONE, IDLE, DONE], (0, 1, 0, 0, 0)),
        ]
    )


def test_the_first_fault_is_told_with_its_core():
    check(
        [
            (0b1111, [IDLE] * 4, (0, 0, 0, 0, 0)),
            (None, [RUNS, RUNS, FAULT, DONE], (0, 0, 1, Error.BUS_READ, 2)),
            (None, [STOPPED, STOPPED, FAULT, DONE], (0, 0, 1, Error.BUS_READ, 2)),
            (None, [STOPPED, FAULT, FAULT, DONE], (0, 0, 1, Error.BUS_READ, 1)),
        ]
    )
