"""Hypothesis strategies for small integer tensors and their parameters."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tosaic.compiler.ir import DType

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=3)


def elements(dtype: DType) -> st.SearchStrategy[int]:
    """Values of `dtype`, its ends more often than chance."""
    return st.one_of(st.integers(dtype.min, dtype.max), st.sampled_from([dtype.min, dtype.max, 0, -1, 1]))


def arrays(dtype: DType, shape) -> st.SearchStrategy[np.ndarray]:
    """Arrays of `dtype` with the given shape or strategy of shapes."""
    if dtype is DType.BOOL:
        return hnp.arrays(np.bool_, shape)
    return hnp.arrays(dtype.numpy, shape, elements=elements(dtype))


def broadcast_pairs(dtype: DType, count: int = 2) -> st.SearchStrategy[list[np.ndarray]]:
    """`count` arrays of one rank whose axes are equal or 1."""

    @st.composite
    def draw_pair(draw):
        shape = draw(SHAPES)
        result = []
        for _ in range(count):
            keep = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
            result.append(draw(arrays(dtype, tuple(n if k else 1 for n, k in zip(shape, keep, strict=True)))))
        return result

    return draw_pair()


def parameter(value: int, dtype: DType) -> np.ndarray:
    """A zero point or shift operand: shape [1]."""
    return np.array([value], dtype=dtype.numpy)
