"""Operators of constants become constants where the program does not grow by it; CASTs there and back go away."""

from collections.abc import Callable

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds
from shared_files import ABSENT, SHARED

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.passes import legalize
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

CASES = SHARED / "cases/performance"
ENDS = (0, 1, -1, 2, 7, -128, 127, 255, -32768, 32767, 1 << 20, -(1 << 20), (1 << 31) - 1, -(1 << 31) + 1)


def random_values(random: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Small numbers, any numbers, and the ends of types."""
    if dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(bool)
    low, high = dtype.min, dtype.max
    some = np.array([each for each in ENDS if low <= each <= high])
    kinds = [
        random.integers(low, high, shape, endpoint=True),
        random.integers(max(low, -300), min(high, 300), shape, endpoint=True),
        random.choice(some, shape),
    ]
    return np.choose(random.integers(0, 3, shape), kinds).astype(dtype.numpy)


INTEGERS = (DType.INT8, DType.INT16, DType.INT32)


class Constants(LayerBuilder):
    """Builds operators of constants only."""

    def some(self, dtype: DType, shape: tuple[int, ...] = (3, 1, 5)) -> str:
        return self.constant(random_values(self.random, shape, dtype), dtype)

    def pick(self, *dtypes: DType) -> DType:
        return dtypes[self.random.integers(len(dtypes))]

    def binary(self, op: str, *dtypes: DType, **attributes: object) -> str:
        dtype = self.pick(*dtypes)
        second = (3, 2, 5) if op == "CONCAT" else (3, 4, 1)
        return self.add(op, [self.some(dtype), self.some(dtype, second)], **attributes)

    def sum(self, op: str) -> str:
        """Adds an operator on numbers that mostly have no more than 31 bits."""
        shapes = ((3, 1, 5), (3, 4, 1))
        return self.add(
            op, [self.random_constant(shape, DType.INT32, -(1 << 30), 1 << 30) for shape in shapes]
        )

    def unary(self, op: str, *dtypes: DType, **attributes: object) -> str:
        return self.add(op, [self.some(self.pick(*dtypes))], **attributes)

    def shifted(self, op: str, **attributes: object) -> str:
        dtype = self.pick(*INTEGERS)
        top = dtype.bits if op == "ARITHMETIC_RIGHT_SHIFT" else 32
        amount = self.constant(self.random.integers(0, top, (3, 4, 1)), dtype)
        return self.add(op, [self.some(dtype), amount], **attributes)

    def product(self) -> str:
        dtype, shift = self.pick(*INTEGERS), 0
        if dtype is DType.INT32:
            shift = int(self.random.choice([0, 1, 31, 40, 63]))
        operands = [self.some(dtype), self.some(dtype, (3, 4, 1)), self.zero_point(DType.INT8, shift)]
        return self.add("MUL", operands, dtype=DType.INT32)

    def negated(self) -> str:
        dtype = self.pick(*INTEGERS)
        values = random_values(self.random, (2,), dtype) if dtype is DType.INT8 else (0, 0)
        return self.add("NEGATE", [self.some(dtype), *(self.zero_point(dtype, int(v)) for v in values)])

    def cast(self) -> str:
        source = self.pick(DType.BOOL, *INTEGERS)
        target = self.pick(*({DType.BOOL, *INTEGERS} - {source}))
        return self.add("CAST", [self.some(source)], dtype=target)

    def scaled(self) -> str:
        source, target = self.pick(*INTEGERS), self.pick(*INTEGERS)
        unsigned = [
            bool(self.random.integers(2)) and dtype is not DType.INT32 and not wide
            for dtype, wide in ((source, target is DType.INT32), (target, source is DType.INT32))
        ]
        if all(unsigned):
            unsigned[0] = False
        zero_points = [
            int(random_values(self.random, (1,), dtype)[0]) if dtype is DType.INT8 else 0
            for dtype in (source, target)
        ]
        per_channel = bool(self.random.integers(2))
        count = 5 if per_channel else 1
        least = 34 if source is DType.INT32 else 18
        return self.add(
            "RESCALE",
            [
                self.some(source),
                self.random_constant((count,), DType.INT32, 0, (1 << 31) - 1),
                self.random_constant((count,), DType.INT8, least, 62),
                self.zero_point(source, zero_points[0]),
                self.zero_point(target, zero_points[1]),
            ],
            dtype=target,
            scale32=True,
            rounding_mode=str(self.random.choice(["SINGLE_ROUND", "DOUBLE_ROUND"])),
            per_channel=per_channel,
            input_unsigned=unsigned[0],
            output_unsigned=unsigned[1],
        )

    def looked_up(self) -> str:
        dtype = self.pick(DType.INT8, DType.INT16)
        entries = random_values(self.random, (256 if dtype is DType.INT8 else 513,), dtype)
        if dtype is DType.INT16:
            entries //= 2
        return self.add("TABLE", [self.some(dtype), self.constant(entries, dtype)])

    def gathered(self) -> str:
        rows = self.some(self.pick(*INTEGERS), (2, 6, 3))
        return self.add("GATHER", [rows, self.constant(self.random.integers(0, 6, (2, 4)), DType.INT32)])


OPERATORS: dict[str, Callable[[Constants], str]] = {
    **{op: lambda b, op=op: b.sum(op) for op in ("ADD", "SUB")},
    **{op: lambda b, op=op: b.binary(op, DType.INT32, nan_mode="PROPAGATE") for op in ("MAXIMUM", "MINIMUM")},
    **{op: lambda b, op=op: b.binary(op, DType.INT32) for op in ("EQUAL", "GREATER", "GREATER_EQUAL")},
    **{op: lambda b, op=op: b.binary(op, *INTEGERS) for op in ("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR")},
    **{op: lambda b, op=op: b.binary(op, DType.BOOL) for op in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")},
    "LOGICAL_NOT": lambda b: b.unary("LOGICAL_NOT", DType.BOOL),
    "BITWISE_NOT": lambda b: b.unary("BITWISE_NOT", *INTEGERS),
    "ABS": lambda b: b.unary("ABS", DType.INT32),
    "CLZ": lambda b: b.unary("CLZ", DType.INT32),
    "CLAMP": lambda b: b.clamp(b.some(b.pick(DType.INT8, DType.INT16)), -7, 90),
    "INTDIV": lambda b: b.add(
        "INTDIV",
        [b.some(DType.INT32), b.add("BITWISE_OR", [b.some(DType.INT32), b.constant([[[1]]], DType.INT32)])],
    ),
    "MUL": Constants.product,
    "NEGATE": Constants.negated,
    "CAST": Constants.cast,
    "RESCALE": Constants.scaled,
    "TABLE": Constants.looked_up,
    "GATHER": Constants.gathered,
    "SELECT": lambda b: b.add("SELECT", [b.some(DType.BOOL), *[b.some(b.pick(*INTEGERS), (3, 4, 1))] * 2]),
    "ARITHMETIC_RIGHT_SHIFT": lambda b: b.shifted("ARITHMETIC_RIGHT_SHIFT", round=bool(b.random.integers(2))),
    "LOGICAL_LEFT_SHIFT": lambda b: b.shifted("LOGICAL_LEFT_SHIFT"),
    "LOGICAL_RIGHT_SHIFT": lambda b: b.shifted("LOGICAL_RIGHT_SHIFT"),
    "REDUCE_SUM": lambda b: b.unary("REDUCE_SUM", DType.INT32, axis=0),
    "REDUCE_MAX": lambda b: b.unary("REDUCE_MAX", *INTEGERS, axis=2, nan_mode="PROPAGATE"),
    "REDUCE_MIN": lambda b: b.unary("REDUCE_MIN", *INTEGERS, axis=0, nan_mode="PROPAGATE"),
    "REDUCE_ANY": lambda b: b.unary("REDUCE_ANY", DType.BOOL, axis=0),
    "REDUCE_ALL": lambda b: b.unary("REDUCE_ALL", DType.BOOL, axis=2),
    "ARGMAX": lambda b: b.unary("ARGMAX", DType.INT8, DType.INT16, axis=2, nan_mode="PROPAGATE"),
    "SLICE": lambda b: b.add("SLICE", [b.some(b.pick(*INTEGERS)), b.shape((1, 0, 2)), b.shape((2, 1, 3))]),
    "TILE": lambda b: b.add("TILE", [b.some(b.pick(*INTEGERS)), b.shape((1, 2, 3))]),
    "REVERSE": lambda b: b.unary("REVERSE", *INTEGERS, axis=2),
    "CONCAT": lambda b: b.binary("CONCAT", *INTEGERS, axis=1),
    "RESHAPE": lambda b: b.add("RESHAPE", [b.some(b.pick(*INTEGERS)), b.shape((5, 3))]),
    "TRANSPOSE": lambda b: b.unary("TRANSPOSE", *INTEGERS, perms=[2, 0, 1]),
}


@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_of_constants_is_what_golden_computes(op: str) -> None:
    left = 0
    for seed in range(25):
        b = Constants(seed)
        (name,) = [b.output(OPERATORS[op](b))]
        graph = b.finish()
        found = legalize(graph, get_config("base"))
        left += bool(found.operators)
        np.testing.assert_array_equal(evaluate(found, {})[name], evaluate(graph, {})[name], f"seed {seed}")
    assert left < 25


def cycles_on_base(name: str) -> int:
    session = Session(CASES / f"{name}.tosa", "emulator", config="base")
    session.run({each.name: np.zeros(each.shape, each.numpy) for each in session.inputs})
    return session.stats["cycles"]


@pytest.mark.skipif(not CASES.exists(), reason=ABSENT)
def test_a_product_with_a_cast_of_a_constant_costs_what_one_with_the_constant_costs() -> None:
    assert cycles_on_base("matmul_const_cast") == cycles_on_base("matmul_plain") == 5956


def product(make: Callable[[LayerBuilder, np.ndarray], str]) -> Graph:
    """Returns a graph that multiplies an input and the tensor that `make` makes of a constant [1, 32, 24]."""
    b = LayerBuilder(1)
    values = b.random.integers(-100, 100, (1, 32, 24))
    operands = [b.input("x", (1, 16, 32), DType.INT8), make(b, values)]
    b.output(b.add("MATMUL", [*operands, *[b.zero_point(DType.INT8)] * 2]))
    return b.finish()


def there_and_back(b: LayerBuilder, values: np.ndarray) -> str:
    c = b.constant(values, DType.INT8)
    wide = b.add("ADD", [b.add("CAST", [c], dtype=DType.INT32), b.constant([[[3]]], DType.INT32)])
    return b.add("CAST", [wide], dtype=DType.INT8)


def turned(b: LayerBuilder, values: np.ndarray) -> str:
    c = b.add("CAST", [b.constant(values.reshape(24, 32), DType.INT16)], dtype=DType.INT8)
    return b.add("RESHAPE", [b.add("TRANSPOSE", [c], perms=[1, 0]), b.shape((1, 32, 24))])


def scaled(b: LayerBuilder, values: np.ndarray) -> str:
    return b.rescale(b.constant(values * 5, DType.INT32), DType.INT8, per_channel=True, shift=36)


def negative(b: LayerBuilder, values: np.ndarray) -> str:
    return b.add("NEGATE", [b.constant(values, DType.INT8), *[b.zero_point(DType.INT8)] * 2])


@pytest.mark.parametrize("make", [there_and_back, turned, scaled, negative])
@pytest.mark.parametrize("config", ["base", "nano"])
def test_weights_that_are_computed_from_constants_are_weights(
    make: Callable[[LayerBuilder, np.ndarray], str], config: str
) -> None:
    graph = product(make)
    assert [each.op for each in legalize(graph, get_config(config)).operators] == ["MATMUL"]
    assert_equal_to_golden(graph, config, check_hazards=True)


def test_a_constant_that_a_reader_widens_stays_small() -> None:
    """A sum reads its bytes, a product with a row broadcasts: there it is a constant of words."""
    b = LayerBuilder(2)
    x = b.input("x", (8, 64), DType.INT32)
    image, line = (b.random_constant(shape, DType.INT8, -99, 99) for shape in ((8, 64), (1, 64)))
    wide, wide_line = (b.add("CAST", [each], dtype=DType.INT32) for each in (image, line))
    b.output(b.add("ADD", [b.add("ADD", [x, wide]), wide_line]))
    graph = b.finish()
    found = legalize(graph, get_config("base"))
    assert [each.op for each in found.operators] == ["CAST", "ADD", "ADD"]
    assert found.tensors[wide_line].data is not None
    assert_equal_to_golden(graph, "base", check_hazards=True)


def test_a_constant_that_is_a_result() -> None:
    b = LayerBuilder(3)
    b.output(b.add("CAST", [b.random_constant((5, 7), DType.INT8, -99, 99)], dtype=DType.INT32))
    b.output(b.add("ABS", [b.input("x", (3,), DType.INT32)]))
    graph = b.finish()
    assert [each.op for each in legalize(graph, get_config("base")).operators] == ["ABS"]
    assert_equal_to_golden(graph, "nano")


def test_a_program_does_not_grow_by_constants_that_are_computed() -> None:
    """64 KiB each, in sum 1 MiB at the beginning and at the end; what would take more is computed at run time."""
    b = LayerBuilder(4)
    one = b.constant([[9]], DType.INT32)
    for count in (16384, 16385):
        b.output(b.add("TILE", [one, b.shape((1, count))]))
    graph = b.finish()
    assert [each.op for each in legalize(graph, get_config("base")).operators] == ["TILE"]
    b = LayerBuilder(5)
    row = b.random_constant((1, 16384), DType.INT32, 0, 99)
    for number in range(100):
        b.output(b.add("ADD", [row, b.constant([[number]], DType.INT32)]))
    found = legalize(b.finish(), get_config("base"))
    assert len(found.operators) == 100 - 36, "1 MiB, 4 for the 64 KiB that are there, and 1 MiB at the end"


CHAINS = [
    ((DType.INT8, DType.INT32, DType.INT8), "IDENTITY"),
    ((DType.INT8, DType.INT16, DType.INT32, DType.INT8), "IDENTITY"),
    ((DType.INT16, DType.INT32, DType.INT8), "CAST"),
    ((DType.INT8, DType.INT16, DType.INT32), "CAST"),
    ((DType.INT32, DType.INT16, DType.INT8), "CAST"),
    ((DType.BOOL, DType.INT8, DType.BOOL), "IDENTITY"),
    ((DType.BOOL, DType.INT8, DType.INT32), "CAST"),
    ((DType.INT16, DType.INT32, DType.BOOL), "CAST"),
    ((DType.INT16, DType.INT8, DType.INT16), "CAST CAST"),
    ((DType.INT32, DType.INT8, DType.INT16), "CAST CAST"),
    ((DType.INT16, DType.INT8, DType.BOOL), "CAST CAST"),
    ((DType.INT8, DType.BOOL, DType.INT8), "CAST CAST"),
]


@pytest.mark.parametrize(("types", "wanted"), CHAINS)
def test_casts_that_keep_what_is_needed_are_one_or_none(types: tuple[DType, ...], wanted: str) -> None:
    """Every byte, and the ends of wider types, on golden and on the emulator."""
    b = LayerBuilder(6)
    x = b.input("x", (5, 64), types[0])
    for dtype in types[1:]:
        x = b.add("CAST", [x], dtype=dtype)
    b.output(x)
    graph = b.finish()
    assert " ".join(each.op for each in legalize(graph, get_config("base")).operators) == wanted
    values = {"x": random_values(np.random.default_rng(7), (5, 64), types[0])}
    assert_equal_to_golden(graph, "nano", values)
    assert_equal_to_golden(graph, "base", values)


def test_casts_that_others_read_or_that_are_results_stay() -> None:
    b = LayerBuilder(8)
    x = b.input("x", (3, 9), DType.INT8)
    wide = b.output(b.add("CAST", [x], dtype=DType.INT32))
    back = b.add("CAST", [wide], dtype=DType.INT8)
    b.output(back)
    b.output(b.add("ABS", [b.add("CAST", [back], dtype=DType.INT32)]))
    graph = b.finish()
    for config in ("nano", "base"):
        assert_equal_to_golden(graph, config, feeds(graph, 1))
