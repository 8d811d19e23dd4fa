"""The accelerator on the bench: clock, reset, AXI models, monitor, and the registers by name."""

import random
from collections.abc import Sequence
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, First, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiResp, AxiSlave

from tosaic.hw.csr_map import REGISTER, of_core, registers_of

from .memory import MEM_BASE, GuardedMemory
from .monitor import Monitor
from .stalls import random_pauses

CLOCK_NS = 10
REGISTER_CYCLES = 5_000
"""Cycles: more than any access of a register takes, stalls included."""
RESET_POLLS = 1_000
"""Polls: more than a soft reset takes to let the bus come to rest."""
LOOK_CYCLES = 20_000
"""While a program runs, the bench looks this often whether it still does."""


class NoAnswer(Exception):
    """The control port did not behave."""


class BenchMachine:
    """One accelerator with external memory `memory` behind it. `stalls`: "random" or "none"."""

    def __init__(self, dut: Any, memory: GuardedMemory, seed: int, stalls: str, cores: int = 1):
        self.dut, self.memory = dut, memory
        self._registers = {register.name: register for register in registers_of(cores)}
        Clock(dut.clk, CLOCK_NS, unit="ns").start()
        dut.rst.value = 1
        self.slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, target=memory)
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.monitor = Monitor(dut)
        if stalls == "random":
            self._stall(random.Random(seed))

    def _stall(self, rng: random.Random) -> None:
        read, write = self.slave.read_if, self.slave.write_if
        lite_read, lite_write = self.lite.read_if, self.lite.write_if

        def write_offered() -> bool:
            # A subordinate may hold AWREADY back until it sees the data, too (A3.3.1).
            data = write.w_channel
            return bool(write.aw_channel.valid.value) and (bool(data.valid.value) or not data.empty())

        waiting = {
            read.ar_channel: lambda: bool(read.ar_channel.valid.value),
            write.aw_channel: write_offered,
            write.w_channel: lambda: bool(write.w_channel.valid.value),
            lite_read.r_channel: lambda: bool(lite_read.r_channel.valid.value),
            lite_write.b_channel: lambda: bool(lite_write.b_channel.valid.value),
        }
        sources = (
            read.r_channel,
            write.b_channel,
            lite_read.ar_channel,
            lite_write.aw_channel,
            lite_write.w_channel,
        )
        for channel, wanted in waiting.items():
            channel.set_pause_generator(random_pauses(random.Random(rng.random()), wanted))
        for channel in sources:
            channel.set_pause_generator(random_pauses(random.Random(rng.random())))

    async def reset(self) -> None:
        """Two cycles of the machine's reset."""
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 2)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)

    async def read_at(self, offset: int) -> tuple[int, AxiResp]:
        """A register's value and the control port's answer."""
        done = await with_timeout(self.lite.read(offset, 4), REGISTER_CYCLES * CLOCK_NS, "ns")
        return int.from_bytes(done.data, "little"), done.resp

    async def write_at(self, offset: int, data: bytes) -> AxiResp:
        """The control port's answer to a write of 1 to 4 bytes from byte `offset` on."""
        done = await with_timeout(self.lite.write(offset, data), REGISTER_CYCLES * CLOCK_NS, "ns")
        return done.resp

    async def read(self, name: str) -> int:
        """A register by name; NoAnswer unless the answer is OKAY."""
        value, response = await self.read_at(self._registers[name].offset)
        if response != AxiResp.OKAY:
            raise NoAnswer(f"the control port answers the read of {name} with {response.name}")
        return value

    async def write(self, name: str, value: int) -> None:
        """Set a register by name; NoAnswer unless the answer is OKAY."""
        response = await self.write_at(self._registers[name].offset, value.to_bytes(4, "little"))
        if response != AxiResp.OKAY:
            raise NoAnswer(f"the control port answers the write of {name} with {response.name}")

    async def field(self, register: str, field: str) -> int:
        """A field of a register."""
        return REGISTER[register].field(field).extract(await self.read(register))

    async def control(self, *fields: str) -> None:
        """Write CONTROL with 1 in these fields and 0 in the others."""
        await self.write("CONTROL", sum(REGISTER["CONTROL"].field(name).mask for name in fields))

    async def run(
        self,
        program_address: int,
        program_bytes: int,
        max_cycles: int | None = None,
        others: Sequence[Sequence[int]] = (),
    ) -> bool:
        """Start the program, and those of the `others` behind core 0 (address, bytes), and wait for the interrupt, of
        success or error; the interrupt is left pending.

        False when it has not come after `max_cycles`."""
        await self.write("MEM_BASE", MEM_BASE)
        await self.write("MEM_SIZE", len(self.memory.window))
        await self.write("PROGRAM_ADDRESS", program_address)
        await self.write("PROGRAM_BYTES", program_bytes)
        for core, (address, size) in enumerate(others, 1):
            await self.write(of_core("PROGRAM_ADDRESS", core), address)
            await self.write(of_core("PROGRAM_BYTES", core), size)
        await self.control("irq_enable", "start")
        left = max_cycles
        while not self.dut.irq.value:
            if left == 0:
                return False
            look = LOOK_CYCLES if left is None else min(left, LOOK_CYCLES)
            await First(RisingEdge(self.dut.irq), ClockCycles(self.dut.clk, look))
            left = None if left is None else left - look
            if (
                not self.dut.irq.value
                and not await self.field("STATUS", "running")
                and not self.dut.irq.value
            ):
                raise NoAnswer("the program ended without an interrupt")
        if not await self.field("STATUS", "error"):
            self.monitor.check_idle()
        return True

    async def soft_reset(self) -> None:
        """End a run and wait until the machine is idle again."""
        await self.control("soft_reset")
        for _ in range(RESET_POLLS):
            if not await self.field("STATUS", "resetting"):
                break
        else:
            raise NoAnswer(f"the soft reset still waits for the bus after {RESET_POLLS} reads of STATUS")
        self.monitor.check_idle()
        await self.write("IRQ", 3)

    async def registers(self) -> dict[str, int]:
        """All registers that may be read."""
        return {name: await self.read(name) for name in self._registers}

    async def marks(self) -> list[tuple[int, int]]:
        """Returns (layer, cycle) of every mark."""
        found = []
        for index in range(await self.read("MARK_COUNT")):
            await self.write("MARK_INDEX", index)
            found.append((await self.read("MARK_LAYER"), await self.read("MARK_CYCLE")))
        return found

    def faults(self) -> list[str]:
        """Everything the bench saw that may not happen: rules of AXI, stray accesses, guard bytes."""
        return self.monitor.violations.found + self.memory.damage()
