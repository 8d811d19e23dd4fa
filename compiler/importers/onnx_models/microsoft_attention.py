"""Lowers attention and rotary embeddings of ONNX Runtime's own domain."""

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
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.onnx_models.attention import rows, turned
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.scatters import written_rows
from tosaic.compiler.importers.onnx_models.values import OnnxValue
from tosaic.compiler.ir import DType

_FILTER = -10000.0
"""What ONNX Runtime adds to the scores of masked keys."""


@handles("com.microsoft.RotaryEmbedding")
def rotary_embedding(node: OnnxNode) -> OnnxValue:
    """Positions are one for each token, or that of the first one."""
    low, offset = node.low, None
    if node.shape(1) in ((1,), ()):
        length = node.shape(0)[-2]
        line = low.constant(np.arange(length).reshape(1, length), DType.INT32)
        offset = low.add(low.reshape(node.wide(1), (1, 1)), line)
    return turned(node, (2, 3, 1), offset)


# --- Attention and MultiHeadAttention -----------------------------------------------------------------------------


@handles("com.microsoft.Attention")
def attention(node: OnnxNode) -> list[OnnxValue]:
    """One product for queries, keys and values, and attention by heads; past and present are of both."""
    low, heads = node.low, int(node.attr("num_heads"))
    x = matmul(low, node.raw(0), node.raw(1))
    if node.has(2):
        x = low.add(x, node.raw(2))
    width = low.shape(x)[2]
    sizes = [int(size) for size in node.attr("qkv_hidden_sizes", [width // 3] * 3)]
    if len(sizes) != 3 or sum(sizes) != width or min(sizes) < 1:
        raise ValueError(f"hidden sizes {sizes} of {width} columns")
    starts = (0, sizes[0], sizes[0] + sizes[1])
    q, k, v = (
        by_heads(low, low.slice_axis(x, 2, start, size), heads)
        for start, size in zip(starts, sizes, strict=True)
    )
    past = 0
    if node.has(4):
        past = node.shape(4)[3]
        old = [low.reshape(low.slice_axis(node.raw(4), 0, i, 1), node.shape(4)[1:]) for i in (0, 1)]
        k, v = low.concat([old[0], k], 2), low.concat([old[1], v], 2)
    y, _ = _attended(node, (q, k, v), past, (3, 5))
    if not node.wants(1):
        return [node.out_raw(y)]
    if sizes[2] != sizes[1]:
        node.unsupported("a present of keys and values of two sizes", "leave the output out")
    present = low.concat([low.reshape(each, (1, *low.shape(each))) for each in (k, v)], 0)
    return [node.out_raw(y), node.out_raw(present)]


@handles("com.microsoft.MultiHeadAttention")
def multi_head_attention(node: OnnxNode) -> list[OnnxValue]:
    """Attention of projected queries, keys and values, which may come in one tensor, and have a bias."""
    low = node.low
    q, k, v = _operands(node, int(node.attr("num_heads")))
    past = 0
    if node.has(6):
        past = node.shape(6)[2]
        k, v = low.concat([node.raw(6), k], 2), low.concat([node.raw(7), v], 2)
    if node.wants(3) and node.attr("unidirectional", 0):
        node.unsupported("output qk of causal attention", "leave the output out")
    y, scores = _attended(node, (q, k, v), past, (4, 5))
    return [node.out_raw(part) for part in (y, k, v, scores)]


def _operands(node: OnnxNode, heads: int) -> tuple[str, str, str]:
    """Queries, keys and values by heads, with their bias."""
    low, rank = node.low, len(node.shape(0))
    if rank == 5:
        parts = _unpacked(low, node.raw(0), 3)
    elif not node.has(1):
        node.unsupported("a query of rank 3 without a key", "give key and value")
    elif len(node.shape(1)) == 5:
        parts = [node.raw(0), *_unpacked(low, node.raw(1), 2)]
    else:
        parts = [node.raw(0), node.raw(1), node.raw(2)]
    if node.has(3):
        start = 0
        for index, part in enumerate(parts):
            if low.rank(part) == 4:  # keys and values of a cache have theirs
                break
            size = low.shape(part)[2]
            parts[index] = low.add(part, low.slice_axis(node.raw(3), 0, start, size))
            start += size
    q, k, v = (part if low.rank(part) == 4 else by_heads(low, part, heads) for part in parts)
    return q, k, v


def _unpacked(low: Lowering, x: str, count: int) -> list[str]:
    """[batch, positions, heads, count, size] as `count` tensors [batch, positions, heads * size]."""
    batch, positions, heads, packed, size = low.shape(x)
    if packed != count:
        raise ValueError(f"{packed} packed tensors, not {count}")
    return [low.reshape(low.slice_axis(x, 3, i, 1), (batch, positions, heads * size)) for i in range(count)]


def _attended(
    node: OnnxNode, operands: tuple[str, str, str], past: int, masks: tuple[int, int]
) -> tuple[str, str]:
    """The result and the masked scores; `masks` are the indices of the mask of keys and of what is added."""
    low, (q, k, v) = node.low, operands
    batch, _, queries, size = low.shape(q)
    keys = low.shape(k)[2]
    terms = []
    if node.has(masks[0]):
        terms.append(_padding(node, masks[0], (batch, queries, keys)))
    if node.has(masks[1]):
        terms.append(node.raw(masks[1]))
    if node.attr("unidirectional", 0):
        low.make_room((queries, keys), np.int64)
        seen = np.arange(keys)[None, :] <= np.arange(queries)[:, None] + past
        terms.append(infinite(low, low.constant(seen[None, None], DType.BOOL), low.dtype(q)))
    scale = node.attr("scale", 0.0) or 1 / math.sqrt(size)
    made = attend(low, q, k, v, Scores(scale, bias=_total(low, terms)))
    return joined_heads(low, made.y), made.biased


def _total(low: Lowering, terms: list[str]) -> str | None:
    """The sum of what is added to the scores."""
    total = terms[0] if terms else None
    for term in terms[1:]:
        assert total is not None
        total = low.add(total, term)
    return total


def _padding(node: OnnxNode, index: int, sizes: tuple[int, int, int]) -> str:
    """The mask of keys as a summand: lengths, ends and starts, or a number for each key, above 0 where it counts."""
    low, shape = node.low, node.shape(index)
    batch, queries, keys = sizes
    x = node.wide(index)
    if shape in ((batch,), (2 * batch,)):
        line = low.constant(np.arange(keys).reshape(1, 1, 1, keys), DType.INT32)
        ends = low.reshape(low.slice_axis(x, 0, 0, batch), (batch, 1, 1, 1))
        seen = low.greater(ends, line)
        if shape == (2 * batch,):
            starts = low.reshape(low.slice_axis(x, 0, batch, batch), (batch, 1, 1, 1))
            seen = low.binary("LOGICAL_AND", seen, low.greater_equal(line, starts))
    elif shape in ((batch, keys), (batch, queries, keys)):
        x = low.reshape(x, (batch, 1, 1 if len(shape) == 2 else queries, keys))
        seen = low.greater(x, low.scalar(0, x))
    else:
        node.unsupported(
            f"a mask of shape {list(shape)} for {queries} queries and {keys} keys",
            f"give [{batch}], [{batch}, {keys}] or [{batch}, {queries}, {keys}]",
        )
    return infinite(low, seen, low.dtype(node.raw(0)), node.attr("mask_filter_value", _FILTER))


# --- GroupQueryAttention ------------------------------------------------------------------------------------------

(
    _QUERY,
    _KEY,
    _VALUE,
    _PAST_KEY,
    _PAST_VALUE,
    _LAST,
    _TOTAL,
    _COS,
    _SIN,
    _POSITIONS,
    _BIAS,
    _SINK,
) = range(12)


@handles("com.microsoft.GroupQueryAttention")
def group_query_attention(node: OnnxNode) -> list[OnnxValue]:
    """Causal attention with a cache: new keys and values are written behind what it holds of each sequence.

    The cache is as long as the whole sequence will be, or grows. What is behind a sequence's end in it is not defined.
    """
    low = node.low
    q, k, v = _grouped_operands(node)
    batch, heads, queries, size = low.shape(q)
    total = int(node.const(_TOTAL).reshape(-1)[0])
    capacity = node.shape(_PAST_KEY)[2] if node.has(_PAST_KEY) else 0
    if total < queries or (total > queries and not capacity):
        raise ValueError(f"{total} positions, {queries} new and {capacity} in the cache")
    last = low.reshape(node.wide(_LAST), (batch, 1))
    first = low.scalar(0, last) if total == queries else low.plus(last, 1 - queries)
    if node.attr("do_rotary", 0):
        q, k = _turned_pair(node, q, k, first, total == queries)
    present = [
        _cached(node, index, new, first, max(total, capacity))
        for index, new in ((_PAST_KEY, k), (_PAST_VALUE, v))
    ]
    used = [low.slice_axis(each, 2, 0, total) for each in present]
    sink = None
    if node.has(_SINK):
        sink = low.reshape(node.raw(_SINK), (1, heads, 1, 1))
    elif node.attr("smooth_softmax", -1) > 0:
        sink = low.constant(np.zeros((1, heads, 1, 1)), low.dtype(q))
    rules = Scores(
        scale=node.attr("scale", 0.0) or 1 / math.sqrt(size),
        softcap=node.attr("softcap", 0.0),
        bias=_grouped_bias(node, (queries, total), first, last),
        sink=sink,
    )
    y = joined_heads(low, attend(low, q, used[0], used[1], rules).y)
    return [node.out_raw(y), *(node.out_raw(each) for each in present)]


def _grouped_operands(node: OnnxNode) -> tuple[str, str, str]:
    """Queries, keys and values by heads; all three may be in the first input."""
    low, heads, groups = node.low, int(node.attr("num_heads")), int(node.attr("kv_num_heads"))
    if groups < 1 or heads % groups:
        raise ValueError(f"{heads} heads in {groups} groups")
    parts = [node.raw(_QUERY)]
    if node.has(_KEY):
        parts += [node.raw(_KEY), node.raw(_VALUE)]
    else:
        x, width = parts[0], node.shape(_QUERY)[2]
        size, rest = divmod(width, heads + 2 * groups)
        if rest:
            raise ValueError(f"{width} columns of {heads} + 2 * {groups} heads")
        widths, starts = (heads * size, groups * size), (0, heads * size, (heads + groups) * size)
        parts = [low.slice_axis(x, 2, start, widths[min(i, 1)]) for i, start in enumerate(starts)]
    counts = (heads, groups, groups)
    q, k, v = (by_heads(low, part, count) for part, count in zip(parts, counts, strict=True))
    if low.shape(k)[2] != low.shape(q)[2]:
        node.unsupported(
            f"{low.shape(k)[2]} new keys for {low.shape(q)[2]} queries", "use MultiHeadAttention"
        )
    return q, k, v


def _turned_pair(node: OnnxNode, q: str, k: str, first: str, prompt: bool) -> tuple[str, str]:
    """Queries and keys, turned by the angles of their positions; of those given, a prompt takes the very first one."""
    low, queries = node.low, node.low.shape(q)[2]
    line = low.constant(np.arange(queries).reshape(1, queries), DType.INT32)
    if node.has(_POSITIONS):
        positions = node.wide(_POSITIONS)
        if prompt:
            corner = low.slice_axis(low.slice_axis(positions, 0, 0, 1), 1, 0, 1)
            positions = low.add(corner, line)
    else:
        positions = low.add(first, line)
    angles = [rows(low, node.raw(index), positions) for index in (_COS, _SIN)]
    interleaved = bool(node.attr("rotary_interleaved", 0))
    q, k = (rotated(low, x, angles[0], angles[1], interleaved) for x in (q, k))
    return q, k


def _cached(node: OnnxNode, past: int, new: str, first: str, length: int) -> str:
    """The cache of `length` positions with new ones written from `first` on."""
    low = node.low
    batch, groups, queries, _ = low.shape(new)
    if not node.has(past) or queries == length:
        return new
    old = node.raw(past)
    missing = length - node.shape(past)[2]
    if missing > 0:
        old = low.pad(old, ((0, 0), (0, 0), (0, missing), (0, 0)))
    return written_rows(low, old, new, 2, low.reshape(low.broadcast_to(first, (batch, 1)), (batch,)))


def _grouped_bias(node: OnnxNode, sizes: tuple[int, int], first: str, last: str) -> str | None:
    """What is added to the scores; -inf for keys behind the query, before its window, or behind the end."""
    low, (queries, keys) = node.low, sizes
    dtype, window = low.dtype(node.raw(_QUERY)), int(node.attr("local_window_size", -1))
    low.make_room((queries, keys), np.int64)
    line = low.constant(np.arange(keys).reshape(1, 1, keys), DType.INT32)
    if node.attr("causal", 1):
        steps = low.constant(np.arange(queries).reshape(1, queries, 1), DType.INT32)
        here = low.add(low.reshape(first, (low.shape(first)[0], 1, 1)), steps)
        seen = low.greater_equal(here, line)
        if window > 0:
            inside = low.greater(line, low.plus(here, -window))
            seen = low.binary("LOGICAL_AND", seen, inside)
    else:
        seen = low.greater_equal(low.reshape(last, (low.shape(last)[0], 1, 1)), line)
    seen = low.reshape(seen, (low.shape(seen)[0], 1, *low.shape(seen)[1:]))
    known = low.data(seen)
    terms = [] if known is not None and known.all() else [infinite(low, seen, dtype)]
    if node.has(_BIAS):
        terms.append(node.raw(_BIAS))
    return _total(low, terms)
