"""Many samples at once on the emulator: what golden computes for each, also where samples part ways."""

import numpy as np
import pytest
from control_graphs import Control, finished, plus
from layer_graphs import feeds
from runtime_graphs import attention

import tosaic
from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.errors import InputError
from tosaic.hw.config import CONFIGS
from tosaic.sim.emulator import Emulator, ExternalBytes

INT8, INT32 = DType.INT8, DType.INT32


def counting() -> Graph:
    """Returns a graph that adds 3 as many times as `turns` says."""
    build = Control()
    turns, x = build.input("turns", (), INT32), build.input("x", (5,), INT32)
    return finished(build, build.counted(turns, [x], plus(3)))


def table_rows() -> Graph:
    """Rows of a table of the sample's own, by indices of the sample's own."""
    build = GraphBuilder()
    values, indices = build.input("values", (1, 40, 8), INT8), build.input("indices", (1, 6), INT32)
    build.output(build.add("GATHER", [values, indices]))
    return build.finish()


def samples_of(graph: Graph, count: int, **given: np.ndarray) -> dict[str, np.ndarray]:
    each = [feeds(graph, seed) for seed in range(count)]
    return {name: np.stack([values[name] for values in each]) for name in each[0]} | given


@pytest.mark.parametrize("config", ["nano", "base"])
def test_samples_take_ways_of_their_own_through_a_loop(config: str) -> None:
    session = tosaic.Session(counting(), "emulator", config)
    x, turns = np.arange(35, dtype=np.int32).reshape(7, 5), np.array([3, 0, 3, 1, 9, 1, -2], np.int32)
    outputs = session.run_batch({"turns": turns, "x": x}, check=True)
    (result,) = outputs.values()
    np.testing.assert_array_equal(result, x + 3 * np.maximum(turns, 0)[:, None])


def test_addresses_that_come_from_the_data_are_each_sample_s_own() -> None:
    indices = np.random.default_rng(1).integers(0, 40, (9, 1, 6), dtype=np.int32)
    graph = table_rows()
    session = tosaic.Session(graph, "emulator", "small")
    values = samples_of(graph, 9, indices=indices)
    (result,) = session.run_batch(values, check=True).values()
    wanted = [values["values"][n, 0, indices[n, 0]] for n in range(9)]
    np.testing.assert_array_equal(result[:, 0], wanted)


def test_weights_that_come_from_the_data_are_each_sample_s_own() -> None:
    graph = attention()
    session = tosaic.Session(graph, "emulator", "base")
    session.run_batch(samples_of(graph, 5), check=True)


def test_layers_inside_are_checked_as_well() -> None:
    graph = attention()
    session = tosaic.Session(graph, "emulator", "base", keep_layers=True)
    session.run_batch(samples_of(graph, 3), check=True)


def test_other_targets_take_sample_after_sample() -> None:
    graph = table_rows()
    values = samples_of(graph, 3, indices=np.zeros((3, 1, 6), np.int32))
    golden, emulator = (
        tosaic.Session(graph, target, "nano").run_batch(values) for target in ("golden", "emulator")
    )
    for name, wanted in golden.items():
        np.testing.assert_array_equal(emulator[name], wanted)


def test_batches_that_cannot_be() -> None:
    session = tosaic.Session(counting(), "emulator", "nano")
    x = np.zeros((2, 5), np.int32)
    with pytest.raises(InputError, match=r"there are 2 of 'x', 3 of 'turns'"):
        session.run_batch({"x": x, "turns": np.zeros(3, np.int32)})
    with pytest.raises(InputError, match="input 'turns' is missing"):
        session.run_batch({"x": x})
    with pytest.raises(InputError, match=r"there are none"):
        session.run_batch({})
    with pytest.raises(InputError, match=r"input 'x' has shape \[4\]"):
        session.run_batch({"x": np.zeros((2, 4), np.int32), "turns": np.zeros(2, np.int32)})


def test_a_progress_function_hears_of_every_sample() -> None:
    told: list[tuple[int, int]] = []
    session = tosaic.Session(counting(), "golden")
    values = {"x": np.zeros((2, 5), np.int32), "turns": np.zeros(2, np.int32)}
    session.run_batch(values, progress=lambda what, done, total: told.append((done, total)))
    assert told == [(0, 2), (1, 2), (2, 2)]


def test_what_all_samples_share_is_kept_once_until_a_sample_writes_it() -> None:
    common = np.arange(32, dtype=np.uint8)
    memory = ExternalBytes(np.zeros((2, 8), np.uint8), common)
    assert memory.read(4, 8).shape == (1, 8) and memory.read(32, 8).shape == (2, 8)
    memory.write(30, np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint8))
    np.testing.assert_array_equal(memory.read(29, 6), [[29, 1, 2, 3, 4, 0], [29, 5, 6, 7, 8, 0]])
    assert common[30] == 30


def test_a_run_that_takes_the_same_way_has_the_same_cycles() -> None:
    session = tosaic.Session(counting(), "emulator", "nano")
    cycles = []
    for turns in (2, 2, 5, 2):
        session.run({"turns": np.array(turns, np.int32), "x": np.zeros(5, np.int32)})
        cycles.append(session.stats["cycles"])
    assert cycles[0] == cycles[1] == cycles[3] < cycles[2]
    program = session.program
    assert program is not None
    memory = program.memory()
    next(port for port in program.inputs if port.name == "turns").write(memory, np.array(5, np.int32))
    result = Emulator(CONFIGS["nano"]).run(memory, program.program_address, program.program_bytes)
    assert result.cycles == cycles[2]
