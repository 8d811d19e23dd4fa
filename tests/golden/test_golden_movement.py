"""The golden model's reductions, data layout, GATHER and SCATTER, element by element."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from integer_arrays import arrays, parameter

from tosaic.compiler.ir import DType
from tosaic.sim.golden import evaluate_operator

ANY = st.sampled_from([DType.BOOL, DType.INT8, DType.INT16, DType.INT32])
small = st.integers(1, 3)
shapes = st.lists(small, min_size=1, max_size=4).map(tuple)


def compute(op, operands, attributes, dtype):
    (result,) = evaluate_operator(op, operands, attributes, [dtype])
    assert result.dtype == dtype.numpy
    return result


def shape_value(values):
    return np.array(values, dtype=np.int64)


REDUCTIONS = {
    "REDUCE_ALL": (all, [DType.BOOL]),
    "REDUCE_ANY": (any, [DType.BOOL]),
    "REDUCE_MAX": (max, [DType.INT8, DType.INT16, DType.INT32]),
    "REDUCE_MIN": (min, [DType.INT8, DType.INT16, DType.INT32]),
    "REDUCE_SUM": (lambda v: (sum(v) + (1 << 31)) % (1 << 32) - (1 << 31), [DType.INT32]),
}


@pytest.mark.parametrize("op", REDUCTIONS)
@given(data=st.data())
def test_reductions(op, data):
    function, dtypes = REDUCTIONS[op]
    dtype = data.draw(st.sampled_from(dtypes))
    value = data.draw(arrays(dtype, data.draw(shapes)))
    axis = data.draw(st.integers(0, value.ndim - 1))
    result = compute(op, [value], {"axis": axis}, dtype)
    assert result.shape == (*value.shape[:axis], 1, *value.shape[axis + 1 :])
    for index in np.ndindex(result.shape):
        line = [value[(*index[:axis], i, *index[axis + 1 :])].item() for i in range(value.shape[axis])]
        assert result[index] == function(line)


@given(st.data(), ANY)
def test_concat(data, dtype):
    shape = data.draw(shapes)
    axis = data.draw(st.integers(0, len(shape) - 1))
    sizes = data.draw(st.lists(small, min_size=1, max_size=3))
    parts = [data.draw(arrays(dtype, (*shape[:axis], n, *shape[axis + 1 :]))) for n in sizes]
    result = compute("CONCAT", parts, {"axis": axis}, dtype)
    assert result.shape[axis] == sum(sizes)
    for index1 in np.ndindex(result.shape):
        index2 = list(index1)
        for part in parts:
            if 0 <= index2[axis] < part.shape[axis]:
                assert result[index1] == part[tuple(index2)]
            index2[axis] -= part.shape[axis]


@given(st.data(), ANY)
def test_pad(data, dtype):
    value = data.draw(arrays(dtype, data.draw(shapes)))
    padding = data.draw(st.lists(st.integers(0, 2), min_size=2 * value.ndim, max_size=2 * value.ndim))
    pad_const = data.draw(arrays(dtype, (1,)))
    result = compute("PAD", [value, shape_value(padding), pad_const], {}, dtype)
    assert result.shape == tuple(n + padding[2 * i] + padding[2 * i + 1] for i, n in enumerate(value.shape))
    for index in np.ndindex(result.shape):
        inside = tuple(i - padding[2 * axis] for axis, i in enumerate(index))
        is_pad = any(i < 0 or i >= n for i, n in zip(inside, value.shape, strict=True))
        assert result[index] == (pad_const[0] if is_pad else value[inside])


@given(st.data(), ANY)
def test_reshape_keeps_the_order(data, dtype):
    value = data.draw(arrays(dtype, data.draw(shapes)))
    target = data.draw(st.permutations(value.shape))
    result = compute("RESHAPE", [value, shape_value(target)], {}, dtype)
    assert result.shape == tuple(target)
    assert result.flatten().tolist() == value.flatten().tolist()


def test_reshape_and_pad_of_rank_0():
    value = np.array(5, dtype=np.int8)
    assert compute("RESHAPE", [value, shape_value([1, 1])], {}, DType.INT8).tolist() == [[5]]
    assert compute("RESHAPE", [value.reshape(1), shape_value([])], {}, DType.INT8).shape == ()
    padded = compute("PAD", [value, shape_value([]), parameter(1, DType.INT8)], {}, DType.INT8)
    assert padded.shape == () and padded.item() == 5


@given(st.data(), ANY)
def test_reverse(data, dtype):
    value = data.draw(arrays(dtype, data.draw(shapes)))
    axis = data.draw(st.integers(0, value.ndim - 1))
    result = compute("REVERSE", [value], {"axis": axis}, dtype)
    for index in np.ndindex(value.shape):
        mirrored = (*index[:axis], value.shape[axis] - 1 - index[axis], *index[axis + 1 :])
        assert result[index] == value[mirrored]


@given(st.data(), ANY)
def test_slice(data, dtype):
    value = data.draw(arrays(dtype, data.draw(shapes)))
    start = [data.draw(st.integers(0, n - 1)) for n in value.shape]
    size = [data.draw(st.integers(1, n - s)) for n, s in zip(value.shape, start, strict=True)]
    result = compute("SLICE", [value, shape_value(start), shape_value(size)], {}, dtype)
    assert result.shape == tuple(size)
    for index in np.ndindex(result.shape):
        assert result[index] == value[tuple(i + s for i, s in zip(index, start, strict=True))]


@given(st.data(), ANY)
def test_tile(data, dtype):
    value = data.draw(arrays(dtype, data.draw(shapes)))
    multiples = [data.draw(small) for _ in value.shape]
    result = compute("TILE", [value, shape_value(multiples)], {}, dtype)
    assert result.shape == tuple(n * m for n, m in zip(value.shape, multiples, strict=True))
    for index in np.ndindex(result.shape):
        assert result[index] == value[tuple(i % n for i, n in zip(index, value.shape, strict=True))]


@given(st.data(), ANY)
def test_transpose(data, dtype):
    value = data.draw(arrays(dtype, data.draw(shapes)))
    perms = data.draw(st.permutations(range(value.ndim)))
    result = compute("TRANSPOSE", [value], {"perms": perms}, dtype)
    assert result.shape == tuple(value.shape[p] for p in perms)
    for index in np.ndindex(result.shape):
        source = [0] * value.ndim
        for i, p in enumerate(perms):
            source[p] = index[i]
        assert result[index] == value[tuple(source)]


@given(st.data(), ANY)
def test_gather(data, dtype):
    n, k, c, w = (data.draw(small) for _ in range(4))
    values = data.draw(arrays(dtype, (n, k, c)))
    indices = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=n * w, max_size=n * w)), np.int32)
    indices = indices.reshape(n, w)
    result = compute("GATHER", [values, indices], {}, dtype)
    for i, j in np.ndindex(n, w):
        assert result[i, j].tolist() == values[i, indices[i, j]].tolist()


@given(st.data(), ANY)
def test_scatter(data, dtype):
    n, k, c = (data.draw(small) for _ in range(3))
    w = data.draw(st.integers(1, k))
    values = data.draw(arrays(dtype, (n, k, c)))
    indices = np.array([data.draw(st.permutations(range(k)))[:w] for _ in range(n)], dtype=np.int32)
    update = data.draw(arrays(dtype, (n, w, c)))
    before = values.copy()
    result = compute("SCATTER", [values, indices, update], {}, dtype)
    expected = before.copy()
    for i, j in np.ndindex(n, w):
        expected[i, indices[i, j]] = update[i, j]
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(values, before)


@given(st.data(), ANY)
def test_identity(data, dtype):
    value = data.draw(arrays(dtype, data.draw(shapes)))
    np.testing.assert_array_equal(compute("IDENTITY", [value], {}, dtype), value)
