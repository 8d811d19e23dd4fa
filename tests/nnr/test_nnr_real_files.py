"""Weights where real files have them: Constant nodes, subgraphs, functions of ONNX, TOSA, files without a network."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from test_nnr_cli import call, run

from tosaic import nnr
from tosaic.compiler.importers.nnr_tosa import carried_encodings, carried_graph, encode_tosa
from tosaic.compiler.ir import DType, Graph, Tensor
from tosaic.compiler.ir.tensors import Operator
from tosaic.errors import UnsupportedError
from tosaic.nnr import NnrError, Settings, onnx_carriage, read_bitstream
from tosaic.nnr.onnx_tensors import model_tensors
from tosaic.nnr.units import QuantizationUnit, StartUnit, StorageFormat, TopologyUnit

RNG = np.random.default_rng(19)
FILTER, THEN, ELSE, SCALE = (RNG.normal(size=(4, 4)).astype(np.float32) for _ in range(4))


def constant(name: str, values: np.ndarray) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(values))


def branch(weights: np.ndarray, *, initialized: bool) -> onnx.GraphProto:
    """x @ w, where both branches call their weights `w`."""
    product = helper.make_node("MatMul", ["scaled", "w"], ["y_of_branch"])
    made = [] if initialized else [constant("w", weights)]
    held = [numpy_helper.from_array(weights, "w")] if initialized else []
    result = helper.make_tensor_value_info("y_of_branch", TensorProto.FLOAT, [1, 4])
    return helper.make_graph([*made, product], "branch", [], [result], held)


def branching() -> onnx.ModelProto:
    """y = f(x @ filter) @ (then or else): a Constant node, a function with one, an initializer in a branch."""
    shape = constant("shape", np.array([1, 4], np.int64))
    function = helper.make_function(
        "own",
        "Scaled",
        ["a"],
        ["b"],
        [constant("s", SCALE), helper.make_node("MatMul", ["a", "s"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        shape,
        constant("filter", FILTER),
        helper.make_node("Reshape", ["x", "shape"], ["row"]),
        helper.make_node("MatMul", ["row", "filter"], ["p"]),
        helper.make_node("Scaled", ["p"], ["scaled"], domain="own"),
        helper.make_node(
            "If",
            ["which"],
            ["y"],
            then_branch=branch(THEN, initialized=True),
            else_branch=branch(ELSE, initialized=False),
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("which", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=[function])


def test_the_tensors_of_a_model_have_one_name_each() -> None:
    found = model_tensors(branching())
    assert list(found) == ["shape", "filter", "w", "w#2", "s"]
    for name, values in (("filter", FILTER), ("w", ELSE), ("w#2", THEN), ("s", SCALE)):
        # protobuf keeps attributes in the order in which they were given: else_branch is first.
        assert np.array_equal(numpy_helper.to_array(found[name]), values), name


def test_constants_of_graph_branches_and_functions_are_coded_and_come_back() -> None:
    model = branching()
    data = onnx_carriage.encode_onnx(model, Settings())
    assert [tensor.name for tensor in read_bitstream(data).tensors] == list(model_tensors(model))
    # Not an initializer is left in the topology: only the names.
    topology = onnx.ModelProto.FromString(read_bitstream(data).topology.data)
    assert not any(tensor.raw_data for tensor in model_tensors(topology).values())
    back = onnx_carriage.decode_onnx(data)
    assert back == model
    x = np.array([1, -2, 3, 0.5], np.float32)
    for which in (True, False):
        feeds = {"x": x, "which": np.array(which)}
        assert np.array_equal(
            ReferenceEvaluator(back).run(None, feeds)[0], ReferenceEvaluator(model).run(None, feeds)[0]
        )


def test_a_missing_constant_is_named() -> None:
    found = read_bitstream(onnx_carriage.encode_onnx(branching(), Settings()))
    units = [StartUnit(), found.topology, *(t.unit for t in found.tensors if t.name != "w#2")]
    with (
        pytest.warns(nnr.NnrWarning, match="no NNR_MPS"),
        pytest.raises(NnrError, match="has no tensor 'w#2'"),
    ):
        onnx_carriage.decode_onnx(nnr.write_units(units))


def test_units_in_constant_nodes_and_branches(tmp_path, monkeypatch) -> None:
    """B.4 in the tensors of Constant nodes and subgraphs; the importer reads them."""
    carried = onnx_carriage.carry(branching(), Settings("uniform", relative_step=1e-4))
    assert list(onnx_carriage.carrying_tensors(carried)) == ["filter", "w", "w#2", "s"]
    plain = onnx_carriage.uncarry(carried)
    for name, values in (("filter", FILTER), ("w", ELSE), ("w#2", THEN), ("s", SCALE)):
        found = numpy_helper.to_array(model_tensors(plain)[name])
        assert 0 < np.abs(found - values).max() < 1e-3
    onnx.save(carried, tmp_path / "c.onnx")
    assert run(monkeypatch, "decode", tmp_path / "c.onnx", "-o", tmp_path / "c.npz") == 0
    with np.load(tmp_path / "c.npz") as arrays:
        assert list(arrays) == list(model_tensors(carried))
    graph = helper.make_graph(
        [constant("w", FILTER), helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx_carriage.carry(model, Settings("uniform")), tmp_path / "m.onnx")
    assert call(monkeypatch, "run", tmp_path / "m.onnx", "--random", 1, "--on", "golden") == 0


def test_wide_integers_are_coded_where_int32_holds_them() -> None:
    wide = np.array([2**31, 1], np.int64)
    graph = helper.make_graph(
        [constant("narrow", np.array([-(2**31), 2**31 - 1], np.int64)), constant("wide", wide)], "g", [], []
    )
    model = helper.make_model(graph)
    data = onnx_carriage.encode_onnx(model, Settings())
    assert [tensor.name for tensor in read_bitstream(data).tensors] == ["narrow"]
    assert onnx_carriage.decode_onnx(data) == model


def test_when_nothing_was_coded_a_warning_says_so(tmp_path, monkeypatch, capsys) -> None:
    graph = helper.make_graph(
        [constant("half", np.ones((3, 3), np.float16))],
        "g",
        [],
        [helper.make_tensor_value_info("half", TensorProto.FLOAT16, [3, 3])],
    )
    onnx.save(helper.make_model(graph), tmp_path / "half.onnx")
    for output, options in (("h.nnr", ()), ("c.onnx", ("--method", "uniform"))):
        assert run(monkeypatch, "encode", tmp_path / "half.onnx", "-o", tmp_path / output, *options) == 0
        assert f"{tmp_path / output}: no tensor of the model was coded; " in capsys.readouterr().err


def test_dictionaries_of_arrays() -> None:
    arrays = {
        "f": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
        "h": np.array([0.5, -2], np.float16),
        "i": np.arange(-3, 3, dtype=np.int8),
        "l": np.array(7, np.int64),
        "big": np.array([1, -2], ">i2"),
    }
    found = nnr.decode(nnr.encode(arrays))
    assert list(found) == list(arrays)
    for name, values in arrays.items():
        assert found[name].dtype == (np.float32 if values.dtype.kind == "f" else np.int32)
        assert found[name].shape == values.shape
        assert np.array_equal(found[name], values)
    coarse = nnr.decode(nnr.encode(arrays, Settings("uniform", relative_step=0.5)))
    assert set(coarse["f"].ravel().tolist()) == {-1.0, -0.5, 0.0, 0.5, 1.0}
    for values, message in (
        (np.ones(2), "tensor 'w' is float64, which NNR does not hold; narrow it yourself"),
        (np.array([2**31]), "tensor 'w' of int64 has values outside int32"),
        (np.ones(2, bool), "tensor 'w' is bool; NNR holds float32 and integers of up to 32 bits"),
        (np.array(["a"]), "tensor 'w' is <U1; NNR holds"),
    ):
        with pytest.raises(NnrError, match=message):
            nnr.encode({"w": values})
    twice = read_bitstream(nnr.encode({"w": np.arange(2)})).tensors[0].unit
    with pytest.raises(NnrError, match="two tensors 'w'"), pytest.warns(nnr.NnrWarning):
        nnr.decode(nnr.write_units([StartUnit(), twice, twice]))


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def test_safetensors(tmp_path, monkeypatch, capsys) -> None:
    weights, bias = RNG.normal(size=(3, 5)).astype("<f4"), np.array([1.5, -0.375], "<f2")
    source = tmp_path / "w.safetensors"
    parts = {
        "layer.weight": ("F32", [3, 5], weights.tobytes()),
        "layer.bias": ("F16", [2], bias.tobytes()),
        # The upper halves of 1.0 and -2.0.
        "norm": ("BF16", [2], bytes.fromhex("803f00c0")),
        "steps": ("I64", [], (123).to_bytes(8, "little")),
    }
    source.write_bytes(safetensors(parts))
    assert run(monkeypatch, "encode", source, "-o", tmp_path / "w.nnr", "--method", "uniform") == 0
    found = nnr.decode((tmp_path / "w.nnr").read_bytes())
    # What has fewer than two dimensions is kept exactly, as in a network.
    assert [found[name].tolist() for name in ("layer.bias", "norm", "steps")] == [
        [1.5, -0.375],
        [1.0, -2.0],
        123,
    ]
    assert 0 < np.abs(found["layer.weight"] - weights).max() < np.abs(weights).max() / 127
    good = source.read_bytes()
    capsys.readouterr()
    for data, message in (
        (b"", "no safetensors file"),
        (good[:50], "no safetensors file: ValueError: its header ends at byte"),
        (good[:-20], "are not tensor 'layer.weight' of F32"),
        (
            safetensors({"a": ("F8_E4M3", [1], b"\0")}),
            "of the safetensors type F8_E4M3, which NNR does not hold",
        ),
        (safetensors({"a": ("F64", [1], bytes(8))}), "tensor 'a' is float64"),
        ((2).to_bytes(8, "little") + b"[]", "no safetensors file: AttributeError"),
    ):
        source.write_bytes(data)
        assert run(monkeypatch, "encode", source, "-o", tmp_path / "w.nnr") == 1
        errors = capsys.readouterr().err.splitlines()
        assert len(errors) == 1
        assert message in errors[0]


def product_graph() -> Graph:
    """y = x @ w in TOSA, with bfloat16 numbers beside it that are too short for a payload's rounding."""
    names = {"x": (1, 1, 8), "w": (1, 8, 8), "b": (1, 1, 32), "zero": (1,), "y": (1, 1, 8)}
    values = {
        "w": np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 8, 8),
        "b": np.ones((1, 1, 32), np.float32),
        "zero": np.zeros(1, np.float32),
    }
    dtypes = {"b": DType.BF16}
    tensors = {n: Tensor(n, shape, dtypes.get(n, DType.FP32), values.get(n)) for n, shape in names.items()}
    matmul = Operator("MATMUL", ["x", "w", "zero", "zero"], ["y"], {}, "MATMUL_0")
    return Graph("main", ["x"], ["y", "b"], tensors, [matmul])


def test_what_a_tosa_topology_keeps_and_what_it_refuses() -> None:
    graph = product_graph()
    found = read_bitstream(encode_tosa(graph, Settings()))
    assert [tensor.name for tensor in found.tensors] == ["w"]
    back = carried_graph(found)
    assert back.inputs == ["x"]
    for name in ("w", "b", "zero"):
        assert np.array_equal(back.tensors[name].data, graph.tensors[name].data)
    unit = found.tensors[0].unit
    for units, message in (
        ([found.topology, unit, unit], "'w' is no input of the TOSA topology"),
        (
            [TopologyUnit(StorageFormat.TOSA, b"abc"), unit],
            "topology: the .tosa data is not a TOSA flatbuffer",
        ),
        ([TopologyUnit(StorageFormat.ONNX, b""), unit], "carries no TOSA topology"),
    ):
        with pytest.warns(nnr.NnrWarning), pytest.raises(NnrError, match=message):
            carried_graph(read_bitstream(nnr.write_units([StartUnit(), *units])))
    for values, message in (
        (np.ones((1, 64), np.float32), r"has shape \(1, 64\), TOSA says \(1, 8, 8\)"),
        (np.ones((1, 8, 8), np.int8), "is coded as int32, TOSA says fp32"),
    ):
        other = read_bitstream(nnr.encode({"w": values})).tensors[0].unit
        with pytest.warns(nnr.NnrWarning), pytest.raises(NnrError, match=message):
            carried_graph(read_bitstream(nnr.write_units([StartUnit(), found.topology, other])))
    graph.states["x"] = None
    with pytest.raises(UnsupportedError, match="input 'x' carries a state from run to run"):
        encode_tosa(graph, Settings())


def test_integers_of_a_tosa_network_must_fit_their_type() -> None:
    graph = Graph("main", [], ["w"], {"w": Tensor("w", (64,), DType.INT8, np.arange(64, dtype=np.int8))}, [])
    found = read_bitstream(encode_tosa(graph, Settings()))
    large = read_bitstream(nnr.encode({"w": np.full(64, 128)})).tensors[0].unit
    with pytest.warns(nnr.NnrWarning), pytest.raises(NnrError, match="'w' has values outside int8"):
        carried_graph(read_bitstream(nnr.write_units([StartUnit(), found.topology, large])))
    scales = QuantizationUnit(StorageFormat.TOSA, b"\xff")
    data = nnr.write_units([StartUnit(), found.topology, scales, large])
    with pytest.warns(nnr.NnrWarning), pytest.raises(NnrError, match="quantization information is not UTF-8"):
        carried_encodings(read_bitstream(data))
