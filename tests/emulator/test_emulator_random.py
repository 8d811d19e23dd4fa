"""The emulator against the scalar machine: every byte of external memory after random programs."""

import pytest
from scalar_machine import ScalarMachine

from tosaic.hw.config import CONFIGS
from tosaic.sim.emulator import Emulator
from tosaic.sim.stimulus import KINDS, random_program

SEEDS = {
    "transfers": 12,
    "convolution": 8,
    "streamed": 16,
    "depthwise": 8,
    "vector": 60,
    "indexed": 30,
    "loops": 12,
}


@pytest.mark.parametrize(
    ("kind", "seed"), [(kind, seed) for kind, seeds in SEEDS.items() for seed in range(seeds)]
)
def test_random_programs_leave_the_same_memory_as_scalar_loops(kind, seed):
    config = CONFIGS["nano" if seed % 2 else "small"]
    stimulus = random_program(config, kind, seed)
    expected = bytearray(stimulus.memory.tobytes())
    before = bytes(expected)
    ScalarMachine(config, expected).run(stimulus.program_address)
    result = Emulator(config).run(stimulus.memory, stimulus.program_address, stimulus.program_bytes)
    assert stimulus.memory.tobytes() == bytes(expected)
    assert bytes(expected) != before
    assert result.cycles > 0


def test_every_kind_of_program_is_tested():
    assert SEEDS.keys() == KINDS.keys()
