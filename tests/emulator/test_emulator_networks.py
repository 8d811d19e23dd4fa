"""Compiled networks on the emulator: no unit touches a byte that another one may still be using."""

import pathlib

import numpy as np
import pytest
from shared_files import SHARED

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.hw.config import CONFIGS
from tosaic.sim.emulator import Emulator

ROOT = pathlib.Path(__file__).parents[2]
LARGEST_BYTES = 1 << 20
"""Networks above it are tested on one configuration."""
FOR_EVERY_CHANGE_BYTES = 1 << 17
"""Larger ones are of the same layers."""
MODELS = sorted(ROOT.glob("examples/*/*.tosa")) + sorted(SHARED.glob("models/*/model.tosa"))
CASES = [
    pytest.param(
        path,
        config,
        id=f"{path.parent.name}-{path.stem}-{config.name}",
        marks=[] if path.stat().st_size <= FOR_EVERY_CHANGE_BYTES else pytest.mark.nightly,
    )
    for path in MODELS
    for config in CONFIGS.values()
    if path.stat().st_size <= LARGEST_BYTES or config.name == "base"
]


@pytest.mark.parametrize(("path", "config"), CASES)
def test_no_races(path, config):
    program = compile_graph(read_tosa(path), config)
    memory = np.zeros(program.memory_bytes, np.uint8)
    memory[: len(program.image)] = np.frombuffer(program.image, np.uint8)
    result = Emulator(config, check_hazards=True).run(memory, program.program_address, program.program_bytes)
    assert result.cycles * config.macs_per_cycle >= program.macs
