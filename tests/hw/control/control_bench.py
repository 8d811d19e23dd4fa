"""An AXI4-Lite manager for simulations: one transaction at a time, with stalls."""

import random

from amaranth.sim import Simulator

from tosaic.hw.csr_map import REGISTER


class LiteManager:
    """Reads and writes registers by name or offset. `stall`: probability that a channel waits a cycle."""

    def __init__(self, axi, stall=0.0, seed=1, each_cycle=None):
        self.axi, self.stall, self.rng, self.each_cycle = axi, stall, random.Random(seed), each_cycle

    async def _tick(self, ctx):
        if self.each_cycle is not None:
            await self.each_cycle(ctx)
        else:
            await ctx.tick()

    def _go(self):
        return self.rng.random() >= self.stall

    async def read_response(self, ctx, register):
        """(data, resp) of a read."""
        axi = self.axi
        ctx.set(axi.araddr, REGISTER[register].offset if isinstance(register, str) else register)
        pending, valid = True, False
        for _ in range(200):
            valid = pending and (valid or self._go())
            ctx.set(axi.arvalid, valid)
            ready = not pending and self._go()
            ctx.set(axi.rready, ready)
            accepted = valid and ctx.get(axi.arready)
            answer = (ctx.get(axi.rdata), ctx.get(axi.rresp)) if ready and ctx.get(axi.rvalid) else None
            await self._tick(ctx)
            pending = pending and not accepted
            if answer is not None:
                ctx.set(axi.rready, 0)
                return answer
        raise AssertionError("a read was not answered")

    async def write_response(self, ctx, register, value, strobe=15):
        """resp of a write; address and data come in a random order."""
        axi = self.axi
        ctx.set(axi.awaddr, REGISTER[register].offset if isinstance(register, str) else register)
        ctx.set(axi.wdata, value)
        ctx.set(axi.wstrb, strobe)
        address_pending, data_pending, address_valid, data_valid = True, True, False, False
        for _ in range(200):
            address_valid = address_pending and (address_valid or self._go())
            data_valid = data_pending and (data_valid or self._go())
            ctx.set(axi.awvalid, address_valid)
            ctx.set(axi.wvalid, data_valid)
            ready = self._go()
            ctx.set(axi.bready, ready)
            address_taken = address_valid and ctx.get(axi.awready)
            data_taken = data_valid and ctx.get(axi.wready)
            answer = ctx.get(axi.bresp) if ready and ctx.get(axi.bvalid) else None
            await self._tick(ctx)
            address_pending = address_pending and not address_taken
            data_pending = data_pending and not data_taken
            if answer is not None:
                assert not address_pending and not data_pending
                ctx.set(axi.bready, 0)
                return answer
        raise AssertionError("a write was not answered")

    async def read(self, ctx, register):
        data, resp = await self.read_response(ctx, register)
        assert resp == 0, register
        return data

    async def write(self, ctx, register, value, strobe=15):
        assert await self.write_response(ctx, register, value, strobe) == 0, register


def simulate(dut, script):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()
