"""Compiled networks on the emulator: no unit touches a byte that another one may still be using."""

import pathlib

import numpy as np
import pytest
from shared_files import SHARED, found

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.hw.config import CONFIGS
from tosaic.sim.emulator import Emulator

ROOT = pathlib.Path(__file__).parents[2]
LARGEST_BYTES = 1 << 20
"""Networks above it are tested on one configuration."""
FOR_EVERY_CHANGE_BYTES = 1 << 17
"""Larger ones are of the same layers."""


def cases(pattern, folder):
    """A parameter for each network and configuration."""
    return [
        pytest.param(
            path,
            config,
            id=f"{path.parent.name}-{path.stem}-{config.name}",
            marks=[] if path.stat().st_size <= FOR_EVERY_CHANGE_BYTES else pytest.mark.nightly,
        )
        for path in sorted(folder.glob(pattern))
        for config in CONFIGS.values()
        if path.stat().st_size <= LARGEST_BYTES or config.name == "base"
    ]


CASES = cases("examples/*/*.tosa", ROOT) + found(cases("models/*/model.tosa", SHARED), arguments=2)


@pytest.mark.parametrize(("path", "config"), CASES)
def test_no_races(path, config):
    program = compile_graph(read_tosa(path), config)
    memory = np.zeros(program.memory_bytes, np.uint8)
    memory[: len(program.image)] = np.frombuffer(program.image, np.uint8)
    result = Emulator(config, check_hazards=True).run(memory, program.program_address, program.program_bytes)
    assert result.cycles * config.macs_per_cycle >= program.macs
