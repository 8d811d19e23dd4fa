"""Several subgraphs: loops and branches, against LiteRT; sparse constants."""

from collections.abc import Sequence

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_objects import operator, packed, tensor

from tosaic.compiler.importers import import_model
from tosaic.compiler.importers.lowering.allowance import Allowance
from tosaic.compiler.importers.tflite.sparsity import dense
from tosaic.errors import UnsupportedError
from tosaic.sim.golden import evaluate

KINDS, TYPES = schema.BuiltinOperator, schema.TensorType
_CODES = [KINDS.WHILE, KINDS.IF, KINDS.ADD, KINDS.MUL, KINDS.LESS]
_ONE, _TWO, _FIVE = 1, 2, 3
"""Buffers of constants."""


def _tensor(name: str, shape: list[int], kind: int = TYPES.FLOAT32, buffer: int = 0) -> schema.TensorT:
    return tensor(name, shape, kind, buffer)


def _operator(
    kind: int, reads: list[int], writes: list[int], options: str = "", **fields: int
) -> schema.OperatorT:
    return operator(_CODES.index(kind), reads, writes, options, **fields)


def _graph(tensors: list, operators: list, reads: list[int], writes: list[int]) -> schema.SubGraphT:
    graph = schema.SubGraphT()
    graph.name, graph.tensors, graph.operators = b"graph", tensors, operators
    graph.inputs, graph.outputs = reads, writes
    return graph


def _model(graphs: Sequence[schema.SubGraphT]) -> bytes:
    buffers = [schema.BufferT()]
    for constant in (
        np.array([1], np.int32),
        np.array([2], np.float32),
        np.array([5], np.int32),
        np.zeros(1, np.int32),
    ):
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(constant.tobytes(), np.uint8)
        buffers.append(buffer)
    return packed(graphs, buffers, _CODES)


def _loop(counter_is_known: bool) -> bytes:
    """x doubled while the counter is below 5."""
    counter = _tensor("start", [1], TYPES.INT32, 4 if counter_is_known else 0)
    main = _graph(
        [counter, _tensor("x", [3]), _tensor("i", [1], TYPES.INT32), _tensor("y", [3])],
        [_operator(KINDS.WHILE, [0, 1], [2, 3], "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)],
        [1] if counter_is_known else [0, 1],
        [3],
    )
    carried = [_tensor("i", [1], TYPES.INT32), _tensor("x", [3])]
    condition = _graph(
        [*carried, _tensor("five", [1], TYPES.INT32, _FIVE), _tensor("goes_on", [1], TYPES.BOOL)],
        [_operator(KINDS.LESS, [0, 2], [3], "LessOptions")],
        [0, 1],
        [3],
    )
    more = [_tensor("one", [1], TYPES.INT32, _ONE), _tensor("two", [1], TYPES.FLOAT32, _TWO)]
    body = _graph(
        [*carried, *more, _tensor("next", [1], TYPES.INT32), _tensor("doubled", [3])],
        [_operator(KINDS.ADD, [0, 2], [4], "AddOptions"), _operator(KINDS.MUL, [1, 3], [5], "MulOptions")],
        [0, 1],
        [4, 5],
    )
    return _model([main, condition, body])


def _branches() -> bytes:
    """x doubled, or x and 2."""
    main = _graph(
        [_tensor("condition", [1], TYPES.BOOL), _tensor("x", [3]), _tensor("y", [3])],
        [_operator(KINDS.IF, [0, 1], [2], "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)],
        [0, 1],
        [2],
    )
    tensors = [_tensor("x", [3]), _tensor("two", [1], TYPES.FLOAT32, _TWO), _tensor("y", [3])]
    then = _graph(tensors, [_operator(KINDS.MUL, [0, 1], [2], "MulOptions")], [0], [2])
    other = _graph(tensors, [_operator(KINDS.ADD, [0, 1], [2], "AddOptions")], [0], [2])
    return _model([main, then, other])


def _reference(data: bytes, feeds: Sequence[np.ndarray]) -> np.ndarray:
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for details, feed in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(details["index"], feed)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def test_a_loop_of_known_trips(tmp_path) -> None:
    path, x = tmp_path / "loop.tflite", np.array([1, -2, 3], np.float32)
    path.write_bytes(_loop(counter_is_known=True))
    graph = import_model(path)
    assert [op.op for op in graph.operators] == ["MUL"] * 5
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], _reference(path.read_bytes(), [x]))


def test_a_loop_that_data_ends(tmp_path) -> None:
    path = tmp_path / "loop.tflite"
    path.write_bytes(_loop(counter_is_known=False))
    with pytest.raises(
        UnsupportedError, match=r"WHILE 'i' .*computed at run time; .*make the number of trips a constant"
    ):
        import_model(path)


@pytest.mark.parametrize("condition", [True, False])
def test_branches(condition: bool, tmp_path) -> None:
    path, x = tmp_path / "branches.tflite", np.array([1, -2, 3], np.float32)
    path.write_bytes(_branches())
    given = np.array([condition])
    found = evaluate(import_model(path), {"condition": given, "x": x})["y"]
    np.testing.assert_array_equal(found, _reference(path.read_bytes(), [given, x]))


class _Level:
    """One level of a sparse tensor, as the schema's accessors show it."""

    def __init__(self, size: int = 0, segments: Sequence[int] = (), indices: Sequence[int] = ()) -> None:
        self.size, self.vectors = size, (segments, indices)

    def Format(self) -> int:
        return 0 if self.size else 1

    def DenseSize(self) -> int:
        return self.size


def test_sparse_blocks(monkeypatch) -> None:
    """A 4x4 matrix in blocks of 2x2, of which two are there; rows of blocks are compressed."""
    levels = [_Level(2), _Level(segments=[0, 1, 2], indices=[1, 0]), _Level(2), _Level(2)]
    monkeypatch.setattr(
        "tosaic.compiler.importers.tflite.sparsity.indices_of", lambda level: map(np.array, level.vectors)
    )

    class Sparsity:
        TraversalOrderAsNumpy = staticmethod(lambda: np.array([0, 1, 2, 3]))
        BlockMapAsNumpy = staticmethod(lambda: np.array([0, 1]))
        BlockMapLength = staticmethod(lambda: 2)
        DimMetadataLength = staticmethod(lambda: 4)
        DimMetadata = staticmethod(lambda index: levels[index])

    found = dense(np.arange(1, 9), Sparsity, (4, 4), Allowance(0))
    np.testing.assert_array_equal(found, [[0, 0, 1, 2], [0, 0, 3, 4], [5, 6, 0, 0], [7, 8, 0, 0]])
