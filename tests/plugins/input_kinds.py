"""Inputs that people bring: reals, images of bytes, codes with a zero point, numbers, token ids, masks; odd shapes.

Each format builds a small network for each kind, and an outside oracle judges it. What the network does with its input
is `use`, which `USES` tells.
"""

import dataclasses
import pathlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from tosaic import Session
from tosaic.compiler.ir import Graph
from tosaic.driver.quantize import quantize_graph
from tosaic.errors import InputError
from tosaic.sim.golden import evaluate

USES = {
    "reals": "tanh(x @ w), and of one dimension tanh(x * w)",
    "image": "relu of a convolution of (x - 127.5) / 64",
    "codes": "integers of relu(reals @ w), the reals being (x - zero point) * SCALE",
    "numbers": "max(x + 3, 5 - x), in integers",
    "ids": "tanh(table[x]) @ w",
    "mask": "softmax(where(x, scores, -10000))",
}
SCALE = 0.05
"""Scale of codes."""
ROWS = 13
"""Rows of the table that ids index."""
FEATURES = 6
"""Columns of tables and of products."""

Make = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Kind:
    """Arrays of one type, shape and sort of values; an image is NCHW, but for `channels_last`."""

    name: str
    use: str
    dtype: str
    shape: tuple[int, ...]
    make: Make
    zero_point: int = 0

    @property
    def channels_last(self) -> bool:
        return "NHWC" in self.name

    def samples(self, count: int) -> list[np.ndarray]:
        """Arrays of this kind, the same ones each time."""
        random = np.random.default_rng(len(self.name) + sum(self.shape))
        return [np.asarray(self.make(random, self.shape)).astype(self.dtype) for _ in range(count)]

    def constant(self, *shape: int) -> np.ndarray:
        """Constants of a network, in -1..1, the same ones each time."""
        return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def _normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.standard_normal(shape)


def _all(value: float) -> Make:
    return lambda random, shape: np.full(shape, value)


def _from(low: int, high: int) -> Make:
    return lambda random, shape: random.integers(low, high + 1, shape)


def _ends(low: int, high: int) -> Make:
    return lambda random, shape: random.choice([low, high], shape)


def _share(share: float) -> Make:
    return lambda random, shape: random.random(shape) < share


KINDS = [
    *(Kind(f"reals of rank {len(shape)}: {shape}", "reals", "float32", shape, _normal)
      for shape in ((1,), (7,), (1, 1), (3, 11), (2, 3, 5), (1, 3, 7, 5), (2, 1, 3, 5, 2))),
    *(Kind(f"all {value}", "reals", "float32", (1, 5), _all(value)) for value in (0, 1, -2.5)),
    *(Kind(f"uint8 {order}, batch of {shape[0]}", "image", "uint8", shape, _from(0, 255))
      for order, shape in (("NCHW", (1, 3, 7, 5)), ("NHWC", (1, 7, 5, 3)), ("NHWC", (2, 5, 3, 1)))),
    *(Kind(f"uint8 NCHW, all {value}", "image", "uint8", (1, 3, 5, 5), _all(value)) for value in (0, 255)),
    *(Kind(f"int8 around {zero}", "codes", "int8", (1, 11), _from(-128, 127), zero) for zero in (0, -1, 83, -128)),
    *(Kind(f"uint8 around {zero}", "codes", "uint8", (3, 7), _from(0, 255), zero) for zero in (0, 128, 255)),
    Kind("int8, ends only", "codes", "int8", (2, 3, 5), _ends(-128, 127), 3),
    Kind("int8, all at the zero point", "codes", "int8", (1, 5), _all(-7), -7),
    Kind("int16 around 0", "codes", "int16", (1, 11), _from(-32768, 32767)),
    Kind("int8 numbers", "numbers", "int8", (7,), _from(-60, 60)),
    Kind("int16 numbers", "numbers", "int16", (1, 11), _from(-9999, 9999)),
    Kind("int32 numbers", "numbers", "int32", (2, 3, 5), _from(-(2**30), 2**30)),
    Kind("int64 numbers", "numbers", "int64", (1, 1), _from(-(2**30), 2**30)),
    Kind("int32 ids", "ids", "int32", (1, 7), _from(0, ROWS - 1)),
    Kind("int64 ids, batch of 2", "ids", "int64", (2, 5), _from(0, ROWS - 1)),
    Kind("one int64 id", "ids", "int64", (1,), _from(0, ROWS - 1)),
    *(Kind(f"int64 ids, all {row}", "ids", "int64", (1, 3), _all(row)) for row in (0, ROWS - 1)),
    *(Kind(f"mask of {share:.0%}", "mask", "bool", (1, 7), _share(share)) for share in (0, 0.5, 1)),
    Kind("mask of rank 4", "mask", "bool", (2, 1, 3, 5), _share(0.7)),
    Kind("mask of one", "mask", "bool", (1,), _share(0.5)),
]  # fmt: skip


def kinds(*uses: str, most: int | None = None) -> pytest.MarkDecorator:
    """A test of `kind`, for each kind, or for those of some uses. Beyond `most` of a use they are for the nightly."""
    seen: Counter[str] = Counter()
    parameters = []
    for kind in KINDS:
        if not uses or kind.use in uses:
            marks = [] if most is None or seen[kind.use] < most else [pytest.mark.nightly]
            parameters.append(pytest.param(kind, id=kind.name, marks=marks))
            seen[kind.use] += 1
    return pytest.mark.parametrize("kind", parameters)


SAMPLES = 16
_CLOSE = 1e-6
"""Tolerance as a part of the largest result, for sums of float32 in another order."""


def assert_near(
    graph: Graph,
    kind: Kind,
    wanted: list[np.ndarray],
    inputs: list[np.ndarray] | None = None,
    least_db: float = 25,
    **options: str,
) -> None:
    """Golden's floats of a network are those of the judge on `samples`, and its integers are near them, on the emulator
    as well. `inputs` are what the samples are in a format that has not their type. Reals that are zero everywhere tell
    nothing of a range, and are refused. `options` are those of `quantize_graph`."""
    ((name,), (output,)) = graph.inputs, graph.outputs
    feeds = [carried(x) for x in (inputs or kind.samples(len(wanted)))]
    real = feeds[0].dtype == np.float32
    for feed, right in zip(feeds, wanted, strict=True):
        got = evaluate(graph, {name: feed})[output]
        assert (got.shape, got.dtype) == (right.shape, right.dtype)
        assert np.abs(got - right).max() <= _CLOSE * max(1.0, np.abs(right).max())
    if real and not np.any(feeds):
        with pytest.raises(
            InputError, match="is zero everywhere, which tells nothing of its range; give samples"
        ):
            quantize_graph(graph, {name: np.stack(feeds)})
        return
    found = quantize_graph(graph, {name: np.stack(feeds)}, **options).result
    encoding = found.inputs.get(name)
    assert (encoding is not None) == real
    session = Session(found, "emulator")
    results = [
        session.run({name: feed if encoding is None else encoding.quantize(feed)}, check=True)[output]
        for feed in feeds
    ]
    reals = found.outputs[output].dequantize(np.stack(results))
    noise = float(np.square(reals - wanted).sum())
    assert noise <= float(np.square(wanted, dtype=np.float64).sum()) * 10 ** (-least_db / 10)


def assert_equal(model: pathlib.Path | Graph, kind: Kind, wanted: list[np.ndarray], most: int = 0) -> None:
    """A network of integers gives those of the judge on `samples`, at `most` so many steps off, also on the emulator.
    It takes arrays of its own type, and of a type that it has not with the advice that the refusal gives."""
    session = Session(model, "emulator")
    ((port,), (output,)) = session.inputs, session.outputs
    for x, right in zip(kind.samples(len(wanted)), wanted, strict=True):
        if x.dtype != port.own:
            advice = rf"the model wants {port.own}: give np\.asarray\(x, np\.{port.own}\)$"
            with pytest.raises(InputError, match=advice):
                session.run({port.name: x})
            x = np.asarray(x, port.own)
        got = session.run({port.name: x}, check=True)[output.name]
        assert got.shape == right.shape
        got = got.view(output.own).astype(int)
        assert np.abs(got - right).max() <= most


def carried(values: np.ndarray) -> np.ndarray:
    """An array as a graph has it: unsigned bits in signed integers, int64 in int32."""
    if values.dtype.kind == "u":
        return values.view(f"int{8 * values.itemsize}")
    return values.astype(np.int32) if values.dtype == np.int64 else values


def formula(kind: Kind, x: np.ndarray) -> np.ndarray:
    """What `USES` tells of, in NumPy's float64 or int64; of codes the reals."""
    match kind.use:
        case "reals":
            own = x.astype(np.float64)
            last = x.shape[-1]
            return np.tanh(own * kind.constant(last) if x.ndim == 1 else own @ kind.constant(last, FEATURES))
        case "codes":
            reals = (x.astype(int) - kind.zero_point) * SCALE
            return np.maximum(reals @ kind.constant(x.shape[-1], FEATURES), 0)
        case "image":
            own = x.transpose(0, 3, 1, 2) if kind.channels_last else x
            padded = np.pad((own - 127.5) / 64, ((0, 0), (0, 0), (1, 1), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
            weight = kind.constant(4, own.shape[1], 3, 3)
            return np.maximum(np.einsum("nchwij,ocij->nohw", windows, weight), 0)
        case "numbers":
            return np.maximum(x.astype(int) + 3, 5 - x.astype(int))
        case "ids":
            return np.tanh(kind.constant(ROWS, FEATURES))[x] @ kind.constant(FEATURES, 3)
        case _:
            powers = np.exp(np.where(x, kind.constant(*x.shape) * 4.0, -1e4))
            even = np.full(x.shape, 1 / x.shape[-1])
            with np.errstate(invalid="ignore"):
                return np.where(x.any(-1, keepdims=True), powers / powers.sum(-1, keepdims=True), even)
