"""The firmware in a native build against the emulator: random programs and networks."""

import dataclasses
import pathlib

import numpy as np
import pytest
from native_runs import run_both
from rest_nightly import first_of

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.hw.config import CONFIGS, Config
from tosaic.sim.golden import evaluate
from tosaic.sim.stimulus import KINDS, random_program

NANO = CONFIGS["nano"]
OTHERS = [
    dataclasses.replace(CONFIGS[name], cabac_engines=0, unpackers=0, partial_sums=0)
    for name in ("small", "base")
]
DIGITS = pathlib.Path(__file__).parents[3] / "examples" / "digits"


@pytest.mark.parametrize("config", first_of([NANO, *OTHERS], 2), ids=lambda config: config.name)
@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind: str, config: Config) -> None:
    for seed in range(12):
        stimulus = random_program(config, kind, seed)
        run_both(config, stimulus.memory, stimulus.program_address, stimulus.program_bytes)


@pytest.mark.parametrize("keep_layers", [False, True])
@pytest.mark.parametrize("name", ["digits_tiny", "digits"])
def test_digits(name: str, keep_layers: bool) -> None:
    graph = read_tosa(DIGITS / f"{name}.tosa")
    program = compile_graph(graph, NANO, keep_layers=keep_layers)
    with np.load(DIGITS / "images.npz") as archive:
        image = archive["inputs"][:1]
    memory = program.memory()
    program.inputs[0].write(memory, image)
    result = run_both(NANO, memory, program.program_address, program.program_bytes)
    assert result.layers
    np.testing.assert_array_equal(
        program.outputs[0].read(memory), evaluate(graph, {"image": image})["scores"]
    )
