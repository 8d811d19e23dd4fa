"""The rules of the ONNX IR: each malformed or odd model gets an error of its own, or is accepted."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.errors import InputError, ModelError, UnsupportedError
from tosaic.sim.golden import evaluate

FLOAT = TensorProto.FLOAT


def info(name, shape=(2,), kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def model(nodes, inputs=None, outputs=None, constants=(), opsets=(("", 17),), name="g", ir_version=8):
    initializers = [numpy_helper.from_array(array, of) for of, array in constants]
    graph = helper.make_graph(nodes, name, inputs or [info("x")], outputs or [info("y")], initializers)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    built = helper.make_model(
        graph, opset_imports=imports or [helper.make_opsetid("", 17)], ir_version=ir_version
    )
    if not imports:
        del built.opset_import[:]
    return built


RELU = [node("Relu", ["x"], ["y"])]
TWO = ("w", np.ones(2, np.float32))

REJECTED = {
    "cycle": (
        model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], outputs=[info("b")]),
        ModelError,
        "Add 'a' reads 'b' before the node that writes it: nodes must be sorted, without cycles",
    ),
    "not sorted": (
        model([node("Relu", ["a"], ["y"]), node("Relu", ["x"], ["a"])]),
        ModelError,
        "Relu 'y' reads 'a' before the node that writes it",
    ),
    "output written twice": (
        model([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])]),
        ModelError,
        "Neg 'y' writes 'y', which is defined already",
    ),
    "output shadows an input": (
        model([node("Relu", ["x"], ["x"])], outputs=[info("x")]),
        ModelError,
        "Relu 'x' writes 'x', which is defined already",
    ),
    "output shadows an initializer": (
        model([node("Relu", ["x"], ["w"])], outputs=[info("w")], constants=[TWO]),
        ModelError,
        "Relu 'w' writes 'w', which is defined already",
    ),
    "undefined input": (
        model([node("Relu", ["q"], ["y"])]),
        ModelError,
        "Relu 'y' reads 'q', which nothing defines",
    ),
    "output never produced": (
        model(RELU, outputs=[info("z")]),
        ModelError,
        "graph output 'z' is produced by no node",
    ),
    "no opset": (model(RELU, opsets=()), ModelError, "opset_import does not name the default domain"),
    "opset too new": (model(RELU, opsets=[("", 99)]), UnsupportedError, "opset 99 cannot be imported: 7 to "),
    "old opset that cannot be converted": (
        model([node("Pad", ["x"], ["y"], paddings=[0, 0])], opsets=[("", 1)]),
        UnsupportedError,
        "opset 1 is older than 7, and the onnx package cannot convert the model: No Adapter From Version",
    ),
    "one domain twice": (
        model(RELU, opsets=[("", 17), ("", 16)]),
        ModelError,
        "opset_import names the domain 'ai.onnx' with the versions 17 and 16; keep one",
    ),
    "custom domain": (
        model([node("Magic", ["x"], ["y"], domain="acme")], opsets=[("", 17), ("acme", 1)]),
        UnsupportedError,
        "operator Magic of domain 'acme' has no importer",
    ),
    "unknown operator": (
        model([node("Magic", ["x"], ["y"])]),
        ModelError,
        "Magic 'y': opset 17 has no operator Magic",
    ),
    "unknown attribute": (
        model([node("Relu", ["x"], ["y"], slope=1.0)]),
        ModelError,
        "Relu 'y': operator Relu has no attribute 'slope'",
    ),
    "required attribute missing": (
        model([node("Concat", ["x", "x"], ["y"])], outputs=[info("y", (4,))]),
        ModelError,
        "Concat 'y': required attribute 'axis' is missing",
    ),
    "attribute type": (
        model([node("Concat", ["x", "x"], ["y"], axis=0.5)], outputs=[info("y", (4,))]),
        ModelError,
        "Concat 'y': attribute 'axis' must be of type",
    ),
    "too few inputs": (model([node("Add", ["x"], ["y"])]), ModelError, "Add 'y' has 1 inputs, not 2 to 2"),
    "too many inputs": (
        model([node("Relu", ["x", "x"], ["y"])]),
        ModelError,
        "Relu 'y' has 2 inputs, not 1 to 1",
    ),
    "required input empty": (
        model([node("Add", ["x", ""], ["y"])]),
        ModelError,
        "Add 'y': required input B is empty",
    ),
    "output shape contradicts": (
        model(RELU, outputs=[info("y", (3,))]),
        ModelError,
        "types and shapes contradict each other",
    ),
    "output type contradicts": (
        model(RELU, outputs=[info("y", (2,), TensorProto.INT32)]),
        ModelError,
        "types and shapes contradict each other",
    ),
    "operand types differ": (
        model([node("Add", ["x", "w"], ["y"])], constants=[("w", np.ones(2, np.int32))]),
        ModelError,
        "types and shapes contradict each other",
    ),
    "no broadcast": (
        model([node("Add", ["x", "w"], ["y"])], constants=[("w", np.ones(3, np.float32))]),
        ModelError,
        "types and shapes contradict each other",
    ),
    "symbolic dimension": (
        model(RELU, inputs=[info("x", ("N",))], outputs=[info("y", ("N",))]),
        InputError,
        "input 'x': dimension 'N' is open, and TOSA needs static shapes; give --shape N=1",
    ),
    "unknown rank": (
        model(RELU, inputs=[info("x", None)], outputs=[info("y", None)]),
        InputError,
        "input 'x' has no rank",
    ),
    "IR version": (model(RELU, ir_version=99), ModelError, "IR version 99 is not known"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    given, error, message = REJECTED[case]
    with pytest.raises(error) as caught:
        import_onnx(given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_initializer_of_wrong_length():
    given = model([node("Add", ["x", "w"], ["y"])], constants=[TWO])
    given.graph.initializer[0].dims[0] = 5
    with pytest.raises(ModelError, match=r"initializer 'w' does not hold dims \[5\]"):
        import_onnx(given)


X = np.array([-1, 2], np.float32)


def opset_6(op, slope, x_shape, **attributes):
    return model(
        [node(op, ["x", "w"], ["y"], **attributes)],
        inputs=[info("x", x_shape)],
        outputs=[info("y", x_shape)],
        constants=[("w", np.asarray(slope, np.float32))],
        opsets=[("", 6)],
    )


IMAGE = np.arange(-18, 18, dtype=np.float32).reshape(1, 3, 3, 4)
PER_CHANNEL = np.array([1, 2, 3], np.float32).reshape(3, 1, 1)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (opset_6("Add", [1, 2, 3], (1, 3, 3, 4), broadcast=1, axis=1), IMAGE + PER_CHANNEL),
        (opset_6("PRelu", [1, 2, 3], (1, 3, 3, 4)), np.where(IMAGE < 0, IMAGE * PER_CHANNEL, IMAGE)),
        (opset_6("PRelu", [2], (1, 3, 3, 4)), np.where(IMAGE < 0, IMAGE * 2, IMAGE)),
    ],
)
def test_old_opsets_are_converted(given, wanted):
    graph = import_onnx(given)
    assert graph.inputs == ["x"]
    assert np.array_equal(evaluate(graph, {"x": IMAGE})["y"], wanted)


ACCEPTED = {
    "one domain twice with one version": (model(RELU, opsets=[("", 17), ("", 17)]), np.maximum(X, 0)),
    "valid": (model(RELU), np.maximum(X, 0)),
    "names that C does not know": (
        model([node("Relu", ["x"], ["gpu_0/a"]), node("Neg", ["gpu_0/a"], ["y"])]),
        -np.maximum(X, 0),
    ),
    "optional input left out": (
        model([node("Clip", ["x", "", "top"], ["y"])], constants=[("top", np.float32(1.5).reshape(()))]),
        np.minimum(X, 1.5),
    ),
    "initializer that is an input too": (
        model([node("Add", ["x", "w"], ["y"])], inputs=[info("x"), info("w")], constants=[TWO], ir_version=3),
        X + 1,
    ),
    "initializer of IR 3 that is no input": (
        model([node("Add", ["x", "w"], ["y"])], constants=[TWO], ir_version=3),
        X + 1,
    ),
    "output is an input": (model([node("Relu", ["x"], ["z"])], outputs=[info("x")]), X),
    "output is a constant": (model(RELU, outputs=[info("w")], constants=[TWO]), np.ones(2)),
    "one tensor, two outputs": (
        model(
            [node("Neg", ["x"], ["a"]), node("Identity", ["a"], ["y"]), node("Identity", ["a"], ["z"])],
            outputs=[info("y"), info("z")],
        ),
        -X,
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case):
    given, wanted = ACCEPTED[case]
    graph = import_onnx(given)
    assert graph.outputs == [value.name for value in given.graph.output]
    (name,) = graph.inputs
    for result in evaluate(graph, {name: X}).values():
        assert np.array_equal(result, wanted)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("given", "warning"),
    [
        (model(RELU, name=""), "the ONNX graph has no name"),
        (
            model([node("Relu", ["x"], ["a"], name="n"), node("Relu", ["a"], ["y"], name="n")]),
            "two ONNX nodes are called 'n'",
        ),
    ],
)
def test_warned(given, warning):
    with pytest.warns(UserWarning, match=warning):
        import_onnx(given)


def test_local_function_is_expanded():
    body = [node("Add", ["a", "a"], ["t"]), node("Relu", ["t"], ["b"])]
    function = helper.make_function("acme", "DoubleRelu", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    graph = helper.make_graph(
        [node("DoubleRelu", ["x"], ["y"], domain="acme")], "g", [info("x")], [info("y")]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    built = helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=8)
    assert np.array_equal(evaluate(import_onnx(built), {"x": X})["y"], np.maximum(2 * X, 0))


def test_external_data(tmp_path):
    path = tmp_path / "m.onnx"
    given = model([node("Add", ["x", "w"], ["y"])], constants=[TWO])
    onnx.save(given, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert np.array_equal(evaluate(import_onnx(path), {"x": X})["y"], X + 1)


def test_external_data_missing(tmp_path):
    path = tmp_path / "m.onnx"
    given = model([node("Add", ["x", "w"], ["y"])], constants=[TWO])
    onnx.save(given, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelError, match="w.bin"):
        import_onnx(path)
