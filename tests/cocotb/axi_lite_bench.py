"""cocotb tests of the AXI4-Lite port: identity, access rights, strobes, errors, interrupt; channels stall at random."""

import cocotb
import numpy as np
from cocotb.triggers import Combine
from cocotbext.axi import AxiResp
from copy_program import CONFIG, PROGRAM, copied, copy_program

from tosaic.hw.csr_map import ID_VALUE, REGISTER, REGISTERS, VERSION_VALUE, FieldAccess
from tosaic.hw.isa import ISA_HASH
from tosaic.sim.bench.machine import BenchMachine
from tosaic.sim.bench.memory import GuardedMemory

UNMAPPED = (0x03C, 0x058, 0x0BC, 0x0D0, 0x800, 0xFFC)


async def fresh(dut, seed=0, window=None):
    window = np.zeros(4096, np.uint8) if window is None else window
    machine = BenchMachine(dut, GuardedMemory(window, len(dut.m_axi_wstrb)), seed, "random")
    await machine.reset()
    return machine


def finish(machine):
    assert machine.faults() == []


@cocotb.test()
async def identity(dut):
    machine = await fresh(dut)
    assert await machine.read("ID") == ID_VALUE
    assert await machine.read("VERSION") == VERSION_VALUE
    assert await machine.read("ISA_HASH") == ISA_HASH
    assert await machine.read("CONFIG_HASH") == CONFIG.hash
    finish(machine)


@cocotb.test()
async def reset_values(dut):
    machine = await fresh(dut, 1)
    for register in REGISTERS:
        value, response = await machine.read_at(register.offset)
        assert response == AxiResp.OKAY, register.name
        assert register.reset is None or value == register.reset, (register.name, value)
    finish(machine)


@cocotb.test()
async def unmapped_addresses_answer_an_error(dut):
    machine = await fresh(dut, 2)
    for offset in UNMAPPED:
        assert all(register.offset != offset for register in REGISTERS)
        assert (await machine.read_at(offset))[1] == AxiResp.SLVERR, hex(offset)
        assert await machine.write_at(offset, bytes(4)) == AxiResp.SLVERR, hex(offset)
    assert (await machine.read_at(0))[1] == AxiResp.OKAY
    finish(machine)


@cocotb.test()
async def read_only_registers_refuse_writes(dut):
    machine = await fresh(dut, 3)
    for register in REGISTERS:
        if register.mask(FieldAccess.RW, FieldAccess.PULSE, FieldAccess.W1C, FieldAccess.SET) == 0:
            before, _ = await machine.read_at(register.offset)
            assert await machine.write_at(register.offset, b"\xff" * 4) == AxiResp.SLVERR, register.name
            if register.reset is not None:
                assert (await machine.read_at(register.offset))[0] == before, register.name
    finish(machine)


@cocotb.test()
async def written_values_are_kept_in_their_bits(dut):
    machine = await fresh(dut, 4)
    for register in REGISTERS:
        mask = register.mask(FieldAccess.RW)
        if not mask or register.name == "CONTROL":
            continue
        for value in (0xFFFFFFFF, 0x5AA5C33C, 0):
            assert await machine.write_at(register.offset, value.to_bytes(4, "little")) == AxiResp.OKAY
            assert await machine.read(register.name) == value & mask, register.name
    finish(machine)


@cocotb.test()
async def strobes_choose_bytes(dut):
    machine = await fresh(dut, 5)
    offset = REGISTER["PROGRAM_BYTES"].offset
    await machine.write("PROGRAM_BYTES", 0x44332211)
    assert await machine.write_at(offset + 1, b"\xaa") == AxiResp.OKAY
    assert await machine.read("PROGRAM_BYTES") == 0x4433AA11
    assert await machine.write_at(offset + 2, b"\xbb\xcc") == AxiResp.OKAY
    assert await machine.read("PROGRAM_BYTES") == 0xCCBBAA11
    # The interrupt's enable is in byte 0: byte 1 does not touch it.
    await machine.control("irq_enable")
    assert await machine.write_at(REGISTER["CONTROL"].offset + 1, b"\x00") == AxiResp.OKAY
    assert await machine.field("CONTROL", "irq_enable") == 1
    # Reads give the whole word at the address, whatever its low bits.
    done = await machine.lite.read(offset + 3, 1)
    assert done.data == b"\xcc"
    finish(machine)


@cocotb.test()
async def reads_and_writes_at_once(dut):
    """Accesses queued on both sides: each gets its own answer, in order."""
    machine = await fresh(dut, 6)
    names = ("PROGRAM_ADDRESS", "MEM_BASE", "MEM_SIZE", "WATCHDOG")
    writes = [
        machine.lite.init_write(REGISTER[name].offset, (index * 0x01010101).to_bytes(4, "little"))
        for index, name in enumerate(names)
    ]
    reads = [machine.lite.init_read(REGISTER["ID"].offset, 4) for _ in names]
    await Combine(*(cocotb.start_soon(event.wait()) for event in writes + reads))
    assert [event.data.resp for event in writes + reads] == [AxiResp.OKAY] * 8
    assert [int.from_bytes(event.data.data, "little") for event in reads] == [ID_VALUE] * 4
    assert [await machine.read(name) for name in names] == [index * 0x01010101 for index in range(4)]
    finish(machine)


@cocotb.test()
async def interrupt_follows_enable_and_clears(dut):
    window, size = copy_program()
    expected = copied(window)
    machine = await fresh(dut, 7, window)
    await machine.run(PROGRAM, size)
    np.testing.assert_array_equal(window, expected)
    status = {name: await machine.field("STATUS", name) for name in ("idle", "running", "done", "error")}
    assert status == {"idle": 1, "running": 0, "done": 1, "error": 0}
    assert await machine.read("IRQ") == 1
    await machine.control()
    assert not dut.irq.value
    assert await machine.read("IRQ") == 1
    await machine.control("irq_enable")
    assert dut.irq.value
    await machine.write("IRQ", 2)
    assert await machine.read("IRQ") == 1
    await machine.write("IRQ", 1)
    assert await machine.read("IRQ") == 0
    assert not dut.irq.value
    finish(machine)
