"""Fourier transforms of real signals: products with constant matrices. Complex numbers are a last axis of two."""

import numpy as np

from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.ir import DType


@handles("RFFT2D")
def real_transform(node: TfliteNode) -> str:
    """Transforms the last two axes, cut or filled with zeros to the given lengths."""
    low, x = node.low, node.x()
    rows, columns = node.integers(1)
    rank = low.rank(x)
    for axis, wanted in ((rank - 2, rows), (rank - 1, columns)):
        pads = [(0, 0)] * rank
        pads[axis] = (0, wanted - low.shape(x)[axis])
        x = low.pad(x, pads)
    low.make_room((4, columns, columns), np.float64)
    samples, frequencies = np.arange(columns), np.arange(columns // 2 + 1)
    turn = np.exp(-2j * np.pi / columns * (np.outer(samples, frequencies) % columns))
    both = matmul(low, x, low.constant(np.hstack((turn.real, turn.imag)), DType.FP32))
    outer = low.shape(both)[:-1]
    if rows > 1:
        node.unsupported(f"a transform of {rows} rows", "transform one axis")
    split = low.reshape(both, (*outer, 2, len(frequencies)))
    return low.transpose(split, [*range(len(outer)), len(outer) + 1, len(outer)])


@handles("COMPLEX_ABS")
def magnitude(node: TfliteNode) -> str:
    """The size of complex numbers."""
    low, x = node.low, node.x()
    return low.sqrt(low.reduce("SUM", low.mul(x, x), [low.rank(x) - 1], keep=False))


@handles("REAL", "IMAG")
def part(node: TfliteNode) -> str:
    """One part of complex numbers."""
    low, x = node.low, node.x()
    axis = low.rank(x) - 1
    taken = low.slice_axis(x, axis, 0 if node.kind == "REAL" else 1, 1)
    return low.reshape(taken, low.shape(x)[:-1])
