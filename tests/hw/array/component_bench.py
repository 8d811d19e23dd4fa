"""Runs a process against one component."""

import typing

from amaranth.lib import wiring
from amaranth.sim import Simulator


def run(component: wiring.Component, process: typing.Callable[[typing.Any], typing.Awaitable]) -> None:
    """Simulates `component` with a clock until `process(ctx)`, an async function, ends."""
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()


def set_fields(ctx: typing.Any, view: typing.Any, **values: int) -> None:
    """Sets members of a structure."""
    for name, value in values.items():
        ctx.set(view[name], value)
