"""Attention by heads: [batch, heads, positions, size]."""

import math
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.importers.lowering import statistics
from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.ir import DType


@dataclass
class Scores:
    """What becomes of Q K' on its way to the weights of the values."""

    scale: float
    softcap: float = 0.0
    bias: str | None = None
    """Added behind the soft cap; -inf where a query attends no key."""
    empty_rows: bool = False
    """Whether a query may attend no key at all: it gives zeros."""
    sink: str | None = None
    """[1, heads, 1, 1]: scores of one more key for each head, without a value."""
    precision: DType | None = None
    """Type of the softmax; default: that of the scores."""


@dataclass
class Attended:
    """The result and what it comes of: scores, scores behind the soft cap, behind the bias, and weights."""

    y: str
    scores: str
    capped: str
    biased: str
    weights: str


def attend(low: Lowering, q: str, k: str, v: str, rules: Scores) -> Attended:
    """softmax(Q K' scale + bias) V; groups of query heads may share a head of keys and values."""
    k, v = (_repeated(low, x, low.shape(q)[1]) for x in (k, v))
    root = math.sqrt(abs(rules.scale))
    keys = low.times(low.transpose(k, (0, 1, 3, 2)), math.copysign(root, rules.scale))
    scores = matmul(low, low.times(q, root), keys)
    capped = scores
    if rules.softcap > 0:
        capped = low.times(low.op("TANH", low.times(scores, 1 / rules.softcap)), rules.softcap)
    biased = capped if rules.bias is None else low.add(capped, rules.bias)
    wide = low.cast(biased, rules.precision or low.dtype(biased))
    if rules.sink is not None:
        weights = _softmax_with_sink(low, wide, low.cast(rules.sink, low.dtype(wide)))
    elif rules.bias is not None and rules.empty_rows:
        weights = _masked_softmax(low, wide, low.cast(rules.bias, low.dtype(wide)))
    else:
        weights = statistics.softmax(low, wide, (3,))
    weights = low.cast(weights, low.dtype(q))
    return Attended(matmul(low, weights, v), scores, capped, biased, weights)


def by_heads(low: Lowering, x: str, heads: int) -> str:
    """[batch, positions, heads * size] as [batch, heads, positions, size]."""
    batch, positions, hidden = low.shape(x)
    if heads < 1 or hidden % heads:
        raise ValueError(f"{hidden} elements of {heads} heads")
    return low.transpose(low.reshape(x, (batch, positions, heads, hidden // heads)), (0, 2, 1, 3))


def joined_heads(low: Lowering, x: str) -> str:
    """The inverse of `by_heads`."""
    batch, heads, positions, size = low.shape(x)
    return low.reshape(low.transpose(x, (0, 2, 1, 3)), (batch, positions, heads * size))


def infinite(low: Lowering, allowed: str, dtype: DType, elsewhere: float = -math.inf) -> str:
    """0 where allowed, -inf (or another number) elsewhere."""
    one = (1,) * low.rank(allowed)
    zero, other = (low.constant(np.full(one, value), dtype) for value in (0.0, elsewhere))
    return low.select(allowed, zero, other)


def rotated(low: Lowering, x: str, cosines: str, sines: str, interleaved: bool) -> str:
    """Rotary embedding of x [batch, heads, positions, size] by [batch or 1, positions, half of what is rotated].

    Pairs are neighbours if `interleaved`, the first and the second half otherwise; what is behind them stays.
    """
    batch, heads, positions, size = low.shape(x)
    half = low.shape(cosines)[2]
    if low.shape(sines) != low.shape(cosines) or not 0 < 2 * half <= size:
        raise ValueError(
            f"cosines {list(low.shape(cosines))} and sines {list(low.shape(sines))} for size {size}"
        )
    turned = low.slice_axis(x, 3, 0, 2 * half)
    if interleaved:
        turned = low.reshape(turned, (batch, heads, positions, half, 2))
        cosines, sines = (low.reshape(t, (low.shape(t)[0], 1, positions, half, 1)) for t in (cosines, sines))
        parts = [low.slice_axis(turned, 4, i, 1) for i in (0, 1)]
    else:
        cosines, sines = (low.reshape(t, (low.shape(t)[0], 1, positions, half)) for t in (cosines, sines))
        parts = [low.slice_axis(turned, 3, i * half, half) for i in (0, 1)]
    real = low.sub(low.mul(parts[0], cosines), low.mul(parts[1], sines))
    imaginary = low.add(low.mul(parts[0], sines), low.mul(parts[1], cosines))
    both = low.concat([real, imaginary], 4 if interleaved else 3)
    both = low.reshape(both, (batch, heads, positions, 2 * half))
    if 2 * half == size:
        return both
    return low.concat([both, low.slice_axis(x, 3, 2 * half, size - 2 * half)], 3)


def _repeated(low: Lowering, x: str, heads: int) -> str:
    """Each head of keys or values for the group of query heads that shares it."""
    batch, groups, positions, size = low.shape(x)
    if groups == heads:
        return x
    x = low.tile(low.reshape(x, (batch, groups, 1, positions * size)), (1, 1, heads // groups, 1))
    return low.reshape(x, (batch, heads, positions, size))


def _masked_softmax(low: Lowering, scores: str, bias: str) -> str:
    """softmax over the last axis; a row whose bias is -inf everywhere gives zeros."""
    nothing = low.constant(np.full((1, 1, 1, 1), -np.inf), low.dtype(bias))
    empty = low.equal(low.reduce("MAX", bias, (3,)), nothing)
    zero, one = low.scalar(0, scores), low.scalar(1, scores)
    # Also a row of scores that are not numbers counts as zeros, so it is replaced, not multiplied.
    scores = low.select(empty, zero, scores)
    powers = low.op("EXP", low.sub(scores, low.reduce("MAX", scores, (3,))))
    total = low.select(empty, one, low.reduce("SUM", powers, (3,)))
    return low.div(low.select(empty, zero, powers), total)


def _softmax_with_sink(low: Lowering, scores: str, sink: str) -> str:
    """softmax over the last axis and one more score, which is left out of the result."""
    largest = low.maximum(low.reduce("MAX", scores, (3,)), sink)
    powers = low.op("EXP", low.sub(scores, largest))
    total = low.add(low.reduce("SUM", powers, (3,)), low.op("EXP", low.sub(sink, largest)))
    return low.div(powers, total)
