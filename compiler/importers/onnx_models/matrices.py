"""Lowers matrix products."""

import math

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.matrix import matmul as lower_matmul
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue

Named = tuple[str, str]
"""A tensor and the names of its axes, a letter each."""


@handles("MatMul")
def matmul(node: OnnxNode) -> OnnxValue:
    """Multiplies as numpy.matmul does."""
    if not node.low.dtype(node.raw()).is_float:
        node.unsupported("a product of integer matrices", "use MatMulInteger or float32")
    return node.out(lower_matmul(node.low, node.raw(0), node.raw(1)))


@handles("Gemm")
def gemm(node: OnnxNode) -> OnnxValue:
    """Returns alpha * A' * B' + beta * C."""
    low, a, b = node.low, node.raw(0), node.raw(1)
    if not low.dtype(a).is_float:
        node.unsupported("a product of integer matrices", "use MatMulInteger or float32")
    if node.attr("transA", 0):
        a = low.transpose(a, (1, 0))
    if node.attr("transB", 0):
        b = low.transpose(b, (1, 0))
    result = low.times(lower_matmul(low, a, b), node.attr("alpha", 1.0))
    if node.has(2):
        result = low.add(result, low.times(node.raw(2), node.attr("beta", 1.0)))
    return node.out(result)


@handles("Einsum")
def einsum(node: OnnxNode) -> OnnxValue:
    """Products and sums over named axes; a name that an operand has twice takes its diagonal."""
    low = node.low
    equation = node.attr("equation").replace(" ", "")
    left, _, right = equation.partition("->")
    terms = left.split(",")
    letters = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    rests = [node.low.rank(node.raw(i)) - len(term.replace("...", "")) for i, term in enumerate(terms)]
    most = max([rest for rest, term in zip(rests, terms, strict=True) if "..." in term], default=0)
    ellipsis = letters[:most]
    terms = [t.replace("...", "".join(ellipsis[most - r :])) for t, r in zip(terms, rests, strict=True)]
    if "->" in equation:
        right = right.replace("...", "".join(ellipsis))
    else:
        once = sorted(c for c in set("".join(terms)) if "".join(terms).count(c) == 1 and c not in ellipsis)
        right = "".join([*ellipsis, *once])
    product, have = _diagonals(low, node.wide(0), terms[0])
    for place, term in enumerate(terms[1:], 1):
        needed = set(right).union(*terms[place + 1 :])
        product, have = _contracted(low, (product, have), _diagonals(low, node.wide(place), term), needed)
    product, have = _summed(low, product, have, set(right))
    return node.out(low.transpose(product, [have.index(name) for name in right]))


def _contracted(low: Lowering, a: Named, b: Named, needed: set[str]) -> Named:
    """The product of two operands, summed over the axes of both that are not needed: of matrices where there are
    any, of elements else."""
    (x, own), (y, other) = _summed(low, *a, needed | set(b[1])), _summed(low, *b, needed | set(a[1]))
    alike = "".join(name for name in own if name in other and name in needed)
    gone = "".join(name for name in own if name in other and name not in needed)
    rows = "".join(name for name in own if name not in other)
    columns = "".join(name for name in other if name not in own)
    sizes = [dict(zip(names, low.shape(each), strict=True)) for each, names in ((x, own), (y, other))]
    depths = [[part[name] for name in gone] for part in sizes]
    if depths[0] != depths[1] or not gone or not rows + columns or not low.dtype(x).is_float:
        order = alike + rows + columns + gone
        x = low.transpose(x, [own.index(name) for name in order if name in own])
        y = low.transpose(y, [other.index(name) for name in order if name in other])
        x, y = (
            low.reshape(each, [part.get(name, 1) for name in order])
            for each, part in zip((x, y), sizes, strict=True)
        )
        return _summed(low, low.mul(x, y), order, needed)
    x = low.transpose(x, [own.index(name) for name in alike + rows + gone])
    y = low.transpose(y, [other.index(name) for name in alike + gone + columns])
    x = low.reshape(
        x, [*low.shape(x)[: len(alike)], math.prod(sizes[0][name] for name in rows), math.prod(depths[0])]
    )
    y = low.reshape(
        y, [*low.shape(y)[: len(alike)], math.prod(depths[0]), math.prod(sizes[1][name] for name in columns)]
    )
    product = lower_matmul(low, x, y)
    outer = [*(sizes[0][name] for name in rows), *(sizes[1][name] for name in columns)]
    return low.reshape(product, [*low.shape(product)[:-2], *outer]), alike + rows + columns


def _summed(low: Lowering, x: str, have: str, needed: set[str]) -> Named:
    """An operand and its axes' names, without those that are not needed."""
    gone = [axis for axis, name in enumerate(have) if name not in needed]
    if not gone:
        return x, have
    return low.reduce("SUM", x, gone, keep=False), "".join(name for name in have if name in needed)


def _diagonals(low: Lowering, x: str, term: str) -> tuple[str, str]:
    """An operand and its axes' names, each once: of axes of one name the diagonal, as the last axis."""
    for name in term:
        while term.count(name) > 1:
            first, second = term.index(name), term.rindex(name)
            kept = [axis for axis in range(len(term)) if axis not in (first, second)]
            x = low.transpose(x, [*kept, first, second])
            *rest, size, same = low.shape(x)
            if size != same:
                raise ValueError(f"axis {name!r} has {size} and {same} elements in one operand")
            x = low.take(low.reshape(x, (*rest, size * size)), len(rest), np.arange(size) * (size + 1))
            term = "".join(term[axis] for axis in kept) + name
    return x, term
