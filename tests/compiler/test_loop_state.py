"""What goes round a WHILE_LOOP: where it lies, and that a turn reads what the turn before left."""

import numpy as np
from control_graphs import Control, finished, plus
from hypothesis import given, settings
from hypothesis import strategies as st

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate

SHAPE = (3, 7)


def check(graph, values, config="base"):
    program = compile_graph(graph, get_config(config))
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    emulator = Emulator(get_config(config), check_hazards=True)
    emulator.run(memory, program.program_address, program.program_bytes)
    wanted = evaluate(graph, values)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), wanted[port.name])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_body_reads_the_state_of_the_turn_before(data):
    """Bodies that swap, repeat, drop and combine the state: a result lies on no argument that is read later."""
    size = data.draw(st.integers(1, 4))
    build = Control()
    turns = build.input("turns", (), DType.INT32)
    state = [build.input(f"x{number}", SHAPE, DType.INT32) for number in range(size)]

    def body(graph, names):
        made = list(names)
        for _ in range(data.draw(st.integers(0, 4))):
            op = data.draw(st.sampled_from(["ADD", "SUB", "REVERSE", "MAXIMUM"]))
            x, y = (made[data.draw(st.integers(0, len(made) - 1))] for _ in range(2))
            if op == "REVERSE":
                made.append(graph.add("REVERSE", [x], axis=data.draw(st.integers(0, 1))))
            else:
                more = {"nan_mode": "PROPAGATE"} if op == "MAXIMUM" else {}
                made.append(graph.add(op, [x, y], **more))
        return [made[data.draw(st.integers(0, len(made) - 1))] for _ in names]

    graph = finished(build, build.counted(turns, state, body))
    values = {name: np.arange(21, dtype=np.int32).reshape(SHAPE) * 7 + i for i, name in enumerate(state)}
    values["turns"] = np.array(data.draw(st.integers(0, 4)), np.int32)
    check(graph, values, data.draw(st.sampled_from(["base", "nano"])))


def test_a_state_too_large_for_the_memory_stays_outside():
    build = Control()
    turns, x = build.input("turns", (), DType.INT32), build.input("x", (100, 300), DType.INT32)
    graph = finished(build, build.counted(turns, [x], plus(3)))
    values = {"turns": np.array(2, np.int32), "x": np.arange(30_000, dtype=np.int32).reshape(100, 300)}
    check(graph, values, "nano")
    check(graph, values, "base")


def test_a_turn_moves_nothing_that_it_computes_in_place():
    """Neither the count nor the state passes through external memory: only instructions are read."""
    build = Control()
    turns, x = build.input("turns", (), DType.INT32), build.input("x", (64, 64), DType.INT32)
    session = Session(
        compile_graph(finished(build, build.counted(turns, [x], plus(1))), get_config("base")), "emulator"
    )

    def stats(count):
        outputs = session.run({"turns": np.array(count, np.int32), "x": np.zeros((64, 64), np.int32)})
        assert (next(iter(outputs.values())) == count).all()
        return session.stats

    one, two = stats(1), dict(stats(2))
    assert stats(9)["dram_write_bytes"] == two["dram_write_bytes"] == one["dram_write_bytes"]
