"""Nodes whose inputs are all known are computed now, by the reference operators of the package onnx.

This is no second constant folder: ONNX's operators have types and operators that TOSA lacks (int64, strings, NonZero),
and what decides shapes must be known before there is anything in TOSA. Constants in TOSA fold in `ir/building`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering.allowance import Allowance
from tosaic.compiler.importers.onnx_models import package_process
from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.compiler.importers.onnx_models.values import OnnxValue
from tosaic.errors import UnsupportedError

_RANDOM = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
# The reference operator for n-grams takes the time that its attributes say.
_NEVER = (*_RANDOM, "If", "Loop", "Scan", "Dropout", "TfIdfVectorizer")
_NO_LARGER = frozenset(
    """Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh Cast CastLike Ceil Clip Compress Constant Cos Cosh CumSum
    DepthToSpace DequantizeLinear Elu Erf Exp Flatten Floor Gelu HardSigmoid HardSwish Hardmax Identity IsInf IsNaN
    LeakyRelu Log LogSoftmax Mish Neg NonZero Not QuantizeLinear Reciprocal ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape ReverseSequence
    Round Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze
    Tan Tanh ThresholdedRelu TopK Transpose Trilu Unsqueeze""".split()
)
"""Operators whose results have no more elements than their first input, or a few for each axis."""
_BROADCAST = frozenset(
    """Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min
    Mod Mul Or Pow PRelu Sub Sum Where Xor""".split()
)
_OTHER_WORK = 1 << 24
"""Elements read times elements made of operators that loop over windows or points in Python."""

LARGEST = 1 << 28
"""Elements of the largest constant of one repeated value; VGG-19 as the package onnx has it has one of 103 million."""


def computable(op: str, inputs: Sequence[OnnxValue | None]) -> bool:
    """Whether a node can be computed now."""
    return op not in _NEVER and all(value is None or value.data is not None for value in inputs)


def compute(
    node: Any, inputs: Sequence[OnnxValue | None], opset: int, allowance: Allowance
) -> list[np.ndarray] | None:
    """The node's results; None when the reference operators do not compute it, or not in reasonable time.

    TooLargeError when the results are larger than the allowance.
    """
    onnx = load_onnx_package()
    feeds = {
        name: value.data
        for name, value in zip(node.input, inputs, strict=True)
        if value is not None and value.data is not None and name
    }
    if node.op_type == "ConstantOfShape":
        return [_filled(node, inputs)]
    if node.op_type == "GatherElements":
        _check_indices(node, feeds)
    count = _elements(onnx, node, inputs, feeds, opset)
    if count is None:
        return None
    allowance.check(count * max([4, *(data.itemsize for data in feeds.values())]), "its constant result")
    try:
        infos = [onnx.helper.make_tensor_value_info(name, 0, None) for name in feeds]
        outputs = [onnx.helper.make_tensor_value_info(name, 0, None) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "folding", infos, outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
        with np.errstate(all="ignore"):
            results = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    except Exception:
        # Whatever the reference cannot do is left to the lowering, which says what it cannot do.
        return None
    if any(not isinstance(result, np.ndarray | np.generic) for result in results):
        return None  # a sequence or an optional
    found = iter(results)
    values = [np.asarray(next(found)) if name else np.zeros(0) for name in node.output]
    if any(value.dtype == object for value in values):
        return None
    return [allowance.hold(value, "its constant result") for value in values]


def _check_indices(node: Any, feeds: dict[str, np.ndarray]) -> None:
    """Raises ValueError for indices that GatherElements' axis has not: the reference takes one length off at a time."""
    data, indices = (feeds[name] for name in node.input)
    size = data.shape[next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)]
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        raise ValueError(f"indices from {indices.min()} to {indices.max()} on an axis of {size}")


def _filled(node: Any, inputs: Sequence[OnnxValue | None]) -> np.ndarray:
    """ConstantOfShape: one element, seen everywhere; it takes no memory until something else is made of it."""
    onnx = load_onnx_package()
    shape = inputs[0].data if inputs and inputs[0] is not None else None
    sizes = [int(size) for size in np.atleast_1d(np.zeros(0, np.int64) if shape is None else shape)]
    if math.prod(sizes) > LARGEST:
        raise UnsupportedError(
            f"ConstantOfShape {node.output[0]!r} makes a constant of {math.prod(sizes):,} elements; at most "
            f"{LARGEST:,} are computed: make it smaller"
        )
    value = next((onnx.numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"), None)
    one = np.zeros((), np.float32) if value is None else value.reshape(())
    return np.broadcast_to(one, sizes)


def _elements(
    onnx: Any, node: Any, inputs: Sequence[OnnxValue | None], feeds: dict[str, np.ndarray], opset: int
) -> int | None:
    """Elements of the results, before they are computed; None if they are not known, or take too long."""
    data = [None if value is None else value.data for value in inputs]
    first = data[0].size if data and data[0] is not None else 0
    try:
        if node.op_type in _NO_LARGER:
            return first + 64
        if node.op_type in _BROADCAST:
            return math.prod(np.broadcast_shapes(*(value.shape for value in feeds.values())))
        if node.op_type == "Concat":
            return sum(value.size for value in data if value is not None)
        if node.op_type == "Expand":
            return first * math.prod(int(size) for size in feeds[node.input[1]].reshape(-1))
        if node.op_type == "Tile":
            return first * math.prod(int(size) for size in feeds[node.input[1]].reshape(-1))
        if node.op_type == "OneHot":
            return first * int(feeds[node.input[1]].reshape(-1)[0])
        if node.op_type == "Range":
            start, limit, step = (float(feeds[name].reshape(-1)[0]) for name in node.input)
            return max(math.ceil((limit - start) / step), 0)
    except (ArithmeticError, LookupError, ValueError):
        return None
    made = _inferred(onnx, node, feeds, opset)
    if made is None:
        return None
    read = max([1, *(value.size for value in feeds.values())])
    heavy = node.op_type not in ("Gather", "GatherElements", "GatherND", "MatMul", "Gemm", "Pad", "EyeLike")
    return None if heavy and made * read > _OTHER_WORK else made


def _inferred(onnx: Any, node: Any, feeds: dict[str, np.ndarray], opset: int) -> int | None:
    """Elements of the results by shape inference; None if it does not tell."""
    helper = onnx.helper
    try:
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in feeds.items()
        ]
        small = [
            onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
            for name, value in feeds.items()
            if value.size <= 64
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "shape", infos, outputs, small)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    except Exception:
        # The package's own classes; what it does not take is not computed.
        return None
    try:
        found = package_process.infer_shapes(model).graph.output
    except package_process.PackageRefusalError:
        return None
    total = 0
    for value in found:
        sizes = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        known = value.type.tensor_type.HasField("shape")
        if not known or any(d.WhichOneof("value") != "dim_value" for d in value.type.tensor_type.shape.dim):
            return None
        total += math.prod(sizes)
    return total
