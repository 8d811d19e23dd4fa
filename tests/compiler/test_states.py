"""What a graph remembers from run to run: one place in external memory, read before it is written."""

import numpy as np
import pytest
from control_graphs import Control, finished
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, State, read_tosa, write_tosa
from tosaic.compiler.program import Program
from tosaic.driver.session import Session
from tosaic.driver.verification import verify_program
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate

RUNS = 4


def remembering(build, states):
    """The graph of a builder with states: (input, tensor that it is next, value that it begins as)."""
    graph = build.graph
    for name, following, initial in states:
        graph.outputs.append(following)
        graph.states[name] = State(following, initial)
    return build.finish()


def check(graph, feeds, config="base", **options):
    """Runs one after the other in one memory, as a machine does that nobody resets, against golden."""
    program = Program.load(compile_graph(graph, get_config(config), **options).to_bytes())
    memory = program.memory()
    verify_program(program)
    states = {port.name: port.initial(program.image) for port in program.states}
    for port in program.states:
        port.write(memory, states[port.name])
    for values in feeds:
        for port in program.inputs:
            port.write(memory, values[port.name])
        Emulator(program.config, check_hazards=True).run(
            memory, program.program_address, program.program_bytes
        )
        wanted = evaluate(graph, {**values, **states})
        states = {name: wanted[state.output] for name, state in graph.states.items()}
        assert [port.name for port in program.outputs] == graph.run_outputs
        for port in program.outputs:
            np.testing.assert_array_equal(port.read(memory), wanted[port.name], err_msg=port.name)
        for port in program.states:
            np.testing.assert_array_equal(port.read(memory), states[port.name], err_msg=port.name)
    return program


def ring(channels=5, length=4):
    """The last vectors, and their largest elements."""
    build = LayerBuilder(1)
    x = build.input("x", (1, channels), DType.INT8)
    past = build.input("ring", (length, channels), DType.INT8)
    rest = build.add("SLICE", [past, build.shape([1, 0]), build.shape([length - 1, channels])])
    now = build.add("CONCAT", [rest, x], axis=0)
    build.output(build.add("REDUCE_MAX", [now], axis=0, nan_mode="PROPAGATE"))
    return remembering(build, [("ring", now, np.full((length, channels), -7, np.int8))])


def vectors(shape=(1, 5), seed=0):
    random = np.random.default_rng(seed)
    return [{"x": random.integers(-128, 128, shape).astype(np.int8)} for _ in range(RUNS)]


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize("options", [{}, {"optimize": False}, {"keep_layers": True}])
def test_a_ring(config, options):
    check(ring(), vectors(), config, **options)


def test_a_cache_of_keys_larger_than_the_memory():
    """Rows are put in by SCATTER; the cache streams through the activation memory."""
    build = LayerBuilder(3)
    rows, width = 3000, 32
    cache = build.input("cache", (1, rows, width), DType.INT8)
    at, key = build.input("at", (1, 1), DType.INT32), build.input("key", (1, 1, width), DType.INT8)
    query = build.input("query", (1, width, 1), DType.INT8)
    now = build.add("SCATTER", [cache, at, key])
    zero = build.zero_point(DType.INT8)
    build.output(build.add("MATMUL", [now, query, zero, zero]))
    graph = remembering(build, [("cache", now, np.zeros((1, rows, width), np.int8))])
    random = np.random.default_rng(2)
    feeds = [
        {
            "at": np.array([[place]], np.int32),
            "key": random.integers(-128, 128, (1, 1, width)).astype(np.int8),
            "query": random.integers(-128, 128, (1, width, 1)).astype(np.int8),
        }
        for place in (0, 2999, 1)
    ]
    program = check(graph, feeds, "small")
    assert program.states[0].initial_address is None


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_states(data):
    """States that swap, stay, are copied, shown, combined or constants."""
    build = LayerBuilder(0)
    shape, count = (3, 7), data.draw(st.integers(1, 4))
    states = [build.input(f"s{number}", shape, DType.INT8) for number in range(count)]
    made = [*states, build.input("x", shape, DType.INT8), build.random_constant(shape, DType.INT8, -9, 9)]
    for _ in range(data.draw(st.integers(0, 5))):
        op = data.draw(st.sampled_from(["BITWISE_XOR", "BITWISE_AND", "REVERSE", "IDENTITY"]))
        a, b = (data.draw(st.sampled_from(made)) for _ in range(2))
        match op:
            case "REVERSE":
                made.append(build.add(op, [a], axis=data.draw(st.integers(0, 1))))
            case "IDENTITY":
                made.append(build.add(op, [a]))
            case _:
                made.append(build.add(op, [a, b]))
    graph = build.graph
    for name in dict.fromkeys(data.draw(st.sampled_from(made)) for _ in range(2)):
        build.output(build.add("IDENTITY", [name]))
    following = [build.add("IDENTITY", [data.draw(st.sampled_from(made))]) for _ in states]
    begun = [np.full(shape, number, np.int8) for number in range(count)]
    graph = remembering(build, zip(states, following, begun, strict=True))
    how = data.draw(st.sampled_from([{}, {"optimize": False}, {"keep_layers": True}]))
    check(graph, vectors(shape), data.draw(st.sampled_from(["nano", "base"])), **how)


def test_a_loop_that_leaves_its_state():
    build = Control()
    turns, x = build.input("turns", (), DType.INT32), build.input("x", (2, 3), DType.INT32)
    total = build.input("total", (2, 3), DType.INT32)
    results = build.counted(turns, [total, x], lambda graph, names: [graph.add("ADD", names), names[1]])
    graph = finished(build, results)
    graph.states["total"] = State(graph.outputs[0], np.ones((2, 3), np.int32))
    feeds = [
        {"turns": np.array(n, np.int32), "x": np.arange(6, dtype=np.int32).reshape(2, 3)} for n in (2, 0, 3)
    ]
    check(graph, feeds)


@pytest.mark.xdist_group("base")
def test_rtl():
    session = Session(ring(), "sim", "base")
    for values in vectors():
        session.run(values, check=True)


def test_files():
    """A file has variables for the states, and gives the same graph however often it is written."""
    data = write_tosa(ring())
    session, written = Session(ring(), "golden"), Session(read_tosa(data), "emulator", "nano")
    for values in vectors():
        wanted = session.run(values)
        np.testing.assert_array_equal(*(list(each.values())[0] for each in (wanted, written.run(values))))
        np.testing.assert_array_equal(written.state["ring"], session.state["ring"])
    again = read_tosa(write_tosa(read_tosa(data)))
    assert (again.inputs, list(again.states)) == (["x", "ring"], ["ring"])
    assert again.outputs == read_tosa(data).outputs
