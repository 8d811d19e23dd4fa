"""Products with matrices, and look-ups in them."""

import math

import numpy as np

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.matrix import matmul


@handles("innerProduct")
def inner_product(node: CoreMlNode) -> CoreMlValue:
    """Weights [C_out, C_in]. From rank 4 on, the last three axes are C_in, and the result's are C_out, 1, 1."""
    low, p, shape = node.low, node.params, node.shape()
    inner, outer = int(p.inputChannels), int(p.outputChannels)
    lead = shape[:-3] if len(shape) >= 4 else shape[:-1]
    have = math.prod(shape[len(lead) :])
    node.require(have == inner, f"inputChannels is {inner}, the input has {have}")
    node.require(outer > 0, "outputChannels is 0")
    weight = node.constant(node.weights("weights", (outer, inner)).T)
    rows = low.reshape(node.inputs[0].tensor, (math.prod(lead), inner))
    result = matmul(low, rows, weight)
    if p.hasBias:
        result = low.add(result, node.constant(node.weights("bias", [outer])))
    return node.out(result, (*lead, outer, 1, 1) if len(shape) >= 4 else (*lead, outer))


@handles("batchedMatmul")
def batched_matmul(node: CoreMlNode) -> CoreMlValue:
    """numpy.matmul of two inputs, or of one and a constant matrix."""
    low, p, a = node.low, node.params, node.x(0)
    if len(node.inputs) == 2:
        b = node.x(1)
        # A vector is a row on the left and a column on the right; the result keeps that axis.
        a = low.reshape(a, (1, node.shape(0)[0])) if node.rank(0) == 1 else a
        b = low.reshape(b, (node.shape(1)[0], 1)) if node.rank(1) == 1 else b
        a = _swapped(node, a) if p.transposeA and node.rank(0) > 1 else a
        b = _swapped(node, b) if p.transposeB and node.rank(1) > 1 else b
    else:
        # The text says (X1, X2); files hold [X2, X1], as innerProduct does.
        size = (int(p.weightMatrixSecondDimension), int(p.weightMatrixFirstDimension))
        b = node.constant(node.weights("weights", size).T)
        a = _swapped(node, a) if p.transposeA and node.rank() > 1 else a
        b = low.transpose(b, (1, 0)) if p.transposeB else b
    node.require(
        low.shape(a)[-1] == low.shape(b)[-2], f"{list(low.shape(a))} and {list(low.shape(b))} have no product"
    )
    result = matmul(low, a, b)
    if p.hasBias:
        node.require(len(node.inputs) == 1, "a bias goes with constant weights only")
        result = low.add(result, node.constant(node.weights("bias", [low.shape(result)[-1]])))
    return node.out(result)


def _swapped(node: CoreMlNode, x: str) -> str:
    rank = node.low.rank(x)
    return node.low.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


@handles("embedding", "embeddingND")
def embedding(node: CoreMlNode) -> CoreMlValue:
    """Rows of a table: weights [size, vocabulary], whole-numbered inputs in 0 .. vocabulary - 1."""
    low, p, shape = node.low, node.params, node.shape()
    general = node.kind == "embeddingND"
    if general:
        words, size, lead = int(p.vocabSize), int(p.embeddingSize), shape[:-1]
        node.require(len(shape) >= 2 and shape[-1] == 1, "its input must have rank 2 to 5 and end in 1")
    else:
        words, size, lead = int(p.inputDim), int(p.outputChannels), shape[:-3]
        node.require(
            len(shape) >= 4 and shape[-3:] == (1, 1, 1), "its input must have rank 4 or 5 and end in 1, 1, 1"
        )
    node.require(words > 0 and size > 0, "its table is empty")
    table = node.constant(np.ascontiguousarray(node.weights("weights", (size, words)).T))
    known = low.data(node.x())
    if known is not None:
        node.require(
            bool((0 <= known).all() and (known < words).all()), f"an index is not in 0 .. {words - 1}"
        )
    rows = low.gather(table, 0, low.reshape(node.indices(0), (math.prod(lead),)))
    if p.hasBias:
        rows = low.add(rows, node.constant(node.weights("bias", [size])))
    return node.out(rows, (*lead, size) if general else (*lead, size, 1, 1))
