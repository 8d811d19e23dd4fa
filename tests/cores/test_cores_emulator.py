"""Several cores in the emulator: tokens between them, faults, deadlocks, races."""

import numpy as np
import pytest
from two_cores import MEMORY_BYTES, copy, machine, ping_pong, run, window

from tosaic.errors import DeviceError
from tosaic.hw.isa import Opcode
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator

CONFIG = machine(2)


def test_ping_pong():
    memory = window()
    first = memory[:64].copy()
    result = run(Emulator(CONFIG, check_hazards=True), memory, ping_pong(CONFIG, 5))
    np.testing.assert_array_equal(memory[:64], first + np.uint8(15))
    np.testing.assert_array_equal(memory[0x100:0x140], first + np.uint8(13))
    assert len(result.cores) == 2
    assert result.counters["load_beats"] == sum(core["load_beats"] for core in result.cores) == 2 * 5 * 16


@pytest.mark.parametrize("cores", (2, 4))
def test_every_core_copies(cores):
    config, memory = machine(cores), window()
    expected = memory.copy()
    assemblers = []
    for core in range(cores):
        assembler = Assembler(config)
        copy(assembler, 0x400 * core + 3, 0x4000 + 0x400 * core + 1, 500)
        assemblers.append(assembler)
        expected[0x4001 + 0x400 * core :][:500] = memory[0x400 * core + 3 :][:500]
    run(Emulator(config, check_hazards=True), memory, assemblers)
    np.testing.assert_array_equal(memory[:0x8000], expected[:0x8000])


def test_a_signal_to_several_cores():
    config, memory = machine(4), window()
    assemblers = [Assembler(config) for _ in range(4)]
    for assembler in assemblers[:3]:
        assembler.emit(Opcode.ARRAY_WAIT, semaphore=7, count=2)
    assemblers[3].emit(Opcode.VECTOR_SIGNAL, semaphore=7, count=2, cores=0b0111)
    run(Emulator(config), memory, assemblers)
    assemblers[2].emit(Opcode.ARRAY_WAIT, semaphore=7, count=1)
    with pytest.raises(
        DeviceError, match="^PROGRAM at program counter 32 of core 2 .*deadlock in program order$"
    ):
        run(Emulator(config), memory, assemblers)


def test_cores_without_a_program_do_nothing():
    memory = window()
    assembler = Assembler(CONFIG)
    copy(assembler, 0, 0x100, 64)
    result = run(Emulator(CONFIG), memory, [assembler])
    assert result.cores[1]["load_beats"] == 0


@pytest.mark.parametrize("cores", (1, 2))
def test_a_core_that_is_not_there(cores):
    config, memory = machine(cores), window()
    assembler = Assembler(config)
    assembler.emit(Opcode.STORE_SIGNAL, count=1, cores=1 << cores | 1)
    with pytest.raises(DeviceError, match=f"there are {cores} cores") as raised:
        run(Emulator(config), memory, [assembler])
    fault = raised.value.fault
    assert (fault.code, fault.unit, fault.program_counter, fault.core) == ("ILLEGAL", "SEQUENCER", 16, 0)


def test_a_fault_names_its_core():
    memory = window()
    assemblers = [Assembler(CONFIG), Assembler(CONFIG)]
    assemblers[1].emit(Opcode.LOAD_GO, memory_address=MEMORY_BYTES, row_bytes=4, rows=1)
    with pytest.raises(DeviceError, match="^MEMORY_RANGE at program counter 16 of core 1 ") as raised:
        run(Emulator(CONFIG), memory, assemblers)
    assert raised.value.fault.core == 1


def test_a_race_between_cores():
    memory = window()
    assemblers = [Assembler(CONFIG), Assembler(CONFIG)]
    copy(assemblers[0], 0, 0x100, 64)
    copy(assemblers[1], 0x100, 0x200, 64)
    run(Emulator(CONFIG), memory, assemblers)
    reason = "reads byte 256 of the external memory, which may still be written by STORE of core 0 at program counter"
    with pytest.raises(DeviceError, match=reason):
        run(Emulator(CONFIG, check_hazards=True), memory, assemblers)


def test_too_many_programs():
    with pytest.raises(DeviceError, match="^2 programs are too many for 1 cores$"):
        run(Emulator(machine(1)), window(), [Assembler(CONFIG)] * 2)


def test_cores_share_the_bus():
    """Two cores that load take twice as long as one, unless the port is twice as wide."""
    cycles = {}
    for cores, words in ((1, 1), (2, 1), (2, 2)):
        config = machine(2, words)
        assemblers = [Assembler(config) for _ in range(cores)]
        for core, assembler in enumerate(assemblers):
            assembler.emit(Opcode.LOAD_GO, memory_address=0x4000 * core, row_bytes=8192, rows=1)
        cycles[cores, words] = run(Emulator(config), window(), assemblers).cycles
    assert 1.9 < (cycles[2, 1] - 60) / (cycles[1, 1] - 60) < 2.1
    assert cycles[2, 2] == pytest.approx(cycles[1, 1], rel=0.06)
