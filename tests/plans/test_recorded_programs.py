"""The emulator's cycles, counters and times of random programs on many machines and memories, and what it says of
races: all known, from tests/recorded_runs.json. Other tests compare the same kinds of programs with the RTL."""

import random

import numpy as np
import pytest

from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import INSTRUCTION_BYTES, Opcode, decode, encode, make
from tosaic.sim.emulator import Emulator
from tosaic.sim.stimulus import KINDS, Stimulus, random_program

MACHINES = (
    "nano",
    "small",
    "small,rows=4",
    "base",
    "nano,am_banks=1",
    "small,queue_commands=4",
    "base,rows=8",
)
SPEEDS = ((None, 50), (None, 0), (4, 10), (1.5, 50), (0.7, 130), (8, 400), (3, 1))
"""Bytes per cycle and cycles of latency."""
WAITS = {Opcode.LOAD_WAIT, Opcode.ARRAY_WAIT, Opcode.VECTOR_WAIT, Opcode.STORE_WAIT}
COMPRESSED = {
    "decode": ("small,cabac_engines=1", "base,cabac_engines=4"),
    "packed": ("small,weight_banks=2",),
}
"""Machines that read the compressed weights of some kinds."""
TESTS, RACY_TESTS = 10, 6
"""Of each kind."""
PROGRAMS = 4
"""Of a test."""


def program_of(kind: str, number: int) -> tuple[Stimulus, Config]:
    machines = COMPRESSED.get(kind, MACHINES)
    config = get_config(machines[number % len(machines)])
    return random_program(config, kind, 700 + number), config


@pytest.mark.parametrize(
    "kind, number", [(kind, number) for kind in (*KINDS, *COMPRESSED) for number in range(TESTS)]
)
def test_programs(kind: str, number: int) -> None:
    for each in range(PROGRAMS):
        stimulus, config = program_of(kind, PROGRAMS * number + each)
        bandwidth, latency = SPEEDS[(PROGRAMS * number + each) % len(SPEEDS)]
        result = Emulator(config).run(
            stimulus.memory,
            stimulus.program_address,
            stimulus.program_bytes,
            bandwidth_bytes=bandwidth,
            latency_cycles=latency,
        )
        assert result.cycles > stimulus.program_bytes // INSTRUCTION_BYTES


@pytest.mark.parametrize("kind, number", [(kind, number) for kind in KINDS for number in range(RACY_TESTS)])
def test_programs_without_one_of_their_waits(kind: str, number: int) -> None:
    """An instruction that does nothing stands for a wait; most of these race, and the first race is named."""
    stimulus, config = program_of(kind, number)
    first, size = stimulus.program_address, stimulus.program_bytes
    code = stimulus.memory[first : first + size].reshape(-1, INSTRUCTION_BYTES)
    waits = [place for place, word in enumerate(code) if decode(word.tobytes()).opcode in WAITS]
    careful, nothing = Emulator(config, check_hazards=True), np.frombuffer(encode(make(Opcode.NOP)), np.uint8)
    careful.run(stimulus.memory.copy(), first, size)
    for place in random.Random(number).sample(waits, min(PROGRAMS, len(waits))):
        memory = stimulus.memory.copy()
        memory[first + place * INSTRUCTION_BYTES :][:INSTRUCTION_BYTES] = nothing
        try:
            careful.run(memory, first, size)
        except DeviceError as race:
            assert str(race).startswith("PROGRAM at program counter ")
