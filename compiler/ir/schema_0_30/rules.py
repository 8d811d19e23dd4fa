"""What only 0.30 forbids: rank limits, signs, types that 1.0 relaxed (tosa-versions, section 6.5).

Runs on operators that still have 0.30's attributes. What both versions forbid is left to `validate`.
"""

import math
from collections.abc import Callable

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.operators import OPERATORS, ByOperator
from tosaic.compiler.ir.tensors import Operator
from tosaic.errors import ModelError

MAX_RANK = 4
RANK_LIMITED = frozenset(
    """ARGMAX REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM REVERSE SLICE TILE
    RESCALE""".split()
)
_UNSIGNED = (DType.UINT8, DType.UINT16)
UNSIGNED_PAIRS = {
    (DType.INT8, DType.UINT8),
    (DType.INT16, DType.UINT8),
    (DType.INT16, DType.UINT16),
    (DType.UINT8, DType.INT8),
    (DType.UINT8, DType.INT16),
    (DType.UINT16, DType.INT16),
}
_MAX_SIZE = 1 << 32
_SPECIFIC = ByOperator[Callable[[Graph, Operator], None]]()
"""Rules of one operator."""


def check(graph: Graph) -> None:
    """Raises ModelError for the first operator or tensor that breaks a rule of 0.30 alone."""
    for tensor in graph.tensors.values():
        if math.prod(tensor.shape) >= _MAX_SIZE:
            raise ModelError(
                f"tensor {tensor}: a tensor must have fewer than 2^32 elements [TOSA 0.30 section 1.5]"
            )
    for op in graph.operators:
        _check_counts(op)
        _check_unsigned(graph, op)
        if op.op in RANK_LIMITED and not 1 <= len(graph.tensors[op.inputs[0]].shape) <= MAX_RANK:
            _fail(graph, op, f"input must have rank 1 to {MAX_RANK}", str(graph.tensors[op.inputs[0]]))
        if op.op in _SPECIFIC:
            _SPECIFIC[op.op](graph, op)


def file_operand_count(op: str) -> int | None:
    """Number of inputs a 0.30 file lists for an operator, the constant operands are attributes; None for any number."""
    operands = OPERATORS[op].operands
    if operands and operands[-1].variadic:
        return None
    return sum(not operand.constant for operand in operands)


def _fail(graph: Graph, op: Operator, rule: str, found: str) -> None:
    sources = ", ".join(str(graph.tensors[name]) for name in op.inputs)
    clause = OPERATORS[op.op].clause
    raise ModelError(f"{op} ({sources or 'no inputs'}): {rule}; found {found} [TOSA 0.30 section {clause}]")


def _check_counts(op: Operator) -> None:
    wanted = file_operand_count(op.op)
    if wanted is not None and len(op.inputs) != wanted:
        raise ModelError(f"{op}: a 0.30 file must list {wanted} inputs; found {len(op.inputs)}")
    if not op.inputs and op.op in ("CONCAT", "COND_IF"):
        raise ModelError(f"{op}: it must have at least one input; found none")
    results = OPERATORS[op.op].results
    if not results[-1].variadic and len(op.outputs) != len(results):
        raise ModelError(f"{op}: it must have {len(results)} outputs; found {len(op.outputs)}")


def _check_unsigned(graph: Graph, op: Operator) -> None:
    types = [graph.tensors[name].dtype for name in (*op.inputs, *op.outputs)]
    if not any(dtype in _UNSIGNED for dtype in types) or OPERATORS[op.op].runs_graphs:
        return
    if op.op != "RESCALE" or tuple(types) not in UNSIGNED_PAIRS:
        _fail(
            graph,
            op,
            "uint8_t and uint16_t are for RESCALE to or from a signed type of 8 or 16 bits",
            " to ".join(dtype.spelling for dtype in types),
        )


@_SPECIFIC.of("CONV2D", "CONV3D", "DEPTHWISE_CONV2D")
def _bias_is_oc(graph: Graph, op: Operator) -> None:
    weight, bias = (graph.tensors[name].shape for name in op.inputs[1:3])
    channels = math.prod(weight[2:4]) if op.op == "DEPTHWISE_CONV2D" else (weight[0] if weight else 0)
    if bias != (channels,):
        _fail(
            graph, op, f"bias must have shape [{channels}], one element per output channel", str(list(bias))
        )


@_SPECIFIC.of("TRANSPOSE_CONV2D")
def _transpose_convolution(graph: Graph, op: Operator) -> None:
    _bias_is_oc(graph, op)
    out_pad, out_shape = op.attributes["out_pad"], op.attributes["out_shape"]
    if min(out_pad, default=0) < 0:
        _fail(graph, op, "out_pad must not be negative", str(out_pad))
    if tuple(out_shape) != graph.tensors[op.outputs[0]].shape:
        _fail(graph, op, f"out_shape must be the shape of output {op.outputs[0]!r}", str(out_shape))


@_SPECIFIC.of("FULLY_CONNECTED")
def _fully_connected(graph: Graph, op: Operator) -> None:
    for name, operand in zip(op.inputs[:2], ("input", "weight"), strict=True):
        if len(graph.tensors[name].shape) != 2:
            _fail(graph, op, f"{operand} must have rank 2", str(graph.tensors[name]))
    _bias_is_oc(graph, op)


@_SPECIFIC.of("COND_IF")
def _condition_is_scalar(graph: Graph, op: Operator) -> None:
    condition = graph.tensors[op.inputs[0]]
    if condition.shape:
        _fail(graph, op, "condition must have rank 0", str(condition))


@_SPECIFIC.of("RESIZE")
def _resize(graph: Graph, op: Operator) -> None:
    if len(graph.tensors[op.inputs[0]].shape) != 4:
        _fail(graph, op, "input must have rank 4", str(graph.tensors[op.inputs[0]]))
    is_float = graph.tensors[op.inputs[0]].dtype.is_float
    for name in (
        ("output_size", "stride_fp", "offset_fp") if is_float else ("output_size", "stride", "offset")
    ):
        values = op.attributes[name]
        if len(values) != 2:
            _fail(graph, op, f"{name} must have two elements", str(values))
    if is_float and op.attributes["shift"] != 0:
        _fail(graph, op, "shift must be 0 for floats", str(op.attributes["shift"]))
    if not is_float and not 1 <= op.attributes["shift"] <= 11:
        _fail(graph, op, "shift must be in the range 1 to 11", str(op.attributes["shift"]))
    if tuple(op.attributes["output_size"]) != graph.tensors[op.outputs[0]].shape[1:3]:
        _fail(
            graph,
            op,
            "output_size must be the height and width of the output",
            f"{op.attributes['output_size']} for {graph.tensors[op.outputs[0]]}",
        )
