"""Attention and rotary embeddings (opset 23 and later), and the causal convolution that keeps a state."""

import math

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.attention import (
    Scores,
    attend,
    by_heads,
    infinite,
    joined_heads,
    rotated,
)
from tosaic.compiler.importers.lowering.convolution import convolve
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue
from tosaic.compiler.ir import DType

_PRECISIONS = {1: DType.FP32, 10: DType.FP16, 11: DType.FP32, 16: DType.BF16}
"""Attribute softmax_precision; TOSA has no float64, fp32 stands in."""


@handles("Attention")
def attention(node: OnnxNode) -> list[OnnxValue]:
    """softmax(Q K' scale + bias) V by heads, with a cache, masks, windows and lengths as ONNX defines them.

    A query that may attend no key gives zeros.
    """
    low = node.low
    flat = len(node.shape(0)) == 3
    heads, groups = node.attr("q_num_heads"), node.attr("kv_num_heads")
    q = _by_heads(node, 0, heads)
    new_k, new_v = _by_heads(node, 1, groups), _by_heads(node, 2, groups)
    past = low.shape(node.raw(4))[2] if node.has(4) else 0
    k = low.concat([node.raw(4), new_k], 2) if node.has(4) else new_k
    v = low.concat([node.raw(5), new_v], 2) if node.has(5) else new_v
    batch, _, queries, size = low.shape(q)
    rules = Scores(
        scale=node.attr("scale", 1 / math.sqrt(size)),
        softcap=node.attr("softcap", 0.0),
        bias=_bias(node, batch, queries, low.shape(k)[2], past),
        empty_rows=True,
        precision=_PRECISIONS.get(node.attr("softmax_precision", 0)),
    )
    made = attend(low, q, k, v, rules)
    y = joined_heads(low, made.y) if flat else made.y
    probe = (made.scores, made.capped, made.biased, made.weights)[node.attr("qk_matmul_output_mode", 0)]
    return [node.out_raw(y), node.out_raw(k), node.out_raw(v, node.kind(2)), node.out_raw(probe)]


def _by_heads(node: OnnxNode, index: int, heads: int | None) -> str:
    """An input as [batch, heads, positions, size]."""
    x, shape = node.raw(index), node.shape(index)
    if len(shape) == 4:
        return x
    if len(shape) != 3 or not heads or shape[2] % heads:
        node.unsupported(
            f"input {index} of shape {list(shape)} with {heads} heads",
            "give rank 4, or rank 3 with q_num_heads and kv_num_heads",
        )
    return by_heads(node.low, x, heads)


@handles("RotaryEmbedding")
def rotary_embedding(node: OnnxNode) -> OnnxValue:
    """Pairs of elements turned by the angle of their position."""
    return turned(node, (1, 2, 3))


def turned(node: OnnxNode, indices: tuple[int, int, int], offset: str | None = None) -> OnnxValue:
    """Input 0 with its pairs turned, as it is laid out; `indices` are those of cosines, sines and positions.

    `offset`, of one element, is the position of the first one, if no positions are given.
    """
    low, x = node.low, node.raw(0)
    cosine, sine, position = indices
    flat, heads = len(node.shape()) == 3, int(node.attr("num_heads", 0))
    if flat:
        size = node.shape()[2] // heads if heads else 2 * node.shape(cosine)[-1]
        x = by_heads(low, x, node.shape()[2] // size)
    positions = offset or (node.wide(position) if node.has(position) else None)
    angles = [rows(low, node.raw(i), positions) for i in (cosine, sine)]
    y = rotated(low, x, angles[0], angles[1], bool(node.attr("interleaved", 0)))
    return node.out_raw(joined_heads(low, y) if flat else y)


def rows(low: Lowering, table: str, positions: str | None) -> str:
    """The rows of a table [positions, size] at positions [batch, length] of int32; without them it is done already."""
    if positions is None:
        return table
    known = low.data(positions)
    if known is None:
        return low.gather(table, 0, positions)
    if not 0 <= known.min() <= known.max() < low.shape(table)[0]:
        raise ValueError(f"positions {known.min()} to {known.max()} of {low.shape(table)[0]}")
    return low.reshape(low.take(table, 0, known), (*known.shape, low.shape(table)[1]))


def _bias(node: OnnxNode, batch: int, queries: int, keys: int, past: int) -> str | None:
    """What is added to the scores: 0 or the mask where a query attends a key, -inf where not; None for all zeros."""
    low = node.low
    dtype = low.dtype(node.raw(0))
    left, right = node.attr("left_window_size", -1), node.attr("right_window_size", -1)
    bounds = [(left, 1), (right, -1)] + ([(0, -1)] if node.attr("is_causal", 0) else [])
    bounds = [(size, sign) for size, sign in bounds if size >= 0]
    terms: list[str] = []
    if node.has(3):
        terms.append(_mask(node, keys, dtype))
    # Distance from key to query: known now, unless the number of keys is not.
    low.make_room((queries, keys), np.int64)
    distance = np.arange(queries)[:, None] - np.arange(keys)[None, :]
    if node.has(6):
        lengths = low.reshape(low.cast(node.raw(6), DType.INT32), (batch, 1, 1, 1))
        behind = low.greater(lengths, low.constant(np.arange(keys).reshape(1, 1, 1, keys), DType.INT32))
        allowed = [behind]
        for size, sign in bounds:
            # sign * (distance + length - queries) <= size
            at = low.add(
                low.constant((distance - queries).reshape(1, 1, queries, keys), DType.INT32), lengths
            )
            at = at if sign > 0 else low.negate(at)
            allowed.append(low.greater_equal(low.constant([[[[size]]]], DType.INT32), at))
        terms += [infinite(low, part, dtype) for part in allowed]
    elif bounds:
        seen = np.all([sign * (distance + past) <= size for size, sign in bounds], axis=0)
        terms.append(low.constant(np.where(seen, 0.0, -np.inf).reshape(1, 1, queries, keys), dtype))
    if not terms:
        return None
    bias = terms[0]
    for term in terms[1:]:
        bias = low.add(bias, term)
    return bias


def _mask(node: OnnxNode, keys: int, dtype: DType) -> str:
    """The mask as numbers to add, for all keys."""
    low, mask = node.low, node.raw(3)
    shape = low.shape(mask)
    mask = low.reshape(mask, (1,) * (4 - len(shape)) + shape)
    missing = keys - shape[-1]
    boolean = low.dtype(mask) is DType.BOOL
    if missing > 0:
        mask = low.pad(mask, ((0, 0), (0, 0), (0, 0), (0, missing)), 0 if boolean else -np.inf)
    return infinite(low, mask, dtype) if boolean else low.cast(mask, dtype)


@handles("CausalConvWithState")
def causal_convolution(node: OnnxNode) -> list[OnnxValue]:
    """A depthwise convolution over [batch, channels, length] that sees the past: the state, or zeros."""
    low, x = node.low, node.raw(0)
    (_, channels, _), kernel = node.shape(0), node.shape(1)[2]
    activation = node.attr("activation", "none")
    if activation not in ("none", "silu", "swish"):
        node.unsupported(f"activation {activation!r}", "use none, silu or swish")
    if kernel == 1:
        node.unsupported("a kernel of one position", "its state is empty, which TOSA has not: use Conv")
    if node.has(3):
        whole = low.concat([node.raw(3), x], 2)
    else:
        whole = low.pad(x, ((0, 0), (0, 0), (kernel - 1, 0)))
    bias = node.raw(2) if node.has(2) else low.constant(np.zeros(channels), low.dtype(x))
    weight = low.transpose(node.raw(1), (0, 2, 1))
    y = convolve(low, low.transpose(whole, (0, 2, 1)), weight, bias, [AxisWindow(kernel)], channels)
    y = low.transpose(y, (0, 2, 1))
    if activation != "none":
        y = low.mul(y, low.op("SIGMOID", y))
    state = low.slice_axis(whole, 2, low.shape(whole)[2] - (kernel - 1), kernel - 1)
    return [node.out_raw(y), node.out_raw(state)]
