"""The operators that 1.1 adds, rewritten with those of 1.0."""

import re

import pytest

from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, Tensor, validate
from tosaic.compiler.ir.schema_1_0.tables import OPERATORS as NUMBERS
from tosaic.compiler.ir.schema_1_0.to_ir_1_1 import OPERATORS, to_ir
from tosaic.errors import ModelError, UnsupportedError


def folded(op: str, *shapes: list[int] | tuple[int, ...], length: int = 1, **attributes: object) -> list[int]:
    """What a shape operator folds to; tuples are int32 constants, lists shapes."""
    build = GraphBuilder()
    inputs = [
        build.constant(list(value), DType.INT32) if isinstance(value, tuple) else build.shape(value)
        for value in shapes
    ]
    graph = build.graph
    graph.tensors["y"] = Tensor("y", (length,), DType.SHAPE)
    outputs = [] if op == "ASSERT_EQUAL_SHAPE" else ["y"]
    graph.operators.append(Operator(op, inputs, outputs, attributes, f"{op}_0"))
    to_ir(graph)
    assert graph.operators == []
    return [] if graph.tensors["y"].data is None else graph.tensors["y"].data.tolist()


@pytest.mark.parametrize(
    ("op", "shapes", "expected"),
    [
        ("CONCAT_SHAPE", ([1, 2], [3]), [1, 2, 3]),
        ("SLICE_SHAPE", ([5, 6, 7, 8], (1,), (2,)), [6, 7]),
        ("ADD_SHAPE", ([1, 2], [3, 4]), [4, 6]),
        ("SUB_SHAPE", ([3, 2], [3, 1]), [0, 1]),
        ("MUL_SHAPE", ([3, 2], [3, 0]), [9, 0]),
        ("MAX_SHAPE", ([3, 2], [1, 5]), [3, 5]),
        ("MIN_SHAPE", ([3, 2], [1, 5]), [1, 2]),
        ("MOD_SHAPE", ([7, 8], [4, 4]), [3, 0]),
        ("DIV_CEIL_SHAPE", ([7, 8], [4, 4]), [2, 2]),
        ("DIV_FLOOR_SHAPE", ([7, 8], [4, 4]), [1, 2]),
        ("EXP2_SHAPE", ([0, 5],), [1, 32]),
        ("LOG2_CEIL_SHAPE", ([1, 5, 8],), [0, 3, 3]),
        ("LOG2_FLOOR_SHAPE", ([1, 5, 8],), [0, 2, 3]),
    ],
)
def test_shape_arithmetic_is_folded(op: str, shapes: tuple, expected: list[int]) -> None:
    assert folded(op, *shapes, length=len(expected)) == expected


@pytest.mark.parametrize(
    ("op", "shapes", "length", "message"),
    [
        (
            "SUB_SHAPE",
            ([1], [2]),
            1,
            "the elements of a shape must not be negative or exceed 63 bits; found [-1]",
        ),
        ("MUL_SHAPE", ([1 << 62], [2]), 1, "the elements of a shape must not be negative or exceed 63 bits"),
        ("ADD_SHAPE", ([1], [2, 3]), 1, "both shapes must have the same length; found [1] and [2, 3]"),
        ("ADD_SHAPE", ([1], [2]), 2, "output 'y' must be a shape_t of 1 elements"),
        ("ADD_SHAPE", ([1],), 1, "it must have 2 inputs and 1 outputs; found 1 and 1"),
        ("MOD_SHAPE", ([1], [0]), 1, "every divisor must be at least 1; found [0]"),
        ("EXP2_SHAPE", ([63],), 1, "exponents must be at most 62; found [63]"),
        ("LOG2_FLOOR_SHAPE", ([0],), 1, "every element must be at least 1; found [0]"),
        ("SLICE_SHAPE", ([5, 6], (1,), (2,)), 2, "start and size must lie in the shape"),
        ("SLICE_SHAPE", ([5, 6], [1], [1]), 1, "its operand must be a constant int32_t"),
        ("CONCAT_SHAPE", ([5], []), 1, "it must have inputs, each with at least one element"),
    ],
)
def test_shape_arithmetic_that_is_wrong(op: str, shapes: tuple, length: int, message: str) -> None:
    with pytest.raises(ModelError, match=re.escape(message)):
        folded(op, *shapes, length=length)


def test_assertions() -> None:
    assert folded("ASSERT_EQUAL_SHAPE", [1, 2], [1, 2], allow_broadcast=False) == []
    assert folded("ASSERT_EQUAL_SHAPE", [1, 2], [3, 2], allow_broadcast=True) == []
    with pytest.raises(ModelError, match="the shapes must be equal; found \\[1, 2\\] and \\[3, 2\\]"):
        folded("ASSERT_EQUAL_SHAPE", [1, 2], [3, 2], allow_broadcast=False)
    with pytest.raises(ModelError, match="the shapes must be equal"):
        folded("ASSERT_EQUAL_SHAPE", [2, 2], [3, 2], allow_broadcast=True)


def with_operator(
    build: GraphBuilder, op: str, inputs: list[str], result: Tensor, **attributes: object
) -> Graph:
    """The graph with one more operator that gives `result`, lowered and validated."""
    graph = build.graph
    graph.tensors[result.name] = result
    graph.operators.append(Operator(op, inputs, [result.name], attributes, f"{op}_0"))
    graph.outputs.append(result.name)
    to_ir(graph)
    validate(graph)
    return graph


def test_dim() -> None:
    build = GraphBuilder()
    x = build.input("x", (2, 5), DType.INT8)
    graph = build.graph
    graph.tensors["s"] = Tensor("s", (1,), DType.SHAPE)
    graph.operators.append(Operator("DIM", [x], ["s"], {"axis": 1}, "DIM_0"))
    to_ir(graph)
    assert graph.const("s").tolist() == [5]


@pytest.mark.parametrize(
    ("batch", "ops"), [(3, ["TRANSPOSE", "MATMUL"]), (1, ["TRANSPOSE", "TILE", "MATMUL"])]
)
def test_matmul_t(batch: int, ops: list[str]) -> None:
    build = GraphBuilder()
    a, b = build.input("a", (3, 2, 4), DType.INT8), build.input("b", (batch, 5, 4), DType.INT8)
    zero = build.constant([0], DType.INT8)
    graph = with_operator(build, "MATMUL_T", [a, b, zero, zero], Tensor("y", (3, 2, 5), DType.INT32))
    assert [op.op for op in graph.operators] == ops


@pytest.mark.parametrize(("dtype", "count"), [(DType.INT8, 4), (DType.BOOL, 6)])
def test_row_gather(dtype: DType, count: int) -> None:
    build = GraphBuilder()
    x, indices = build.input("x", (2, 9, 3), dtype), build.input("i", (2, 4), DType.INT32)
    rows = build.constant([3], DType.INT32)
    graph = with_operator(build, "ROW_GATHER", [x, indices, rows], Tensor("y", (2, 12, 3), dtype))
    assert len(graph.operators) == count
    (add,) = (op for op in graph.operators if op.op == "ADD")
    assert graph.const(add.inputs[1]).tolist() == [[[0, 1, 2]]]


def test_blocks_of_one_element_have_no_scales() -> None:
    build = GraphBuilder()
    x, indices = build.input("x", (2, 9, 3), DType.INT16), build.input("i", (2, 4), DType.INT32)
    rows, shape = build.constant([2], DType.INT32), build.shape([6, 9])
    graph = with_operator(
        build,
        "ROW_GATHER_BLOCK_SCALED",
        [x, indices, rows],
        Tensor("y", (2, 8, 3), DType.INT16),
        block_size=1,
    )
    assert [op.op for op in graph.operators][-1] == "GATHER"
    graph = with_operator(
        build, "RESHAPE_BLOCK_SCALED", [x, shape], Tensor("z", (6, 9), DType.INT16), block_size=1
    )
    assert [op.op for op in graph.operators][-1] == "RESHAPE"


@pytest.mark.parametrize("name", ["RESHAPE_BLOCK_SCALED", "ROW_GATHER_BLOCK_SCALED"])
@pytest.mark.parametrize(
    ("block_size", "error", "said"),
    [(32, UnsupportedError, "with scales"), (4, ModelError, "block_size must be one of (1, 32); found 4")],
)
def test_blocks_of_other_sizes(name: str, block_size: int, error: type[Exception], said: str) -> None:
    build = GraphBuilder()
    names = [build.input("x", (6, 9), DType.INT8), build.input("s", (6, 1), DType.INT8), build.shape([9, 6])]
    with pytest.raises(error, match=re.escape(said)):
        with_operator(build, name, names, Tensor("y", (9, 6), DType.INT8), block_size=block_size)


@pytest.mark.parametrize("name", ["GATHER", "ROW_GATHER"])
def test_indices_of_64_bits_are_legal_and_refused(name: str) -> None:
    build = GraphBuilder()
    x, indices = build.input("x", (2, 9, 3), DType.INT8), build.input("i", (2, 4), DType.INT64)
    rows = [build.constant([1], DType.INT32)] if name == "ROW_GATHER" else []
    with pytest.raises(UnsupportedError, match=rf"{name}.*EXT-INT64.*indices 'i' int64\[2, 4\]"):
        validate(with_operator(build, name, [x, indices, *rows], Tensor("y", (2, 4, 3), DType.INT8)))


def test_adaptive_pools() -> None:
    build = GraphBuilder()
    x, zero = build.input("x", (1, 6, 6, 2), DType.INT8), build.constant([0], DType.INT8)
    parameters = [build.shape(numbers) for numbers in ([3, 2], [3, 2], [0, 0, 0, 0])]
    graph = with_operator(
        build, "AVG_POOL2D_ADAPTIVE", [x, zero, zero, *parameters], Tensor("y", (1, 2, 3, 2), DType.INT8)
    )
    (op,) = graph.operators
    assert (op.op, op.inputs) == ("AVG_POOL2D", [x, zero, zero])
    assert op.attributes == {"kernel": [3, 2], "stride": [3, 2], "pad": [0, 0, 0, 0]}


def test_the_operators_have_numbers() -> None:
    assert set(OPERATORS) <= set(NUMBERS)
    assert NUMBERS.index("DIM") == 79
    assert NUMBERS.index("MATMUL_T") == 100
