"""The read arbiter: requests stay, take turns, and beats go home by their ID."""

import random

import pytest
from amaranth.sim import Simulator
from sequencer_bench import config_of

from tosaic.hw.sequencer.arbiter import ReadArbiter


def test_constructor():
    with pytest.raises(ValueError, match=r"^fetch_id must fit 2 bits, not 4$"):
        ReadArbiter(config_of(8), 4)


def _run(script, dut):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()


@pytest.mark.parametrize("stall", [0.0, 0.6])
def test_nothing_is_lost_and_requests_are_stable(stall):
    dut = ReadArbiter(config_of(8), 1)
    rng = random.Random(3)
    sent = {"load": [], "fetch": []}
    seen = {0: [], 1: []}

    async def script(ctx):
        ctx.set(dut.load.arid, 0)
        ctx.set(dut.fetch.arid, 1)
        offered = {"load": None, "fetch": None}
        held = None
        for cycle in range(600):
            for name in offered:
                port = getattr(dut, name)
                if offered[name] is None and rng.random() < 0.7:
                    offered[name] = (cycle * 16, rng.randrange(16))
                ctx.set(port.arvalid, offered[name] is not None)
                if offered[name]:
                    ctx.set(port.araddr, offered[name][0])
                    ctx.set(port.arlen, offered[name][1])
            ctx.set(dut.bus.arready, rng.random() >= stall)
            bus = (ctx.get(dut.bus.arid), ctx.get(dut.bus.araddr), ctx.get(dut.bus.arlen))
            valid, ready = ctx.get(dut.bus.arvalid), ctx.get(dut.bus.arready)
            if held is not None:
                assert valid and bus == held
            held = bus if valid and not ready else None
            if valid and ready:
                seen[bus[0]].append(bus[1:])
            for name in offered:
                if offered[name] is not None and ctx.get(getattr(dut, name).arready):
                    sent[name].append(offered[name])
                    offered[name] = None
            await ctx.tick()

    _run(script, dut)
    for name, number in (("load", 0), ("fetch", 1)):
        assert len(seen[number]) > 100
        assert seen[number] == sent[name][: len(seen[number])] and len(sent[name]) - len(seen[number]) <= 1


def test_turns_and_the_low_program():
    dut = ReadArbiter(config_of(8), 1)
    order = []

    async def script(ctx):
        ctx.set(dut.load.arid, 0)
        ctx.set(dut.fetch.arid, 1)
        ctx.set(dut.load.arvalid, 1)
        ctx.set(dut.fetch.arvalid, 1)
        ctx.set(dut.bus.arready, 1)
        for cycle in range(12):
            ctx.set(dut.fetch_low, cycle >= 7)
            if ctx.get(dut.bus.arvalid):
                order.append(ctx.get(dut.bus.arid))
            await ctx.tick()

    _run(script, dut)
    assert order == [1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1]


def test_beats_go_to_their_requester():
    dut = ReadArbiter(config_of(8), 1)

    async def script(ctx):
        for number in range(16):
            rid, valid, ready = number & 1, number >> 1 & 1, number >> 2 & 1
            ctx.set(dut.bus.rid, rid)
            ctx.set(dut.bus.rvalid, valid)
            ctx.set(dut.bus.rdata, 0x1234 + number)
            ctx.set(dut.load.rready, ready)
            ctx.set(dut.fetch.rready, number >> 3)
            assert ctx.get(dut.load.rvalid) == (valid and not rid)
            assert ctx.get(dut.fetch.rvalid) == (valid and rid)
            assert ctx.get(dut.bus.rready) == (number >> 3 if rid else ready)
            assert ctx.get(dut.load.rdata) == ctx.get(dut.fetch.rdata) == 0x1234 + number

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()
