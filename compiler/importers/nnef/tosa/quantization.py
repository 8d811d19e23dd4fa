"""Lowers pseudo-quantization (4.9.5), as operations and by `graph.quant` (7.1)."""

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.grids import linear_grid, logarithmic_grid
from tosaic.compiler.importers.nnef.tosa.node import NnefNode
from tosaic.compiler.importers.nnef.tosa.registry import handles


@handles("linear_quantize")
def linear_quantize(node: NnefNode) -> str:
    """2^bits values from min to max, ties upward."""
    x, low, high = node.aligned("x", "min", "max")
    return linear_grid(node.low, x, low, high, node["bits"])


@handles("logarithmic_quantize")
def logarithmic_quantize(node: NnefNode) -> str:
    """The nearest powers of two up to that of max, with the sign of x."""
    x, top = node.aligned("x", "max")
    return logarithmic_grid(node.low, x, top, node["bits"])


def quantized(low: Lowering, x: str, algorithm: str, parameters: dict[str, float], bits: int) -> str:
    """x after an algorithm of `graph.quant`, whose parameters are numbers."""
    top = low.scalar(parameters["max"], x)
    if algorithm == "linear_quantize":
        return linear_grid(low, x, low.scalar(parameters["min"], x), top, bits)
    return logarithmic_grid(low, x, top, bits)
