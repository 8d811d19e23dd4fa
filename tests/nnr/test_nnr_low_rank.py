"""ONNX models with layers split in two of lower rank (9.1), against onnx's own reference evaluator."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tosaic.nnr import NnrError
from tosaic.nnr.onnx_low_rank import factor_layers

RNG = np.random.default_rng(8)


def of_rank(rank: int, *shape: int) -> np.ndarray:
    """Weights whose matrix of shape[0] rows has that rank."""
    columns = int(np.prod(shape[1:]))
    return (
        (RNG.normal(size=(shape[0], rank)) @ RNG.normal(size=(rank, columns)))
        .reshape(shape)
        .astype(np.float32)
    )


def model(
    node: onnx.NodeProto, x: tuple[int, ...], y: tuple[int, ...], **tensors: np.ndarray
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(values, name) for name, values in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weights_of(proto: onnx.ModelProto) -> int:
    return sum(int(np.prod(tensor.dims)) for tensor in proto.graph.initializer)


MATMUL = model(helper.make_node("MatMul", ["x", "w"], ["y"]), (5, 12), (5, 10), w=of_rank(2, 12, 10))
GEMM = model(
    helper.make_node("Gemm", ["x", "w", "b"], ["y"], "fc", alpha=0.5, beta=2.0, transB=1),
    (5, 12),
    (5, 10),
    w=of_rank(3, 10, 12),
    b=RNG.normal(size=10).astype(np.float32),
)
CONV = model(
    helper.make_node("Conv", ["x", "w", "b"], ["y"], strides=[2, 1], pads=[1, 0, 1, 1], dilations=[1, 2]),
    (2, 6, 9, 8),
    (2, 10, 5, 5),
    w=of_rank(4, 10, 6, 3, 3),
    b=RNG.normal(size=10).astype(np.float32),
)


@pytest.mark.parametrize("proto", [MATMUL, GEMM, CONV], ids=["MatMul", "Gemm", "Conv"])
def test_weights_of_low_rank_are_split_without_loss(proto: onnx.ModelProto) -> None:
    factored, names = factor_layers(proto, 1 - 1e-10)
    assert names == ["w"]
    assert len(factored.graph.node) == 2
    assert weights_of(factored) < weights_of(proto)
    onnx.checker.check_model(factored, full_check=True)
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = RNG.normal(size=shape).astype(np.float32)
    expected, found = (ReferenceEvaluator(each).run(None, {"x": x})[0] for each in (proto, factored))
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
    assert [tensor.name for tensor in proto.graph.initializer][0] == "w", "the model itself is not changed"


def test_fewer_weights_for_less_energy() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    proto = model(node, (1, 40), (1, 40), w=(of_rank(40, 40, 40) * 0.05 + of_rank(2, 40, 40)))
    sizes = [weights_of(factor_layers(proto, energy)[0]) for energy in (0.5, 0.9, 1.0)]
    assert sizes[0] < sizes[1] < sizes[2] == 1600


def test_what_stays_as_it_is() -> None:
    full = RNG.normal(size=(12, 10)).astype(np.float32)
    low = of_rank(1, 12, 10)
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    nan = low.copy()
    nan[0, 0] = np.nan
    grouped = helper.make_node("Conv", ["x", "w"], ["y"], group=2)
    turned = helper.make_node("Gemm", ["x", "w"], ["y"], transA=1)
    cases = [
        model(product, (5, 12), (5, 10), w=full),
        model(product, (5, 12), (5, 10), w=nan),
        model(grouped, (1, 12, 5, 5), (1, 8, 3, 3), w=of_rank(1, 8, 6, 3, 3)),
        model(turned, (12, 5), (5, 10), w=low),
    ]
    shared = model(product, (5, 12), (5, 10), w=low)
    shared.graph.node.append(helper.make_node("MatMul", ["x", "w"], ["z"]))
    overridable = model(product, (5, 12), (5, 10), w=low)
    overridable.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [12, 10]))
    for proto in (*cases, shared, overridable):
        factored, names = factor_layers(proto, 0.9999)
        assert names == []
        assert factored == proto
    with pytest.raises(NnrError, match="above 0 and at most 1, not 1.5"):
        factor_layers(MATMUL, 1.5)
