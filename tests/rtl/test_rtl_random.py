"""The RTL against the emulator: every byte of external memory after random programs, on all configurations."""

import functools

import pytest
from rest_nightly import first_of
from rtl_configs import on_rtl

from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.rtl import RtlSimulator
from tosaic.sim.stimulus import KINDS, random_program

CASES = [("nano", kind, seed) for kind in KINDS for seed in range(12)]
CASES += [
    (name, kind, seed) for name in CONFIGS if name != "nano" for kind in KINDS for seed in range(100, 103)
]
# Where there is a decoder, compressed weights.
CASES += [
    (name, "decode", seed) for name in CONFIGS if CONFIGS[name].cabac_engines for seed in range(300, 306)
]
# And where there is an unpacker, packed ones.
CASES += [(name, "packed", seed) for name in CONFIGS if CONFIGS[name].unpackers for seed in range(400, 406)]
MARKED = [on_rtl(*case) for case in CASES]


@functools.cache
def simulator(name, stall_percent=0):
    return RtlSimulator(get_config(name), stall_percent=stall_percent, seed=stall_percent)


def run_both(name, kind, seed, stall_percent=0):
    """Run on emulator and RTL; asserts equal memories and returns both results."""
    config = get_config(name)
    expected, actual = random_program(config, kind, seed), random_program(config, kind, seed)
    emulated = Emulator(config).run(expected.memory, expected.program_address, expected.program_bytes)
    result = simulator(name, stall_percent).run(actual.memory, actual.program_address, actual.program_bytes)
    assert actual.memory.tobytes() == expected.memory.tobytes()
    return emulated, result


@pytest.mark.parametrize(("name", "kind", "seed"), MARKED)
def test_rtl_and_emulator_leave_the_same_memory(name, kind, seed):
    emulated, result = run_both(name, kind, seed)
    # How much of the program is fetched in vain behind a branch depends on the very cycle.
    assert kind == "loops" or result.dram_read_bytes == emulated.dram_read_bytes
    assert result.dram_write_bytes == emulated.dram_write_bytes
    assert abs(emulated.cycles - result.cycles) <= 0.03 * result.cycles
    assert result.macs == emulated.macs
    assert [layer for layer, _ in result.marks] == [layer for layer, _ in emulated.marks]
    for counter in ("load_beats", "store_beats"):
        assert result.counters[counter] == emulated.counters.get(counter, 0)
    decoding = result.counters["decode_active"]
    assert abs(emulated.counters.get("decode_active", 0) - decoding) <= 0.01 * decoding


BANKED = [
    "nano,rows=8,columns=8,weight_banks=2",
    "nano,rows=9,columns=16,weight_banks=4",
    "base,weight_banks=4",
]
"""Several banks of weights need four rows for each, so no machine with them is cheap to build."""


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(500, 512))
@pytest.mark.parametrize("kind", ["convolution", "vector", "streamed", "depthwise"])
@pytest.mark.parametrize("name", BANKED)
def test_several_banks_of_weights_leave_the_same_memory(name, kind, seed):
    emulated, result = run_both(name, kind, seed)
    assert abs(emulated.cycles - result.cycles) <= 0.03 * result.cycles
    assert result.macs == emulated.macs


NARROW_LANES = [f"nano,lane_columns={columns},vector_bits=34,drain_vectors=64" for columns in (2, 4)]
"""What saves LUTs, together."""


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(700, 712))
@pytest.mark.parametrize("kind", ["convolution", "depthwise", "vector", "indexed"])
@pytest.mark.parametrize("name", NARROW_LANES)
def test_few_narrow_lanes_leave_the_same_memory(name, kind, seed):
    emulated, result = run_both(name, kind, seed)
    assert abs(emulated.cycles - result.cycles) <= 0.03 * result.cycles
    assert result.counters["vector_active"] == emulated.counters["vector_active"]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["convolution", "vector"])
@pytest.mark.parametrize("seed", range(600, 604))
def test_several_banks_of_weights_on_a_bus_that_hesitates(kind, seed):
    _, smooth = run_both(BANKED[0], kind, seed)
    _, stalled = run_both(BANKED[0], kind, seed, 60)
    assert stalled.cycles > smooth.cycles


@pytest.mark.parametrize("stall_percent", [10, 60])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", first_of(range(200, 204), 2))
def test_a_bus_that_hesitates_changes_nothing_but_the_time(kind, seed, stall_percent):
    _, smooth = run_both("nano", kind, seed)
    _, stalled = run_both("nano", kind, seed, stall_percent)
    assert stalled.cycles > smooth.cycles
    assert stalled.dram_write_bytes == smooth.dram_write_bytes


@pytest.mark.parametrize("kind", KINDS)
def test_read_data_of_two_ids_may_come_mixed(kind):
    """The program's own words and LOAD's have different IDs: AXI4 lets their beats come in any order."""
    config, cycles = CONFIGS["nano"], {False: [], True: []}
    for seed in range(500, 503):
        for interleave, taken in cycles.items():
            expected, actual = random_program(config, kind, seed), random_program(config, kind, seed)
            Emulator(config).run(expected.memory, expected.program_address, expected.program_bytes)
            mixed = RtlSimulator(config, stall_percent=20, seed=seed, interleave_reads=interleave)
            result = mixed.run(actual.memory, actual.program_address, actual.program_bytes)
            assert actual.memory.tobytes() == expected.memory.tobytes()
            taken.append(result.cycles)
    # A program may take the same time either way, but not all of them.
    assert cycles[False] != cycles[True], "the order was another one"


@pytest.mark.parametrize("seed", range(400, 404))
@pytest.mark.parametrize("name", [on_rtl("small"), on_rtl("base")])
def test_compressed_weights_on_a_bus_that_hesitates(name, seed):
    _, smooth = run_both(name, "decode", seed)
    _, stalled = run_both(name, "decode", seed, 60)
    assert stalled.cycles > smooth.cycles


def test_cycles_are_reproducible():
    _, first = run_both("nano", "convolution", 3)
    _, second = run_both("nano", "convolution", 3)
    assert first == second
