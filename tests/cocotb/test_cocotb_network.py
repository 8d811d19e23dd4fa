"""A whole network through the bench, with every channel stalling at random: bit-exact against golden."""

import pathlib

import numpy as np
import pytest
from copy_program import CONFIG
from rest_nightly import first_of

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.sim.bench import CocotbBench
from tosaic.sim.golden import evaluate

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits"
MODEL = DIGITS / "digits_tiny.tosa"
pytestmark = pytest.mark.xdist_group("cocotb")


def image(index: int) -> np.ndarray:
    with np.load(DIGITS / "images.npz") as archive:
        name = next(name for name in archive.files if archive[name].ndim >= 3)
        return archive[name][index].reshape(1, 8, 8, 1).astype(np.int8)


@pytest.mark.parametrize("seed", first_of([1, 2], 1))
def test_digits_are_bit_exact_under_random_stalls(seed):
    graph = read_tosa(MODEL)
    program = compile_graph(graph, CONFIG, keep_layers=True)
    window = program.memory()
    inputs = {"image": image(seed)}
    for port in program.inputs:
        port.write(window, inputs[port.name])
    before = window.copy()
    bench = CocotbBench(program.config, seed=seed)
    result = bench.run(window, program.program_address, program.program_bytes)
    golden = evaluate(graph, inputs, keep=True)
    ports = program.outputs + program.kept
    assert ports
    for port in ports:
        np.testing.assert_array_equal(port.read(window), golden[port.name], err_msg=port.name)
        before[port.address : port.address + port.bytes] = window[port.address : port.address + port.bytes]
    np.testing.assert_array_equal(window[: len(program.image)], before[: len(program.image)])
    assert [layer for layer, _ in result.marks] == list(range(len(program.layers)))
    assert sorted(cycle for _, cycle in result.marks) == [cycle for _, cycle in result.marks]


def test_session_runs_on_the_bench():
    session = tosaic.Session(MODEL, target="cocotb", config=CONFIG.name)
    session.run({"image": image(0)}, check=True)
    assert session.stats["bit_exact"] is True
    assert session.stats["cycles"] > 0
