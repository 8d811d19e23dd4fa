"""One simulator of Amaranth for many runs: to elaborate and compile a unit takes longer than most tests run it."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from amaranth.hdl import Elaboratable, ResetInserter, Signal
from amaranth.sim import Simulator, SimulatorContext

Testbench = Callable[[SimulatorContext], Awaitable[None]]


MOST_BESIDE = 3
"""Testbenches that may serve the design beside the one that ends a run."""


class KeptSimulator:
    """A design with a clock of 1 MHz, compiled once. Every run begins with the initial values of all signals and
    memories, whatever ran before."""

    def __init__(self, design: Elaboratable):
        self._simulator = Simulator(design)
        self._simulator.add_clock(1e-6)
        for number in range(1 + MOST_BESIDE):
            self._simulator.add_testbench(self._place(number), background=number > 0)
        self._testbenches: tuple[Testbench, ...] = ()

    def _place(self, number: int) -> Testbench:
        """Testbench `number` of the run that is under way, if it has one of that number."""

        async def bench(ctx: SimulatorContext) -> None:
            if number < len(self._testbenches):
                await self._testbenches[number](ctx)

        return bench

    def run(self, testbench: Testbench, *beside: Testbench) -> None:
        """Runs `testbench` to its end; those `beside` it, at most MOST_BESIDE, end with it."""
        assert len(beside) <= MOST_BESIDE
        if self._testbenches:
            self._simulator.reset()
        self._testbenches = (testbench, *beside)
        self._simulator.run()


@functools.lru_cache(maxsize=6)
def kept_simulator(unit: Callable[[Any], Any], config: Any) -> tuple[Any, Signal, KeptSimulator]:
    """`unit(config)`, a signal that resets it beside the reset of its clock domain, and the simulator of both."""
    made, reset = unit(config), Signal()
    return made, reset, KeptSimulator(ResetInserter(reset)(made))
