"""Operators that move elements without changing them (TOSA 0.30 section 2.10)."""

from collections.abc import Sequence

import numpy as np

from tosaic.sim.golden.kernels import kernel


@kernel("CONCAT", any_type=True)
def concat(*inputs: np.ndarray, axis: int) -> np.ndarray:
    """The inputs one after the other along `axis`."""
    return np.concatenate(inputs, axis=axis)


@kernel("PAD", any_type=True)
def pad(input1: np.ndarray, padding: np.ndarray, pad_const: np.ndarray) -> np.ndarray:
    """input1 extended by pad_const; `padding` is the shape value [before, after] per axis."""
    constant = pad_const.reshape(-1)[0]
    return np.pad(input1, padding.reshape(-1, 2), constant_values=constant) if input1.ndim else input1


@kernel("RESHAPE", any_type=True)
def reshape(input1: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """The elements of input1 in C order, in a new shape."""
    return input1.reshape([int(size) for size in shape.reshape(-1)])


@kernel("REVERSE", any_type=True)
def reverse(input1: np.ndarray, *, axis: int) -> np.ndarray:
    """input1 with the order along `axis` reversed."""
    return np.flip(input1, axis=axis)


@kernel("SLICE", any_type=True)
def slice_(input1: np.ndarray, start: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The box of `size` elements that begins at `start`; both are shape values."""
    return input1[tuple(slice(int(s), int(s) + int(n)) for s, n in zip(start, size, strict=True))]


@kernel("TILE", any_type=True)
def tile(input1: np.ndarray, multiples: np.ndarray) -> np.ndarray:
    """input1 repeated multiples[i] times along axis i."""
    return np.tile(input1, [int(count) for count in multiples.reshape(-1)])


@kernel("TRANSPOSE", any_type=True)
def transpose(input1: np.ndarray, *, perms: Sequence[int]) -> np.ndarray:
    """Axis i of the result is axis perms[i] of input1."""
    return np.transpose(input1, list(perms))
