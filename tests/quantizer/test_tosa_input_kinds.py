"""TOSA files of every kind of input, judged by NumPy: read, quantized, and run on golden and on the emulator.

A file has no int64, and no uint8 but by a RESCALE that reads int8 as integers without sign. Codes have a zero point
in MATMUL, of int8 only; numbers have arithmetic in int32.
"""

import numpy as np
import pytest
from float_networks import Floats
from input_kinds import FEATURES, KINDS, ROWS, SAMPLES, Kind, assert_equal, assert_near, formula, kinds

from tosaic.compiler.importers.lowering import statistics
from tosaic.compiler.importers.lowering.rescaling import unsigned_bits
from tosaic.compiler.ir import DType, Graph, read_tosa, write_tosa
from tosaic.driver.quantize import quantize_graph
from tosaic.errors import InputError

FP32, INT32 = DType.FP32, DType.INT32


def product(low: Floats, x: str, weight: np.ndarray, dtype: DType = FP32, zero_point: int = 0) -> str:
    """x @ weight along the last axis, whatever the rank."""
    shape = low.shape(x)
    rows = low.reshape(x, (1, int(np.prod(shape[:-1])), shape[-1]))
    zeros = low.zero_point(x, zero_point), low.constant([0], dtype)
    y = low.op("MATMUL", rows, low.constant(weight[None], dtype), *zeros)
    return low.reshape(y, (*shape[:-1], weight.shape[1]))


def codes_weight(kind: Kind) -> np.ndarray:
    return np.rint(kind.constant(kind.shape[-1], FEATURES) * 127).astype(np.int8)


def network(kind: Kind) -> Graph:
    """The graph that `USES` tells of, as a file has it; of codes the product as it is."""
    low, shape = Floats(), kind.shape
    stored = {"float32": FP32, "bool": DType.BOOL, "uint8": DType.INT8, "int64": INT32}
    x = low.input("x", shape, stored.get(kind.dtype) or DType[kind.dtype.upper()])
    if kind.dtype == "uint8":
        x = unsigned_bits(low, x, 128, entering=True)
    match kind.use:
        case "reals" if len(shape) == 1:
            y = low.op("TANH", low.mul(x, low.constant(kind.constant(*shape), FP32)))
        case "reals":
            y = low.op("TANH", product(low, x, kind.constant(shape[-1], FEATURES)))
        case "image":
            x = low.cast(x, FP32) if kind.channels_last else low.transpose(low.cast(x, FP32), [0, 2, 3, 1])
            x = low.times(low.plus(x, 0.5), 1 / 64)
            weight = kind.constant(4, low.shape(x)[3], 3, 3).transpose(0, 2, 3, 1)
            constants = low.constant(weight, FP32), low.constant(np.zeros(4), FP32)
            zeros = low.zero_point(x), low.zero_point(x)
            window = {
                "pad": [1] * 4,
                "stride": [1, 1],
                "dilation": [1, 1],
                "acc_type": FP32,
                "local_bound": False,
            }
            y = low.clamp(low.op("CONV2D", x, *constants, *zeros, **window), 0, np.inf)
            y = low.transpose(y, [0, 3, 1, 2])
        case "codes" if kind.dtype == "int16":
            y = low.sub(low.cast(x, INT32), low.constant(np.full((1,) * len(shape), kind.zero_point), INT32))
        case "codes":
            y = product(
                low, x, codes_weight(kind), DType.INT8, kind.zero_point - 128 * (kind.dtype == "uint8")
            )
        case "numbers":
            x = low.cast(x, INT32)
            three, five = (low.constant(np.full((1,) * len(shape), n), INT32) for n in (3, 5))
            y = low.maximum(low.add(x, three), low.sub(five, x))
        case "ids":
            table = low.constant(kind.constant(1, ROWS, FEATURES).reshape(1, ROWS, FEATURES), FP32)
            rows = low.gather_rows(table, low.reshape(x, (1, int(np.prod(shape)))))
            y = low.reshape(low.op("TANH", rows), (*shape, FEATURES))
        case _:
            scores = low.constant(kind.constant(*shape) * 4, FP32)
            y = statistics.softmax(low, low.select(x, scores, low.scalar(-1e4, scores)), [len(shape) - 1])
    return read_tosa(write_tosa(low.finish(y)))


@pytest.mark.parametrize("activations", ["int8", "int16"])
@kinds("reals", "image", "mask")
def test_floats_are_numpy_s_and_integers_near(kind: Kind, activations: str) -> None:
    least_db = {"int8": 25, "int16": 40}[activations]
    wanted = [formula(kind, x).astype(np.float32) for x in kind.samples(SAMPLES)]
    assert_near(network(kind), kind, wanted, least_db=least_db, activations=activations)


@kinds("ids")
def test_rows_of_a_table(kind: Kind) -> None:
    table = np.tanh(kind.constant(1, ROWS, FEATURES)[0])
    assert_near(network(kind), kind, [table[x] for x in kind.samples(SAMPLES)])


@kinds("codes", "numbers")
def test_integers_are_numpy_s(kind: Kind) -> None:
    samples = kind.samples(SAMPLES)
    if kind.use == "numbers":
        wanted = [formula(kind, x) for x in samples]
    else:
        wanted = [x.astype(int) - kind.zero_point for x in samples]
        if kind.dtype != "int16":
            wanted = [x @ codes_weight(kind).astype(int) for x in wanted]
    assert_equal(network(kind), kind, wanted)


def samples_of(name: str) -> tuple[Graph, np.ndarray]:
    kind = next(each for each in KINDS if each.name == name)
    return network(kind), np.stack(kind.samples(SAMPLES))


@pytest.mark.parametrize(
    ("name", "changed", "refusal"),
    [
        (
            "uint8 NCHW, batch of 1",
            lambda x: x / 255,
            "float64 values that uint8, {} integers from 0 to 255",
        ),
        ("uint8 NHWC, batch of 2", lambda x: x + 100, "int64 values that uint8, {} integers from 0 to 255"),
        (
            "one int64 id",
            lambda x: x + 0.5,
            "float64 values that int32, {} integers from -2147483648 to 2147483647",
        ),
        (
            "int64 ids, all 12",
            lambda x: x + 2**40,
            "int64 values that int32, {} integers from -2147483648 to 2147483647",
        ),
        (
            "mask of 50%",
            lambda x: np.where(x, 0, -1e4),
            "float64 values that bool, {} False and True, or 0 and 1",
        ),
    ],
)
def test_calibration_that_the_type_does_not_hold_is_refused(name, changed, refusal) -> None:
    """An image of 0..1 became one of zeros, and ids beyond int32 others; the report on the same data looked well."""
    graph, x = samples_of(name)
    (port,) = graph.inputs
    with pytest.raises(InputError) as refused:
        quantize_graph(graph, {port: changed(x.astype(int))})
    said = refusal.format("the model's type, does not hold: give")
    assert str(refused.value) == f"the calibration data for input {port!r} has {said}"


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("uint8 NCHW, batch of 1", ("uint8", "int64", "float32")),
        ("int64 ids, batch of 2", ("int64", "int32", "float32")),
        ("mask of 50%", ("bool", "int64", "float32")),
    ],
)
def test_calibration_of_any_type_that_has_the_values(name: str, forms: tuple[str, ...]) -> None:
    graph, x = samples_of(name)
    found = [quantize_graph(graph, {graph.inputs[0]: x.astype(form)}).result.outputs for form in forms]
    assert found[0] == found[1] == found[2]
