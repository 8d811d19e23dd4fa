"""Lowers matrix products."""

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.matrix import matmul as lower_matmul
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue


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
    names = right + "".join(sorted(set("".join(terms)) - set(right)))
    product = None
    for i, whole in enumerate(terms):
        x, term = _diagonals(low, node.wide(i), whole)
        sizes = dict(zip(term, low.shape(x), strict=True))
        x = low.transpose(x, [term.index(name) for name in names if name in term])
        x = low.reshape(x, [sizes.get(name, 1) for name in names])
        product = x if product is None else low.mul(product, x)
    assert product is not None
    return node.out(low.reduce("SUM", product, range(len(right), len(names)), keep=False))


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
