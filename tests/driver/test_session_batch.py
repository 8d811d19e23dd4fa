"""`Session(batch=N)`: samples one after the other along the first axis, each what golden makes of it by itself."""

from pathlib import Path

import numpy as np
import pytest

import tosaic
from tosaic.compiler.ir import DType, Graph, GraphBuilder, State, read_tosa
from tosaic.compiler.legalize.batched import batched
from tosaic.errors import InputError, UnsupportedError
from tosaic.sim.golden import evaluate

TINY = Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
IMAGES = np.random.default_rng(1).integers(-128, 128, (5, 1, 8, 8, 1), dtype=np.int8)


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    graph = read_tosa(TINY)
    return np.stack([evaluate(graph, {"image": image})["scores"] for image in IMAGES])


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_a_run_is_a_batch(target: str, scores: np.ndarray) -> None:
    session = tosaic.Session(TINY, target, "nano", batch=5)
    assert session.batch == 5 and session.inputs[0].shape == (5, 8, 8, 1)
    outputs = session.run({"image": IMAGES[:, 0]}, check=True)
    np.testing.assert_array_equal(outputs["scores"], scores[:, 0])
    assert session.stats["batch"] == 5


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_many_samples_in_batches_the_last_of_which_is_not_full(target: str, scores: np.ndarray) -> None:
    session = tosaic.Session(TINY, target, "nano", batch=2)
    told: list[tuple[int, int]] = []
    found = session.run_batch(
        {"image": IMAGES}, check=True, progress=lambda what, done, total: told.append((done, total))
    )
    np.testing.assert_array_equal(found["scores"], scores)
    assert told == [(0, 5), (2, 5), (4, 5), (5, 5)]


def test_layers_inside_a_batch_are_compared_too() -> None:
    session = tosaic.Session(TINY, "emulator", "nano", batch=2, keep_layers=True)
    session.run({"image": IMAGES[:2, 0]}, check=True)
    assert session.kept["conv1"].shape == (2, 4, 4, 8)


def decoder() -> Graph:
    """A state of its own for each sample, a vocabulary that all share, and a row written where the sample says."""
    build = GraphBuilder("decoder")
    token, where = build.input("token", (1, 1), DType.INT32), build.input("where", (1, 1), DType.INT32)
    cache = build.input("cache", (1, 4, 8), DType.INT8)
    random = np.random.default_rng(3)
    table = build.constant(random.integers(-128, 128, (1, 20, 8)), DType.INT8)
    weights = build.constant(random.integers(-128, 128, (1, 8, 20)), DType.INT8)
    row = build.add("GATHER", [table, token])
    kept = build.add("SCATTER", [cache, where, row])
    zeros = [build.constant([0], DType.INT8) for _ in range(2)]
    build.output(build.add("MATMUL", [kept, weights, *zeros]))
    build.graph.outputs.append(kept)
    build.graph.states["cache"] = State(kept, np.arange(32, dtype=np.int8).reshape(1, 4, 8))
    return build.finish()


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_each_sample_remembers_for_itself(target: str) -> None:
    tokens, places = np.array([[3], [7], [19]], np.int32), np.array([[0], [2], [3]], np.int32)
    together = tosaic.Session(decoder(), target, "nano", batch=3)
    alone = [tosaic.Session(decoder(), "golden") for _ in range(3)]
    for _ in range(2):
        (got,) = together.run({"token": tokens, "where": places}, check=True).values()
        for number, session in enumerate(alone):
            own = {"token": tokens[number : number + 1], "where": places[number : number + 1]}
            (wanted,) = session.run(own).values()
            np.testing.assert_array_equal(got[number : number + 1], wanted)
        np.testing.assert_array_equal(
            together.state["cache"], np.concatenate([each.state["cache"] for each in alone])
        )
        tokens, places = tokens[::-1].copy(), (places + 1) % 4
    assert together.graph is not None
    shared = [op for op in together.graph.operators if op.op in ("GATHER", "MATMUL")]
    assert [together.graph.tensors[op.outputs[0]].shape for op in shared] == [(1, 3, 8), (1, 12, 20)]


def test_a_batch_that_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="^a batch has at least 1 sample, not 0$"):
        tosaic.Session(TINY, "golden", batch=0)
    program = tosaic.Session(TINY, "emulator", "nano").program
    assert program is not None
    with pytest.raises(InputError, match="compiled program has the batch that it was compiled for"):
        tosaic.Session(program, "emulator", batch=2)
    build = GraphBuilder()
    image, weight = (
        build.input("image", (1, 4, 4, 2), DType.INT8),
        build.input("weight", (3, 1, 1, 2), DType.INT8),
    )
    operands = [
        image,
        weight,
        build.constant([0], DType.INT32),
        *(build.constant([0], DType.INT8) for _ in "xx"),
    ]
    build.output(
        build.add(
            "CONV2D",
            operands,
            pad=[0] * 4,
            stride=[1, 1],
            dilation=[1, 1],
            acc_type=DType.INT32,
            local_bound=False,
        )
    )
    with pytest.raises(UnsupportedError) as raised:
        batched(build.finish(), 2)
    assert str(raised.value) == (
        "CONV2D_0: its weight ('weight') is another one for each sample of a batch; "
        "run the samples one after the other (without a batch)"
    )


def test_scalars_and_outputs_of_constants_are_refused() -> None:
    build = GraphBuilder()
    build.output(build.add("ABS", [build.input("x", (), DType.INT32)]))
    with pytest.raises(UnsupportedError, match="^input 'x' has rank 0, and no axis for the samples"):
        batched(build.finish(), 2)
    build = GraphBuilder()
    build.output(build.add("ABS", [build.input("x", (2,), DType.INT32)]))
    build.output(build.constant([1], DType.INT32))
    with pytest.raises(UnsupportedError, match="is the same for every sample"):
        batched(build.finish(), 2)
