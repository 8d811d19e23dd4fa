"""Constants that are added to the sums of a convolution become part of its bias, where nothing can exceed int32."""

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphIndex, Operator
from tosaic.compiler.ir.building import add_constant, fresh_name
from tosaic.compiler.legalize.constant_channels import weights_of


def add_to_biases(graph: Graph) -> Graph:
    """A graph with the same outputs, without ADD and SUB of a constant for each channel behind a convolution whose sums
    nobody else reads. The argument is unchanged."""
    graph = graph.copy()
    index, gone = graph.index(), set[int]()
    for number, operator in enumerate(graph.operators):
        found = _convolution_before(graph, index, operator)
        if found is None:
            continue
        convolution, term = found
        bias = _with_term(graph, convolution, term)
        if bias is None:
            continue
        name = add_constant(graph, fresh_name(graph, f"{convolution.inputs[2]}'"), bias, DType.INT32)
        convolution.inputs[2] = name
        convolution.outputs = list(operator.outputs)
        gone.add(number)
    graph.operators = [each for number, each in enumerate(graph.operators) if number not in gone]
    return graph


def _convolution_before(
    graph: Graph, index: GraphIndex, operator: Operator
) -> tuple[Operator, np.ndarray] | None:
    """The convolution whose int32 sums an ADD or SUB reads, and what is added to each channel, int64."""
    if operator.op not in ("ADD", "SUB"):
        return None
    for place, name in enumerate(operator.inputs):
        producer, other = index.producer(name), graph.const(operator.inputs[1 - place])
        if other is None or producer is None or producer.op not in ("CONV2D", "DEPTHWISE_CONV2D"):
            continue
        sums, alone = graph.tensors[name], len(index.consumers(name)) == 1 and name not in graph.outputs
        channels, same = sums.shape[-1], graph.tensors[operator.outputs[0]].shape == sums.shape
        by_channel = other.size in (1, channels) and other.shape[-1:] in ((1,), (channels,))
        if not (
            alone
            and same
            and by_channel
            and sums.dtype is DType.INT32
            and not (place and operator.op == "SUB")
        ):
            continue
        term = np.broadcast_to(other.reshape(-1).astype(np.int64), (channels,))
        return producer, term if operator.op == "ADD" else -term
    return None


def _with_term(graph: Graph, convolution: Operator, term: np.ndarray) -> np.ndarray | None:
    """The bias with the term, int64; None where it is not known, or where sums may exceed int32."""
    found = weights_of(graph, convolution)
    if found is None or graph.tensors[convolution.inputs[0]].dtype is not DType.INT8:
        return None
    weights, bias = found
    axes = (0, 1) if convolution.op == "DEPTHWISE_CONV2D" else (1, 2, 3)
    # No int8 differs from its zero point by more than the type's range.
    most = np.abs(weights).sum(axis=axes).reshape(-1) * (DType.INT8.max - DType.INT8.min)
    total = bias + term
    largest = most + np.maximum(np.abs(total), np.abs(bias) + np.abs(term))
    return total if int(largest.max()) <= DType.INT32.max else None
