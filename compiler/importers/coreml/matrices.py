"""Products with matrices, and look-ups in them."""

import math

import numpy as np

from tosaic.compiler.importers.coreml.layer import Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.matrix import matmul


@handles("innerProduct")
def inner_product(layer: Layer) -> Blob:
    """Weights [C_out, C_in]. From rank 4 on, the last three axes are C_in, and the result's are C_out, 1, 1."""
    low, p, shape = layer.low, layer.params, layer.shape()
    inner, outer = int(p.inputChannels), int(p.outputChannels)
    lead = shape[:-3] if len(shape) >= 4 else shape[:-1]
    have = math.prod(shape[len(lead) :])
    layer.require(have == inner, f"inputChannels is {inner}, the input has {have}")
    layer.require(outer > 0, "outputChannels is 0")
    weight = layer.constant(layer.weights("weights", (outer, inner)).T)
    rows = low.reshape(layer.inputs[0].tensor, (math.prod(lead), inner))
    result = matmul(low, rows, weight)
    if p.hasBias:
        result = low.add(result, layer.constant(layer.weights("bias", [outer])))
    return layer.out(result, (*lead, outer, 1, 1) if len(shape) >= 4 else (*lead, outer))


@handles("batchedMatmul")
def batched_matmul(layer: Layer) -> Blob:
    """numpy.matmul of two inputs, or of one and a constant matrix."""
    low, p, a = layer.low, layer.params, layer.x(0)
    if len(layer.inputs) == 2:
        b = layer.x(1)
        # A vector is a row on the left and a column on the right; the result keeps that axis.
        a = low.reshape(a, (1, layer.shape(0)[0])) if layer.rank(0) == 1 else a
        b = low.reshape(b, (layer.shape(1)[0], 1)) if layer.rank(1) == 1 else b
        a = _swapped(layer, a) if p.transposeA and layer.rank(0) > 1 else a
        b = _swapped(layer, b) if p.transposeB and layer.rank(1) > 1 else b
    else:
        # The text says (X1, X2); files hold [X2, X1], as innerProduct does.
        size = (int(p.weightMatrixSecondDimension), int(p.weightMatrixFirstDimension))
        b = layer.constant(layer.weights("weights", size).T)
        a = _swapped(layer, a) if p.transposeA and layer.rank() > 1 else a
        b = low.transpose(b, (1, 0)) if p.transposeB else b
    layer.require(
        low.shape(a)[-1] == low.shape(b)[-2], f"{list(low.shape(a))} and {list(low.shape(b))} have no product"
    )
    result = matmul(low, a, b)
    if p.hasBias:
        layer.require(len(layer.inputs) == 1, "a bias goes with constant weights only")
        result = low.add(result, layer.constant(layer.weights("bias", [low.shape(result)[-1]])))
    return layer.out(result)


def _swapped(layer: Layer, x: str) -> str:
    rank = layer.low.rank(x)
    return layer.low.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


@handles("embedding", "embeddingND")
def embedding(layer: Layer) -> Blob:
    """Rows of a table: weights [size, vocabulary], whole-numbered inputs in 0 .. vocabulary - 1."""
    low, p, shape = layer.low, layer.params, layer.shape()
    general = layer.kind == "embeddingND"
    if general:
        words, size, lead = int(p.vocabSize), int(p.embeddingSize), shape[:-1]
        layer.require(len(shape) >= 2 and shape[-1] == 1, "its input must have rank 2 to 5 and end in 1")
    else:
        words, size, lead = int(p.inputDim), int(p.outputChannels), shape[:-3]
        layer.require(
            len(shape) >= 4 and shape[-3:] == (1, 1, 1), "its input must have rank 4 or 5 and end in 1, 1, 1"
        )
    layer.require(words > 0 and size > 0, "its table is empty")
    table = layer.constant(np.ascontiguousarray(layer.weights("weights", (size, words)).T))
    known = low.data(layer.x())
    if known is not None:
        layer.require(
            bool((0 <= known).all() and (known < words).all()), f"an index is not in 0 .. {words - 1}"
        )
    rows = low.gather(table, 0, low.reshape(layer.indices(0), (math.prod(lead),)))
    if p.hasBias:
        rows = low.add(rows, layer.constant(layer.weights("bias", [size])))
    return layer.out(rows, (*lead, size) if general else (*lead, size, 1, 1))
