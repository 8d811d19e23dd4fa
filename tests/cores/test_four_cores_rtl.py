"""Four cores in RTL, whose IDs on the shared port are a bit wider: the emulator's bytes and nearly its cycles."""

import pathlib

import numpy as np
import pytest
from two_cores import copy, machine, run, window

import tosaic
import tosaic.examples
from tosaic.hw.isa import Opcode
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator
from tosaic.sim.rtl import RtlSimulator

CONFIG = machine(4, 4)
CYCLES_SHARE = 0.03
"""How far the cycle model may be off."""
DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits" / "digits.tosa"

pytestmark = pytest.mark.xdist_group(CONFIG.name)


def relay(rounds: int, size: int) -> list[Assembler]:
    """Each core copies what the one before it has copied, and hands it on; core 0 begins the next round."""
    assemblers = []
    for core in range(CONFIG.cores):
        assembler, following = Assembler(CONFIG), (core + 1) % CONFIG.cores
        for turn in range(rounds):
            if turn or core:
                assembler.emit(Opcode.LOAD_WAIT, semaphore=5, count=1)
            copy(assembler, 0x800 * core, 0x800 * (core + 1), size)
            assembler.emit(Opcode.STORE_SIGNAL, semaphore=5, count=1, cores=1 << following)
        assemblers.append(assembler)
    return assemblers


def side_by_side(rows: list[tuple[int, int]]) -> list[Assembler]:
    """All cores copy at once; (bytes, rows) come from the list in turn."""
    assemblers = [Assembler(CONFIG) for _ in range(CONFIG.cores)]
    for core, assembler in enumerate(assemblers):
        for number in range(5):
            size, count = rows[(core + number) % len(rows)]
            source, target = 0x400 * core + 24 * number, 0x2000 + 0x1000 * core
            copy(assembler, source, target, size, 4096 * number, count)
    return assemblers


PROGRAMS = {
    "relay": lambda: relay(3, 200),
    "long": lambda: side_by_side([(2000, 1)]),
    "mixed": lambda: side_by_side([(2048, 1), (16, 60), (133, 5), (40, 20)]),
}


@pytest.mark.parametrize("bandwidth", (None, 4))
@pytest.mark.parametrize("programs", PROGRAMS.values(), ids=PROGRAMS)
def test_bytes_and_cycles_of_the_emulator(programs, bandwidth):
    memories = window(), window()
    predicted, measured = (
        run(target, memory, programs(), bandwidth_bytes=bandwidth)
        for target, memory in zip((Emulator(CONFIG), RtlSimulator(CONFIG)), memories, strict=True)
    )
    np.testing.assert_array_equal(*memories)
    assert predicted.cycles == pytest.approx(measured.cycles, rel=CYCLES_SHARE)
    for name in ("load_beats", "store_beats"):
        assert [core[name] for core in predicted.cores] == [core[name] for core in measured.cores]


@pytest.mark.parametrize("seed", range(4))
def test_a_bus_that_hesitates(seed):
    """Random stalls on all channels, and read data of all cores and IDs mixed."""
    memories = window(seed), window(seed)
    hesitating = RtlSimulator(CONFIG, stall_percent=40, seed=seed + 1, interleave_reads=True)
    for target, memory in zip((Emulator(CONFIG), hesitating), memories, strict=True):
        for programs in PROGRAMS.values():
            run(target, memory, programs())
    np.testing.assert_array_equal(*memories)


def test_a_network_on_all_cores():
    image = np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)
    found = {}
    for target in ("sim", "emulator"):
        session = tosaic.Session(DIGITS, target, CONFIG)
        session.run({"image": image}, check=True)
        assert len(session.program.others) == CONFIG.cores - 1 and session.stats["bit_exact"]
        found[target] = session.stats["cycles"]
    assert found["emulator"] == pytest.approx(found["sim"], rel=CYCLES_SHARE)
