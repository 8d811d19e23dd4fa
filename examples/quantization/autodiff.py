"""Reverse-mode differentiation of NumPy arrays: just what the networks of this example are trained with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Array = np.ndarray


class Variable:
    """An array, its gradient, and how the gradient goes on to what it was computed from."""

    def __init__(
        self,
        value: Array,
        parents: Sequence[Variable] = (),
        backward: Callable[[Array], Sequence[Array]] | None = None,
    ) -> None:
        self.value, self.parents, self.backward = value, parents, backward
        self.gradient: Array | None = None

    def propagate(self, gradient: Array) -> None:
        """Fills in the gradients of everything that this variable was computed from."""
        order: list[Variable] = []
        seen: set[int] = set()

        def visit(node: Variable) -> None:
            if id(node) not in seen:
                seen.add(id(node))
                for parent in node.parents:
                    visit(parent)
                order.append(node)

        visit(self)
        self.gradient = gradient
        for node in reversed(order):
            if node.backward is None or node.gradient is None:
                continue
            for parent, part in zip(node.parents, node.backward(node.gradient), strict=True):
                parent.gradient = part if parent.gradient is None else parent.gradient + part


def _unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    extra = gradient.ndim - len(shape)
    gradient = gradient.sum(tuple(range(extra))) if extra else gradient
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis] != 1)
    return gradient.sum(axes, keepdims=True) if axes else gradient


def add(a: Variable, b: Variable) -> Variable:
    """a + b, broadcast."""
    return Variable(
        a.value + b.value,
        (a, b),
        lambda g: (_unbroadcast(g, a.value.shape), _unbroadcast(g, b.value.shape)),
    )


def multiply(a: Variable, b: Variable) -> Variable:
    """a * b, broadcast."""
    return Variable(
        a.value * b.value,
        (a, b),
        lambda g: (_unbroadcast(g * b.value, a.value.shape), _unbroadcast(g * a.value, b.value.shape)),
    )


def matmul(a: Variable, b: Variable) -> Variable:
    """numpy.matmul."""

    def backward(g: Array) -> Sequence[Array]:
        left = g @ np.swapaxes(b.value, -1, -2)
        right = np.swapaxes(a.value, -1, -2) @ g
        return _unbroadcast(left, a.value.shape), _unbroadcast(right, b.value.shape)

    return Variable(a.value @ b.value, (a, b), backward)


def reshape(a: Variable, shape: Sequence[int]) -> Variable:
    """The same elements in another shape."""
    return Variable(a.value.reshape(shape), (a,), lambda g: (g.reshape(a.value.shape),))


def transpose(a: Variable, axes: Sequence[int]) -> Variable:
    """Axes in another order."""
    return Variable(a.value.transpose(axes), (a,), lambda g: (g.transpose(np.argsort(axes)),))


def mean(a: Variable, axis: int | tuple[int, ...]) -> Variable:
    """The mean over axes, which are dropped."""
    result = a.value.mean(axis)
    count = a.value.size / result.size

    def backward(g: Array) -> Sequence[Array]:
        return (np.broadcast_to(np.expand_dims(g, axis) / count, a.value.shape).astype(a.value.dtype),)

    return Variable(result, (a,), backward)


def relu(a: Variable) -> Variable:
    """max(a, 0)."""
    return Variable(np.maximum(a.value, 0), (a,), lambda g: (g * (a.value > 0),))


_erf = np.vectorize(math.erf, otypes=[np.float32])


def gelu(a: Variable) -> Variable:
    """a times the normal distribution function of a."""
    phi = 0.5 * (1 + _erf(a.value / math.sqrt(2)))
    density = np.exp(-a.value * a.value / 2) / math.sqrt(2 * math.pi)
    return Variable(a.value * phi, (a,), lambda g: (g * (phi + a.value * density),))


def softmax(a: Variable) -> Variable:
    """exp(a) / sum(exp(a)) over the last axis."""
    powers = np.exp(a.value - a.value.max(-1, keepdims=True))
    y = powers / powers.sum(-1, keepdims=True)
    return Variable(y, (a,), lambda g: (y * (g - (g * y).sum(-1, keepdims=True)),))


def normalize(a: Variable, epsilon: float) -> Variable:
    """Zero mean and unit variance over the last axis."""
    centred = a.value - a.value.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + epsilon)
    y = centred * inverse

    def backward(g: Array) -> Sequence[Array]:
        return (inverse * (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True)),)

    return Variable(y, (a,), backward)


def convolve(x: Variable, weight: Variable, stride: int, pad: int, depthwise: bool) -> Variable:
    """x [N,C,H,W] by weight [O,C,K,K], or [C,1,K,K] channel by channel."""
    size = weight.value.shape[-1]
    padded = np.pad(x.value, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    patches = sliding_window_view(padded, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]  # type: ignore[call-overload]
    patches = np.ascontiguousarray(patches)
    taps = "ncijkl,ckl->ncij" if depthwise else "ncijkl,ockl->noij"
    kernel = weight.value[:, 0] if depthwise else weight.value

    def backward(g: Array) -> Sequence[Array]:
        if depthwise:
            grad_weight = np.einsum("ncij,ncijkl->ckl", g, patches, optimize=True)[:, None]
            grad_patches = g[..., None, None] * kernel[:, None, None]
        else:
            grad_weight = np.einsum("noij,ncijkl->ockl", g, patches, optimize=True)
            grad_patches = np.einsum("noij,ockl->ncijkl", g, kernel, optimize=True)
        grad = np.zeros_like(padded)
        rows, columns = g.shape[2:]
        for ky in range(size):
            for kx in range(size):
                box = grad[:, :, ky : ky + rows * stride : stride, kx : kx + columns * stride : stride]
                box += grad_patches[..., ky, kx]
        height, width = x.value.shape[2:]
        return grad[:, :, pad : pad + height, pad : pad + width], grad_weight

    return Variable(np.einsum(taps, patches, kernel, optimize=True), (x, weight), backward)


def max_pool(a: Variable, size: int) -> Variable:
    """The largest of each size by size square; a has whole squares."""
    n, c, h, w = a.value.shape
    squares = a.value.reshape(n, c, h // size, size, w // size, size)
    y = squares.max((3, 5), keepdims=True)
    chosen = squares == y

    def backward(g: Array) -> Sequence[Array]:
        spread = chosen * g[:, :, :, None, :, None] / chosen.sum((3, 5), keepdims=True)
        return (spread.reshape(a.value.shape).astype(a.value.dtype),)

    return Variable(y[:, :, :, 0, :, 0], (a,), backward)
