"""Compressed weights from the model file to the machine: the same results on every target, and damage has a name."""

from pathlib import Path

import numpy as np
import pytest
from damaged_streams import damaged_memories

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.compiler.program import Program
from tosaic.driver.session import Session
from tosaic.driver.targets import make_runner, naming_weights
from tosaic.errors import DeviceError, InputError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode
from tosaic.sim.program import decode_program

pytestmark = pytest.mark.filterwarnings("ignore:each run decodes weights:UserWarning")
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tosa"


def inputs(session):
    generator = np.random.default_rng(4)
    return {arg.name: generator.integers(-128, 128, arg.shape).astype(arg.numpy) for arg in session.inputs}


@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.xdist_group("base"))])
def test_the_digits_network_from_compressed_weights(target):
    plain, session = Session(DIGITS, target, "base"), Session(DIGITS, target, "base", compress="nnr-stream")
    values = inputs(plain)
    wanted, found = plain.run(values), session.run(values, check=True)
    assert session.stats["bit_exact"]
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)
    weights, before = session.stats["weights"], plain.stats["weights"]
    assert weights["compressed_tensors"] >= 1 and before["compressed_tensors"] == 0
    assert weights["stored_bytes"] < weights["bytes"] == before["stored_bytes"]
    assert weights["load_bytes"] < before["load_bytes"]
    assert before["decode_cycles"] == before["hidden_decode_cycles"] == 0
    assert 0 <= weights["hidden_decode_cycles"] <= weights["decode_cycles"] <= session.stats["cycles"]


@pytest.mark.xdist_group("base")
def test_emulator_predicts_the_cycles():
    results = {}
    for target in ("emulator", "sim"):
        session = Session(DIGITS, target, "base", compress="nnr-stream")
        session.run(inputs(session))
        results[target] = session.stats
    emulated, real = results["emulator"], results["sim"]
    assert abs(emulated["cycles"] - real["cycles"]) <= 0.03 * real["cycles"]
    assert abs(emulated["weights"]["decode_cycles"] - real["weights"]["decode_cycles"]) <= 8


@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.xdist_group("base"))])
def test_a_damaged_stream_names_its_tensor(target):
    program = compile_graph(read_tosa(DIGITS), get_config("base"), compress="nnr-stream")
    run = naming_weights(program, make_runner(target, program))
    refused = 0
    for memory, name in damaged_memories(program, program.program_address, program.program_bytes):
        with pytest.raises(DeviceError) as caught:
            run(memory)
        refused += 1
        assert str(caught.value).startswith("DECODE")
        assert str(caught.value).endswith(f"the compressed weights {name!r} are damaged")
    assert refused


@pytest.mark.xdist_group("base")
@pytest.mark.nightly
def test_any_byte_of_a_stream_may_be_wrong():
    """Neither hang nor crash: an error of the decoder, or other weights, which a check byte would not notice either."""
    program = compile_graph(read_tosa(DIGITS), get_config("base"), compress="nnr-stream")
    run = make_runner("sim", program)
    code = decode_program(program.image[program.program_address :][: program.program_bytes])
    blocks = [go for go in code if go.opcode == Opcode.LOAD_DECODE]
    generator, errors = np.random.default_rng(6), 0
    for _ in range(12):
        memory, go = program.memory(), blocks[generator.integers(len(blocks))]
        place = go.memory_address + generator.integers(go.row_bytes - program.config.word_bytes)
        memory[place] ^= generator.integers(1, 256)
        try:
            run(memory)
        except DeviceError as error:
            errors += 1
            assert str(error).startswith("DECODE in LOAD")
    assert errors >= 6


def test_a_compiled_program_is_not_compressed_again(tmp_path):
    path = tmp_path / "digits.tsc"
    compile_graph(read_tosa(DIGITS), get_config("base"), compress="nnr-stream").save(path)
    assert any(weights.coded for weights in Program.load(path).weights)
    with pytest.raises(InputError, match="^a compiled program cannot be compressed"):
        Session(path, "emulator", compress="nnr-stream")
    session = Session(path, "emulator")
    assert session.run(inputs(session))
