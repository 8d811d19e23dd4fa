"""Scatters and TopK, with indices that are known and that are not: the elements are ONNX Runtime's."""

import numpy as np
import onnxruntime
import pytest
from microsoft_cases import Case
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tosaic import Session
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.errors import ModelError, UnsupportedError
from tosaic.sim.golden import evaluate

RANDOM = np.random.default_rng(17)


def model(
    op: str, inputs: list[np.ndarray], known: set[int], outputs: int, **attributes: object
) -> ModelProto:
    """One operator; the inputs `known` are initializers."""
    names = [f"i{number}" for number in range(len(inputs))]
    graph = helper.make_graph(
        [helper.make_node(op, names, [f"o{number}" for number in range(outputs)], **attributes)],
        "test",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for number, (name, array) in enumerate(zip(names, inputs, strict=True))
            if number not in known
        ],
        [helper.make_empty_tensor_value_info(f"o{number}") for number in range(outputs)],
        [numpy_helper.from_array(inputs[number], names[number]) for number in known],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def as_onnx_runtime(
    op: str, inputs: list[np.ndarray], known: set[int], outputs: int = 1, **attributes: object
) -> None:
    given = model(op, inputs, known, outputs, **attributes)
    feeds = {f"i{number}": array for number, array in enumerate(inputs) if number not in known}
    session = onnxruntime.InferenceSession(given.SerializeToString(), providers=["CPUExecutionProvider"])
    narrow = {name: a.astype(np.int32) if a.dtype == np.int64 else a for name, a in feeds.items()}
    found = evaluate(import_onnx(given), narrow)
    for number, wanted in enumerate(session.run(None, feeds)):
        np.testing.assert_allclose(found[f"o{number}"], wanted, rtol=1e-6, atol=1e-6)


def numbers(shape: tuple[int, ...], kind: type) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 9).astype(kind)


@pytest.mark.parametrize("kind", [np.float32, np.int32])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("reduction", ["none", "add", "max", "min"])
@pytest.mark.parametrize(("axis", "wanted"), [(1, (3, 2, 4)), (-3, (2, 5, 4)), (2, (2, 3, 4))])
def test_scatter_elements(axis: int, wanted: tuple, reduction: str, known: bool, kind: type) -> None:
    """The last case covers a corner of the other axes; equal indices where the order does not matter."""
    shape = (3, 5, 4)
    indices = np.argsort(RANDOM.random(shape), axis)[tuple(slice(size) for size in wanted)]
    if reduction != "none":
        indices = indices % 2
    indices = np.where(RANDOM.random(wanted) < 0.3, indices - shape[axis], indices)
    inputs = [numbers(shape, kind), indices, numbers(wanted, kind)]
    as_onnx_runtime("ScatterElements", inputs, {1} if known else set(), axis=axis, reduction=reduction)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.int32, np.int8, np.bool_])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatter_nd(depth: int, kind: type, known: bool) -> None:
    shape = (3, 4, 2)
    places = RANDOM.permutation(np.prod(shape[:depth]))[:3]
    indices = np.stack(np.unravel_index(places, shape[:depth]), -1)
    indices[0] -= shape[:depth]
    inputs = [numbers(shape, kind), indices, numbers((3, *shape[depth:]), kind)]
    as_onnx_runtime("ScatterND", inputs, {1} if known else set())


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_scatter_nd_of_equal_places(reduction: str) -> None:
    inputs = [numbers((4, 3), np.float32), np.array([[1], [3], [1]]), numbers((3, 3), np.float32)]
    as_onnx_runtime("ScatterND", inputs, {1}, reduction=reduction)
    as_onnx_runtime("ScatterND", inputs, set(), reduction=reduction)


@pytest.mark.parametrize("kind", [np.float32, np.int32])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_top_k(axis: int, largest: int, kind: type) -> None:
    """With equal elements."""
    inputs = [RANDOM.integers(-3, 4, (4, 6)).astype(kind), np.array([3])]
    as_onnx_runtime("TopK", inputs, {1}, 2, axis=axis, largest=largest)


def test_refusals() -> None:
    data, updates = numbers((4,), np.int32), numbers((2,), np.int32)
    outside = model("ScatterND", [data, np.array([[4], [0]]), updates], {1}, 1)
    with pytest.raises(ModelError, match=r"ScatterND 'o0'.*indices from 0 to 4 on axes of \[4\]"):
        import_onnx(outside)
    product = model("ScatterND", [data, np.array([[1], [1]]), updates], {1}, 1, reduction="mul")
    with pytest.raises(UnsupportedError, match="ScatterND 'o0'.*integers by no product"):
        import_onnx(product)
    long = numbers((1 << 13,), np.float32)
    with pytest.raises(UnsupportedError, match="TopK 'o0': 1 rows of 8192 elements"):
        import_onnx(model("TopK", [long, np.array([3])], {1}, 2))
    with pytest.raises(UnsupportedError, match="ScatterND 'o0': 8192 updates of 8192 places"):
        import_onnx(model("ScatterND", [long, np.zeros((1 << 13, 1), np.int64), long], set(), 1))


TRUTHS = np.random.default_rng(5).random((3, 4, 2)) < 0.5


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("ReverseSequence", {"lengths": np.array([1, 3, 2, 3])}, {"time_axis": 0, "batch_axis": 1}),
        ("Gather", {"indices": np.array([2, 0, -1])}, {"axis": 0}),
        ("GatherElements", {"indices": RANDOM.integers(-4, 4, (3, 2, 2))}, {"axis": 1}),
        ("GatherND", {"indices": np.array([[2, 1], [0, 3]])}, {}),
        (
            "ScatterElements",
            {"indices": np.array([[[1, 0]]]), "updates": np.array([[[True, True]]])},
            {"axis": 1},
        ),
        ("ScatterND", {"indices": np.array([[1]]), "updates": TRUTHS[:1]}, {}),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_truth_values(op, inputs, attributes, known):
    """Moved as int8, which the machine does: golden and emulator agree with ONNX's reference."""
    given = {"x": TRUTHS, **inputs}
    constants = tuple(name for name in inputs if known)
    made = Case(op, given, ["y"], attributes, constants, "", 18)
    (wanted,) = ReferenceEvaluator(made.model()).run(None, made.feeds())
    graph = import_onnx(made.model())
    feeds = {n: v.astype(np.int32) if v.dtype == np.int64 else v for n, v in made.feeds().items()}
    np.testing.assert_array_equal(evaluate(graph, feeds)["y"], wanted)
    np.testing.assert_array_equal(Session(graph, "emulator").run(feeds)["y"], wanted)
