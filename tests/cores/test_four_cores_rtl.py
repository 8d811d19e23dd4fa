"""Two cores in RTL, and for the nightly run four, whose IDs on the shared port are a bit wider: the emulator's bytes
and nearly its cycles."""

import pathlib

import numpy as np
import pytest
from two_cores import copy, machine, run, window

import tosaic
import tosaic.examples
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator
from tosaic.sim.rtl import RtlSimulator


def on_machine(cores: int):
    """A parameter: the machine with this number of cores, and as many words in a beat of their port."""
    config = machine(cores, cores)
    marks = [pytest.mark.xdist_group(config.name), *([pytest.mark.nightly] if cores > 2 else [])]
    return pytest.param(config, id=f"{cores} cores", marks=marks)


CYCLES_SHARE = 0.03
"""How far the cycle model may be off."""
DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits" / "digits.tosa"

ON_MACHINES = pytest.mark.parametrize("config", [on_machine(2), on_machine(4)])


def relay(config: Config, rounds: int, size: int) -> list[Assembler]:
    """Each core copies what the one before it has copied, and hands it on; core 0 begins the next round."""
    assemblers = []
    for core in range(config.cores):
        assembler, following = Assembler(config), (core + 1) % config.cores
        for turn in range(rounds):
            if turn or core:
                assembler.emit(Opcode.LOAD_WAIT, semaphore=5, count=1)
            copy(assembler, 0x800 * core, 0x800 * (core + 1), size)
            assembler.emit(Opcode.STORE_SIGNAL, semaphore=5, count=1, cores=1 << following)
        assemblers.append(assembler)
    return assemblers


def side_by_side(config: Config, rows: list[tuple[int, int]]) -> list[Assembler]:
    """All cores copy at once; (bytes, rows) come from the list in turn."""
    assemblers = [Assembler(config) for _ in range(config.cores)]
    for core, assembler in enumerate(assemblers):
        for number in range(5):
            size, count = rows[(core + number) % len(rows)]
            source, target = 0x400 * core + 24 * number, 0x2000 + 0x1000 * core
            copy(assembler, source, target, size, 4096 * number, count)
    return assemblers


PROGRAMS = {
    "relay": lambda config: relay(config, 3, 200),
    "long": lambda config: side_by_side(config, [(2000, 1)]),
    "mixed": lambda config: side_by_side(config, [(2048, 1), (16, 60), (133, 5), (40, 20)]),
}


@ON_MACHINES
@pytest.mark.parametrize("bandwidth", (None, 4))
@pytest.mark.parametrize("programs", PROGRAMS.values(), ids=PROGRAMS)
def test_bytes_and_cycles_of_the_emulator(config, programs, bandwidth):
    memories = window(), window()
    predicted, measured = (
        run(target, memory, programs(config), bandwidth_bytes=bandwidth)
        for target, memory in zip((Emulator(config), RtlSimulator(config)), memories, strict=True)
    )
    np.testing.assert_array_equal(*memories)
    assert predicted.cycles == pytest.approx(measured.cycles, rel=CYCLES_SHARE)
    for name in ("load_beats", "store_beats"):
        assert [core[name] for core in predicted.cores] == [core[name] for core in measured.cores]


@ON_MACHINES
@pytest.mark.parametrize("seed", range(4))
def test_a_bus_that_hesitates(config, seed):
    """Random stalls on all channels, and read data of all cores and IDs mixed."""
    memories = window(seed), window(seed)
    hesitating = RtlSimulator(config, stall_percent=40, seed=seed + 1, interleave_reads=True)
    for target, memory in zip((Emulator(config), hesitating), memories, strict=True):
        for programs in PROGRAMS.values():
            run(target, memory, programs(config))
    np.testing.assert_array_equal(*memories)


@ON_MACHINES
def test_a_network_on_all_cores(config):
    image = np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)
    found = {}
    for target in ("sim", "emulator"):
        session = tosaic.Session(DIGITS, target, config)
        session.run({"image": image}, check=True)
        assert len(session.program.others) == config.cores - 1 and session.stats["bit_exact"]
        found[target] = session.stats["cycles"]
    assert found["emulator"] == pytest.approx(found["sim"], rel=CYCLES_SHARE)
