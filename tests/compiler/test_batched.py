"""A graph of many samples is each sample's own: every rule, along the first axis and others, and what is refused."""

import random
import re
from collections.abc import Callable

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds
from random_operators import RECIPES, random_operator

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.batched import batched
from tosaic.errors import InputError, UnsupportedError
from tosaic.sim.golden import evaluate

Make = Callable[[LayerBuilder], str]
SAMPLES = 3


def wide(b: LayerBuilder, name: str = "x", shape: tuple[int, ...] = (2, 3, 4)) -> str:
    return b.input(name, shape, DType.INT32)


def line(b: LayerBuilder, shape: tuple[int, ...]) -> str:
    return b.random_constant(shape, DType.INT32, -99, 99)


def added(*shapes: tuple[int, ...], constant: tuple[int, ...] | None = None) -> Make:
    def make(b: LayerBuilder) -> str:
        names = [wide(b, f"x{number}", shape) for number, shape in enumerate(shapes)]
        return b.add("ADD", [*names, *([line(b, constant)] if constant is not None else [])])

    return make


def joined(axis: int, *, constant: bool = False, shape: tuple[int, ...] = (2, 3, 4)) -> Make:
    def make(b: LayerBuilder) -> str:
        other = line(b, shape) if constant else wide(b, "y", shape)
        return b.add("CONCAT", [wide(b, shape=shape), other], axis=axis)

    return make


def product(b_batch: int, *, constant: bool) -> Make:
    def make(b: LayerBuilder) -> str:
        x, shape = b.input("x", (2, 3, 4), DType.INT8), (b_batch, 4, 5)
        y = b.random_constant(shape, DType.INT8, -9, 9) if constant else b.input("y", shape, DType.INT8)
        return b.add("MATMUL", [x, y, b.zero_point(DType.INT8, 2), b.zero_point(DType.INT8, 1)])

    return make


def gathered(*, shared: bool) -> Make:
    def make(b: LayerBuilder) -> str:
        batches = 1 if shared else 2
        values = line(b, (batches, 6, 2))
        narrow = b.add("ABS", [b.input("x", (batches, 5), DType.INT32)])
        indices = b.add("MINIMUM", [narrow, b.constant(np.array([[5]]), DType.INT32)], nan_mode="PROPAGATE")
        return b.add("GATHER", [values, indices])

    return make


def scattered(*of_sample: str) -> Make:
    """Rows put into a table, each of which is an input if it is named, and else a constant."""

    def make(b: LayerBuilder) -> str:
        values = wide(b, "values", (2, 6, 3)) if "values" in of_sample else line(b, (2, 6, 3))
        if "indices" in of_sample:
            number = b.add("ABS", [b.input("indices", (2, 1), DType.INT32)])
            last = b.constant(np.array([[5]]), DType.INT32)
            indices = b.add("MINIMUM", [number, last], nan_mode="PROPAGATE")
        else:
            indices = b.constant(np.array([[4], [1]]), DType.INT32)
        rows = wide(b, "rows", (2, 1, 3)) if "rows" in of_sample else line(b, (2, 1, 3))
        return b.add("SCATTER", [values, indices, rows])

    return make


def moved(op: str, *operands: list[int], **attributes: object) -> Make:
    def make(b: LayerBuilder) -> str:
        extra = [b.zero_point(DType.INT32, 7)] if op == "PAD" else []
        return b.add(op, [wide(b), *map(b.shape, operands), *extra], **attributes)

    return make


MADE: dict[str, Make] = {
    "unary": lambda b: b.add("ABS", [wide(b)]),
    "two samples' own": added((2, 3, 4), (2, 3, 4)),
    "broadcast within a sample": added((2, 3, 4), (1, 3, 4)),
    "a constant row": added((2, 3, 4), constant=(1, 3, 4)),
    "a constant of each first element": added((2, 3, 4), constant=(2, 3, 4)),
    "a constant of more elements": added((1, 3, 4), constant=(2, 3, 4)),
    "scales of a vector": lambda b: b.rescale(wide(b, shape=(6,)), DType.INT8, per_channel=True),
    "scales of channels": lambda b: b.rescale(wide(b), DType.INT8, per_channel=True),
    "first axis reduced": lambda b: b.add("REDUCE_SUM", [wide(b)], axis=0),
    "another axis reduced": lambda b: b.add("REDUCE_SUM", [wide(b)], axis=1),
    "first axis reversed": lambda b: b.add("REVERSE", [wide(b)], axis=0),
    "largest of the first axis": lambda b: b.add(
        "ARGMAX", [b.input("x", (2, 3, 4), DType.INT8)], axis=0, nan_mode="PROPAGATE"
    ),
    "joined": joined(1),
    "joined with a constant": joined(2, constant=True),
    "joined along the first axis": joined(0),
    "joined along the first axis with a constant": joined(0, constant=True),
    "joined along the first of five axes": joined(0, shape=(2, 1, 2, 1, 2)),
    "reshaped": lambda b: b.add("RESHAPE", [wide(b), b.shape((3, 8))]),
    "padded": moved("PAD", [0, 0, 1, 2, 0, 1]),
    "padded behind": moved("PAD", [0, 1, 1, 2, 0, 1]),
    "padded before": moved("PAD", [1, 0, 0, 0, 0, 0]),
    "repeated": moved("TILE", [1, 2, 3]),
    "repeated along the first axis": moved("TILE", [2, 1, 1]),
    "cut": moved("SLICE", [0, 1, 2], [2, 2, 1]),
    "cut along the first axis": moved("SLICE", [1, 1, 2], [1, 2, 2]),
    "turned": moved("TRANSPOSE", perms=[0, 2, 1]),
    "turned with the first axis": moved("TRANSPOSE", perms=[2, 0, 1]),
    "product": product(2, constant=False),
    "product with a constant": product(2, constant=True),
    "gathered": gathered(shared=False),
    "gathered from one table": gathered(shared=True),
    "rows put into one table": scattered("rows"),
    "one row put into tables": scattered("values"),
    "one row put at places": scattered("indices"),
    "rows put into tables": scattered("values", "rows"),
    "rows put into tables at places": scattered("values", "indices", "rows"),
    "convolved": lambda b: b.conv(b.input("x", (2, 5, 4, 3), DType.INT8), 4, (3, 2), pad=(1, 1, 0, 1)),
}


def finished(make: Make) -> Graph:
    build = LayerBuilder(5)
    build.output(make(build))
    return build.finish()


KEPT = ("unary", "another axis reduced", "joined", "padded", "repeated", "cut", "turned", "convolved")


@pytest.mark.parametrize("name", KEPT)
def test_operators_along_other_axes_stay_as_they_are(name: str) -> None:
    graph = finished(MADE[name])
    found = [operator.op for operator in batched(graph, SAMPLES).operators if operator.op != "RESHAPE"]
    kept = sum(operator.op == "RESHAPE" for operator in batched(graph, SAMPLES).operators)
    assert (found, kept) == ([operator.op for operator in graph.operators], int(name in ("joined", "cut")))


@pytest.mark.parametrize("name", MADE)
def test_each_sample_is_what_it_is_alone(name: str) -> None:
    graph = finished(MADE[name])
    many = batched(graph, SAMPLES)
    (output,) = graph.outputs
    alone = [feeds(graph, seed) for seed in range(SAMPLES)]
    together = {each: np.concatenate([values[each] for values in alone]) for each in graph.inputs}
    wanted = np.concatenate([evaluate(graph, values)[output] for values in alone])
    np.testing.assert_array_equal(evaluate(many, together)[output], wanted)
    assert batched(graph, 1) is graph


@pytest.mark.parametrize("op", RECIPES)
def test_samples_of_any_operator_are_what_they_are_alone(op: str) -> None:
    """Operands are other ones for each sample, or the same for all; weights that differ are refused by name."""
    computed = 0
    for seed in range(20):
        case, dice = random_operator(op, seed), random.Random(seed)
        graph = case.graph
        for name, data in zip(case.operator.inputs, case.values, strict=True):
            if name in graph.inputs[1:] and (seed < 10 or dice.random() < 0.5):
                graph.tensors[name].data = data
        graph.inputs = [name for name in graph.inputs if graph.tensors[name].data is None]
        try:
            many = batched(graph, SAMPLES)
        except UnsupportedError as error:
            assert re.search("is another one for each sample of a batch|has rank|none is left", str(error))
            continue
        computed += 1
        order, places = np.random.default_rng(seed), {n: i for i, n in enumerate(case.operator.inputs)}
        alone = [{n: _other(order, op, case.values[places[n]]) for n in graph.inputs} for _ in range(SAMPLES)]
        together = {name: np.concatenate([values[name] for values in alone]) for name in graph.inputs}
        for output in graph.outputs:
            wanted = np.concatenate([evaluate(graph, values)[output] for values in alone])
            np.testing.assert_array_equal(evaluate(many, together)[output], wanted)
    assert computed >= 5


def _other(order: np.random.Generator, op: str, values: np.ndarray) -> np.ndarray:
    """The same elements elsewhere; rows of SCATTER's indices, which name no place twice, stay together."""
    if op == "SCATTER" and values.ndim == 2:
        return order.permutation(values)
    return order.permutation(values.reshape(-1)).reshape(values.shape)


@pytest.mark.parametrize("shape", [(2, 3, 4), (4,)])
def test_scales_of_each_sample(shape: tuple[int, ...]) -> None:
    """One multiplier for each channel serves all samples."""
    build = LayerBuilder(5)
    x, multiplier = wide(build, shape=shape), build.input("m", (4,), DType.INT32)
    shift = build.constant(np.full(4, 40), DType.INT8)
    zeros = [build.zero_point(dtype) for dtype in (DType.INT32, DType.INT8)]
    signs = dict(input_unsigned=False, output_unsigned=False)
    attributes = dict(scale32=True, rounding_mode="SINGLE_ROUND", per_channel=True, **signs)
    build.output(build.add("RESCALE", [x, multiplier, shift, *zeros], dtype=DType.INT8, **attributes))
    with pytest.raises(UnsupportedError) as raised:
        batched(build.finish(), 2)
    assert str(raised.value) == (
        "RESCALE_0: its multiplier ('m') is another one for each sample of a batch; "
        "run the samples one after the other (without a batch)"
    )


def test_a_matrix_that_all_samples_share_is_multiplied_once() -> None:
    build = LayerBuilder(5)
    x = build.input("x", (1, 3, 4), DType.INT8)
    weights = build.random_constant((1, 4, 5), DType.INT8, -9, 9)
    build.output(build.add("MATMUL", [x, weights, *(build.zero_point(DType.INT8) for _ in range(2))]))
    many = batched(build.finish(), SAMPLES)
    (operator,) = (each for each in many.operators if each.op == "MATMUL")
    assert many.tensors[operator.inputs[0]].shape == (1, 9, 4)
    assert many.tensors[operator.inputs[1]].shape == (1, 4, 5)


@pytest.mark.parametrize(
    "make, why",
    [
        (joined(0, shape=(2, 1, 1, 1, 1, 1)), "it joins along the first of 6 axes, and none is left"),
        (
            lambda b: b.add("REDUCE_SUM", [wide(b, shape=(2, 1, 1, 1, 1, 1))], axis=0),
            "has rank 6, and no axis",
        ),
        (lambda b: b.add("ABS", [wide(b, shape=())]), "input 'x' has rank 0, and no axis for the samples"),
    ],
)
def test_what_has_no_batch(make: Make, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        batched(finished(make), 2)
    with pytest.raises(InputError, match="a batch has at least 1 sample, not 0"):
        batched(finished(make), 0)
