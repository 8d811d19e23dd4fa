"""Everything after the quantizer sees integers only, none wider than a lane of the vector unit."""

from collections.abc import Iterator

from tosaic.compiler.ir import DType, Graph, Tensor
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config


def require_integers(graph: Graph) -> None:
    """Raises UnsupportedError naming the first floating-point tensor of a graph and its branches."""
    for tensor in _tensors(graph):
        if tensor.dtype.is_float:
            raise UnsupportedError(
                graph.why_floats
                or f"tensor {tensor} is floating point and Tosaic computes integers: quantize the model to int8 first"
            )


def require_lanes(graph: Graph, config: Config) -> None:
    """Raises UnsupportedError naming the first int48 tensor of a graph and its branches where lanes have fewer bits."""
    if config.vector_bits >= DType.INT48.bits:
        return
    for tensor in _tensors(graph):
        if tensor.dtype is DType.INT48:
            raise UnsupportedError(
                f"tensor {tensor} is wider than the lanes of configuration {config.name!r}, which have "
                f"{config.vector_bits} bits (vector_bits): convolutions of int16, and scales known at run time only, "
                f"need {DType.INT48.bits}"
            )


def _tensors(graph: Graph) -> Iterator[Tensor]:
    for part in graph.walk():
        for name in part.inputs:
            yield part.tensors[name]
        for operator in part.operators:
            for name in (*operator.inputs, *operator.outputs):
                yield part.tensors[name]
