"""One simulator of Amaranth for many runs: to elaborate and compile a unit takes longer than most tests run it."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from amaranth.hdl import Elaboratable, ResetInserter, Signal
from amaranth.sim import Simulator, SimulatorContext

Testbench = Callable[[SimulatorContext], Awaitable[None]]


class KeptSimulator:
    """A design with a clock of 1 MHz, compiled once. Every run begins with the initial values of all signals and
    memories, whatever ran before."""

    def __init__(self, design: Elaboratable):
        self._simulator = Simulator(design)
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._bench)
        self._testbench: Testbench | None = None

    async def _bench(self, ctx: SimulatorContext) -> None:
        assert self._testbench is not None
        await self._testbench(ctx)

    def run(self, testbench: Testbench) -> None:
        """Runs `testbench` to its end."""
        if self._testbench is not None:
            self._simulator.reset()
        self._testbench = testbench
        self._simulator.run()


@functools.lru_cache(maxsize=6)
def kept_simulator(unit: Callable[[Any], Any], config: Any) -> tuple[Any, Signal, KeptSimulator]:
    """`unit(config)`, a signal that resets it beside the reset of its clock domain, and the simulator of both."""
    made, reset = unit(config), Signal()
    return made, reset, KeptSimulator(ResetInserter(reset)(made))
