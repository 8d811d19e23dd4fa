"""Discrete Fourier transforms: products with constant matrices."""

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue


@handles("DFT")
def dft(node: OnnxNode) -> OnnxValue:
    """[..., 1] (real) or [..., 2] (complex) transformed along one axis, cut or filled with zeros to dft_length."""
    low, shape = node.low, node.shape()
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    axis = node.attr("axis", 1) if node.opset < 20 else int(node.const(2, -2).reshape(()))
    axis %= len(shape)
    if axis == len(shape) - 1:
        node.unsupported("the axis of real and imaginary parts", "transform another axis")
    usual = 2 * (shape[axis] - 1) if inverse and onesided else shape[axis]
    length = int(node.const(1, usual).reshape(())) or usual
    x = low.transpose(node.raw(), [*(a for a in range(len(shape)) if a != axis), axis])
    # [..., parts, samples]
    given = length // 2 + 1 if inverse and onesided else length
    have = min(shape[axis], given)
    x = low.slice_axis(x, len(shape) - 1, 0, have)
    low.make_room((4, have, length), np.float64)
    samples = np.arange(have)
    frequencies = np.arange(length // 2 + 1 if onesided and not inverse else length)
    angle = 2 * np.pi / length * (np.outer(samples, frequencies) % length)
    turn = np.exp((1j if inverse else -1j) * angle)
    if inverse:
        turn /= length
    if inverse and onesided:
        # The missing half are conjugates: each frequency counts twice but the first and, of even lengths, the last.
        twice = np.where((samples == 0) | (2 * samples == length), 1, 2)[:, None]
        return node.out(_back(low, _real(low, x, turn * twice), axis))
    return node.out(_back(low, _complex(low, x, turn), axis))


def _real(low: Lowering, x: str, turn: np.ndarray) -> str:
    """The real part of x * turn, [..., 1, frequencies]."""
    return _product(low, x, [turn.real, -turn.imag])


def _complex(low: Lowering, x: str, turn: np.ndarray) -> str:
    """Returns x * turn, [..., 2, frequencies]."""
    frequencies = turn.shape[1]
    y = _product(low, x, [np.hstack((turn.real, turn.imag)), np.hstack((-turn.imag, turn.real))])
    shape = low.shape(y)
    return low.reshape(y, (*shape[:-2], 2, frequencies))


def _product(low: Lowering, x: str, matrices: list[np.ndarray]) -> str:
    """[..., parts, samples] times a matrix for each part, as one sum; [..., 1, columns]."""
    *outer, parts, samples = low.shape(x)
    x = low.reshape(x, (*outer, 1, parts * samples))
    return matmul(low, x, low.constant(np.vstack(matrices[:parts]), low.dtype(x)))


def _back(low: Lowering, x: str, axis: int) -> str:
    """The last axis in its old place."""
    rank = low.rank(x)
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return low.transpose(x, order)


@handles("STFT")
def stft(node: OnnxNode) -> OnnxValue:
    """[batch, length, 1 or 2] to [batch, frames, frequencies, 2]: windows of the signal, transformed."""
    low, x = node.low, node.raw()
    step = int(node.const(1).reshape(()))
    batch, length, parts = node.shape() if len(node.shape()) == 3 else (*node.shape(), 1)
    if node.has(3):
        size = int(node.const(3).reshape(()))
    else:
        size = node.shape(2)[0] if node.has(2) else length
    frames = 1 + (length - size) // step
    if step < 1 or size < 1 or frames < 1:
        node.unsupported(
            f"frames of {size} samples, each {step} further, in a signal of {length}", "change the frames"
        )
    x = low.transpose(low.reshape(x, (batch, length, parts)), (0, 2, 1))
    low.make_room((4, size, max(frames, size)), np.float64)
    where = np.arange(frames)[:, None] * step + np.arange(size)[None, :]
    x = low.take(x, 2, where)
    x = low.transpose(low.reshape(x, (batch, parts, frames, size)), (0, 2, 1, 3))
    if node.has(2):
        x = low.mul(x, low.reshape(node.raw(2), (1, 1, 1, size)))
    frequencies = np.arange(size // 2 + 1 if node.attr("onesided", 1) else size)
    turn = np.exp(-2j * np.pi / size * (np.outer(np.arange(size), frequencies) % size))
    return node.out(low.transpose(_complex(low, x, turn), (0, 1, 3, 2)))
