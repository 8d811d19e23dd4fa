"""Everything after the quantizer sees integers only."""

from tosaic.compiler.ir import Graph
from tosaic.errors import UnsupportedError


def require_integers(graph: Graph) -> None:
    """UnsupportedError naming the first floating-point tensor of a graph and its branches."""
    for part in graph.walk():
        order = [
            *part.inputs,
            *(name for operator in part.operators for name in (*operator.inputs, *operator.outputs)),
        ]
        for name in order:
            tensor = part.tensors[name]
            if tensor.dtype.is_float:
                raise UnsupportedError(
                    f"tensor {tensor} is floating point and Tosaic computes integers: quantize the model to int8 first"
                )
