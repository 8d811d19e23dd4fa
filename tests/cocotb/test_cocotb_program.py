"""Programs on the cocotb bench: results, measurements and errors of one run."""

import importlib.util

import numpy as np
import pytest
from copy_program import CONFIG, LOAD_PC, PROGRAM, ROW_BYTES, ROWS, WINDOW_BYTES, copied, copy_program
from rest_nightly import first_of

from tosaic.errors import DeviceError, InputError, UnsupportedError
from tosaic.hw.isa import Condition, Opcode
from tosaic.install import install_command
from tosaic.sim.assembler import Assembler
from tosaic.sim.bench import CocotbBench
from tosaic.sim.emulator import Emulator
from tosaic.sim.rtl.verilog import cached_verilog
from tosaic.sim.stimulus import random_program

pytestmark = pytest.mark.xdist_group("cocotb")


def test_load_and_store_move_rows_and_stalls_cost_cycles():
    cycles = {}
    for seed, stalls in ((3, "random"), (4, "random"), (3, "none")):
        window, size = copy_program()
        expected = copied(window)
        result = CocotbBench(CONFIG, seed=seed, stalls=stalls).run(window, PROGRAM, size)
        np.testing.assert_array_equal(window, expected)
        cycles[seed, stalls] = result.cycles
        assert result.counters["fetch_beats"] == size // CONFIG.word_bytes
        beats = result.counters["load_beats"] + result.counters["fetch_beats"]
        assert result.dram_read_bytes == beats * CONFIG.word_bytes
        assert result.dram_write_bytes == result.counters["store_beats"] * CONFIG.word_bytes
        assert ROWS * ROW_BYTES < result.dram_write_bytes < ROWS * (ROW_BYTES + 2 * CONFIG.word_bytes)
        assert (result.marks, result.macs) == ([], 0)
    fewest = cycles.pop((3, "none"))
    assert min(cycles.values()) > fewest


@pytest.mark.nightly
def test_seed_decides_the_cycles():
    (first, size), (second, _) = copy_program(), copy_program()
    bench = CocotbBench(CONFIG, seed=7)
    cycles = [bench.run(window, PROGRAM, size).cycles for window in (first, second)]
    assert cycles[0] == cycles[1]


@pytest.mark.parametrize("kind", first_of(["depthwise", "transfers"], 1))
def test_random_program_leaves_the_same_memory_as_in_the_emulator(kind):
    stimulus = random_program(CONFIG, kind, seed=5)
    expected = stimulus.memory.copy()
    place = (stimulus.program_address, stimulus.program_bytes)
    predicted = Emulator(CONFIG).run(expected, *place)
    measured = CocotbBench(CONFIG, seed=5).run(stimulus.memory, *place)
    np.testing.assert_array_equal(stimulus.memory, expected)
    assert measured.dram_write_bytes == predicted.dram_write_bytes
    assert measured.macs == predicted.macs


def test_illegal_instruction_is_named():
    window, size = copy_program()
    window[PROGRAM + 16] = 0x7F
    with pytest.raises(DeviceError, match=r"^ILLEGAL in SEQUENCER at program counter 16 \("):
        CocotbBench(CONFIG).run(window, PROGRAM, size)


def test_transfer_outside_the_window_is_refused():
    window, size = copy_program(source=WINDOW_BYTES - 100)
    with pytest.raises(DeviceError, match=rf"^MEMORY_RANGE in LOAD at program counter {LOAD_PC} \(LOAD_GO "):
        CocotbBench(CONFIG).run(window, PROGRAM, size)


def test_unknown_stalls():
    with pytest.raises(InputError, match="^stalls must be one of random, none, not 'some'$"):
        CocotbBench(CONFIG, stalls="some")


def test_window_must_be_bytes():
    with pytest.raises(DeviceError, match="^external memory must be a writable one-dimensional uint8 array$"):
        CocotbBench(CONFIG).run(np.zeros(64, np.int8), 0, 16)


@pytest.mark.parametrize("missing", ["cocotb", "cocotbext.axi"])
def test_without_cocotb_the_way_out_is_named(monkeypatch, missing):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    with pytest.raises(UnsupportedError) as caught:
        CocotbBench(CONFIG).run(np.zeros(64, np.uint8), 0, 16)
    assert (
        str(caught.value)
        == f"the target cocotb needs the Python package {missing}: {install_command('cocotb')}"
    )


def test_verilog_has_no_process_that_simulators_never_run():
    """`always @*` around a constant has nothing to wait for: simulators leave the signal undefined."""
    lines = cached_verilog(CONFIG).read_text().splitlines()
    starts = [index for index, line in enumerate(lines) if line.strip() == "always @*"]
    wrong = [
        lines[i + 1] for i in starts if lines[i + 1].rstrip(";").rsplit("=", 1)[-1].strip()[:1].isdigit()
    ]
    assert wrong == []


def test_a_time_limit_ends_the_run_in_words():
    window = np.zeros(WINDOW_BYTES, np.uint8)
    assembler = Assembler(CONFIG)
    assembler.emit(Opcode.BRANCH, target=assembler.offset, condition=Condition.ALWAYS)
    size = assembler.place(window, PROGRAM)
    with pytest.raises(
        DeviceError,
        match=r"^the program did not end in 3000 cycles; UNITS is 0x000000, SEQUENCER at 16 \(BRANCH ",
    ):
        CocotbBench(CONFIG).run(window, PROGRAM, size, max_cycles=3000)
