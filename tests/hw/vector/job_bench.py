"""One simulation of a component that serves many examples: building it costs more than running it."""

import typing

from amaranth.lib import wiring
from amaranth.sim import Simulator


class JobBench:
    """Runs `job(ctx)`, an async function, whenever it is told to; the state stays as the job before left it."""

    def __init__(self, component: wiring.Component):
        self._job: typing.Any = None
        self._simulator = Simulator(component)
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._serve)

    def run(self, job: typing.Callable[[typing.Any], typing.Awaitable]) -> typing.Any:
        """What `job` returns."""
        self._job, self._answer = job, None
        while self._job is not None:
            self._simulator.advance()
        return self._answer

    async def _serve(self, ctx: typing.Any) -> None:
        while True:
            if self._job is not None:
                self._answer = await self._job(ctx)
                self._job = None
            await ctx.tick()
