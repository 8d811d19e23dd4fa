"""Compressed weights on the cocotb bench: every channel stalls at random, two decoders side by side."""

import dataclasses
import pathlib

import numpy as np
import pytest

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.compiler.ir.errors import DeviceError
from tosaic.hw.config import get_config
from tosaic.hw.isa import Opcode
from tosaic.sim.bench import run_in_cocotb
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate
from tosaic.sim.program import decode_program
from tosaic.sim.stimulus import random_program

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits"
CONFIG = dataclasses.replace(get_config("nano"), cabac_engines=2)


def decodes(stimulus):
    code = stimulus.memory[stimulus.program_address :][: stimulus.program_bytes].tobytes()
    return [command for command in decode_program(code) if command.opcode == Opcode.LOAD_DECODE]


@pytest.mark.parametrize("seed", [11, 12])
def test_decoded_weights_are_those_of_the_emulator(seed):
    stimulus = random_program(CONFIG, "decode", seed)
    assert decodes(stimulus)
    expected = stimulus.memory.copy()
    place = (stimulus.program_address, stimulus.program_bytes)
    predicted = Emulator(CONFIG).run(expected, *place)
    measured = run_in_cocotb(CONFIG, stimulus.memory, *place, seed=seed)
    np.testing.assert_array_equal(stimulus.memory, expected)
    decoding = predicted.counters["decode_active"]
    assert abs(measured.counters["decode_active"] - decoding) <= 0.01 * decoding
    assert measured.macs == predicted.macs


def test_damage_ends_in_an_error_and_no_hang():
    stimulus = random_program(CONFIG, "decode", 11)
    go = decodes(stimulus)[-1]
    stimulus.memory[go.memory_address : go.memory_address + go.row_bytes] = 0xFF
    with pytest.raises(
        DeviceError, match=r"^DECODE in LOAD at program counter \d+ .* in stream \d at bit \d+$"
    ):
        run_in_cocotb(CONFIG, stimulus.memory, stimulus.program_address, stimulus.program_bytes, seed=3)


def test_a_network_from_compressed_weights_under_random_stalls():
    graph = read_tosa(DIGITS / "digits_tiny.tosa")
    program = compile_graph(graph, CONFIG, compress="nnr")
    assert any(weights.coded for weights in program.weights)
    window = program.memory()
    inputs = {"image": np.random.default_rng(2).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)}
    for port in program.inputs:
        port.write(window, inputs[port.name])
    run_in_cocotb(CONFIG, window, program.program_address, program.program_bytes, seed=5)
    golden = evaluate(graph, inputs)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(window), golden[port.name])
