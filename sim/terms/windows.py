"""Readers of operators that add up products: convolutions, matrix products, pooling and RESIZE."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType

from .algebra import Algebra
from .graph import Case, reads
from .values import LARGEST, Terms, concatenate

INT32 = DType.INT32


@reads("CONV2D", "CONV3D")
def _convolution(case: Case) -> Terms:
    image, axes = _padded(case), 2 if case.name == "CONV2D" else 3
    weight = _centred_weight(case)
    shape = case.output.shape
    total = None
    for taps in itertools.product(*(range(n) for n in weight.shape[1:-1])):
        where = _window(case, taps, shape[1 : 1 + axes])
        products = _products(case.algebra, _axes(image, where), _tap(weight, taps), case)
        total = products if total is None else case.algebra.add(total, products)
    assert total is not None
    return _biased(case, total.reshape(tuple(shape)))


def _tap(weight: Terms | np.ndarray, taps: Sequence[int]) -> Terms | np.ndarray:
    """[IC, OC] of weights [OC, .., IC] at one tap."""
    key: Any = (slice(None), *taps)
    own = weight[key]
    return own.T if isinstance(own, np.ndarray) else own.each(lambda x, _: np.swapaxes(x, -1, -2))


def _products(algebra: Algebra, image: Terms, weight: Terms | np.ndarray, case: Case) -> Terms:
    """[pixels, OC] of an image [.., IC]."""
    rows = image.reshape(-1, image.shape[-1])
    if isinstance(weight, np.ndarray):
        return algebra.linear(algebra.planes(rows), weight, rows.degree)
    return algebra.matmul(rows, weight)


def _centred_weight(case: Case) -> Terms | np.ndarray:
    weight, zero = case.constant(1), case.constant(4)
    if weight is not None and zero is not None:
        return weight - zero.reshape(-1)[0]
    return case.centred(1, 4).plain()


def _padded(case: Case) -> Terms:
    """The input minus its zero point, with the padding around it."""
    pad = [int(n) for n in case.attribute("pad")]
    image = case.centred(0, 3).plain()
    widths = [(0, 0), *zip(pad[0::2], pad[1::2], strict=True), (0, 0)]
    return image.padded(widths, 0) if any(pad) else image


def _window(case: Case, taps: Sequence[int], sizes: Sequence[int]) -> list[slice]:
    """Returns, for each axis, the positions that meet a tap."""
    strides, dilations = case.attribute("stride"), case.attribute("dilation") or [1] * len(sizes)
    starts = [tap * int(dilation) for tap, dilation in zip(taps, dilations, strict=True)]
    return [
        slice(start, start + (size - 1) * int(step) + 1, int(step))
        for start, size, step in zip(starts, sizes, strides, strict=True)
    ]


def _axes(image: Terms, where: Sequence[slice]) -> Terms:
    return image[(slice(None), *where)]


def _biased(case: Case, sums: Terms) -> Terms:
    return case.required(case.algebra.add(case.required(sums), case.term(2)))


@reads("DEPTHWISE_CONV2D")
def _depthwise(case: Case) -> Terms:
    image, weight, algebra = _padded(case), _centred_weight(case), case.algebra
    height, width, channels, multiplier = weight.shape
    shape = tuple(case.output.shape)
    if not isinstance(weight, np.ndarray):
        return _biased(case, _late_depthwise(case, image, weight))
    planes = algebra.planes(image)
    sums = np.zeros((len(planes), *shape[:3], channels, multiplier))
    products = np.empty(sums.shape[1:])
    # A plane at a time stays in the cache.
    for number, (plane, total) in enumerate(zip(planes, sums, strict=True)):
        factors = weight.astype(np.float64)
        factors = np.abs(factors) if number == len(planes) - 1 else factors
        for y, x in itertools.product(range(height), range(width)):
            own = plane[(slice(None), *_window(case, (y, x), shape[1:3]))][..., None]
            total += np.multiply(own, factors[y, x], out=products)
    return _biased(case, algebra.of_planes(sums.reshape(len(planes), *shape), image.degree))


def _late_depthwise(case: Case, image: Terms, weight: Terms) -> Terms:
    algebra, shape, total = case.algebra, tuple(case.output.shape), None
    for y, x in itertools.product(range(weight.shape[0]), range(weight.shape[1])):
        own = _axes(image, _window(case, (y, x), shape[1:3]))
        product = algebra.multiply(own.reshape(*own.shape, 1), weight[y, x])
        total = product if total is None else algebra.add(total, product)
    assert total is not None
    return total.reshape(shape)


@reads("TRANSPOSE_CONV2D")
def _transposed(case: Case) -> Terms:
    algebra, image, weight = case.algebra, case.centred(0, 3).plain(), _centred_weight(case)
    pad, stride = (
        [int(n) for n in case.attribute("out_pad")],
        [int(n) for n in case.attribute("stride")],
    )
    shape = tuple(case.output.shape)
    result = algebra.constant(np.zeros(shape, np.int64)).copy()
    for y, x in itertools.product(range(weight.shape[1]), range(weight.shape[2])):
        products = _products(algebra, image, _tap(weight, (y, x)), case)
        products = products.reshape(*image.shape[:3], shape[3])
        rows, own_rows = _reached(image.shape[1], stride[0], y + pad[0], shape[1])
        columns, own_columns = _reached(image.shape[2], stride[1], x + pad[2], shape[2])
        if rows.size and columns.size:
            where = np.ix_(np.arange(shape[0]), rows, columns, np.arange(shape[3]))
            own = products[np.ix_(np.arange(shape[0]), own_rows, own_columns, np.arange(shape[3]))]
            result[where] = algebra.add(result[where], own)
    return _biased(case, result)


def _reached(count: int, stride: int, first: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(positions of the result, pixels that reach them)."""
    pixels = np.arange(count)
    places = pixels * stride + first
    inside = (places >= 0) & (places < size)
    return places[inside], pixels[inside]


@reads("MATMUL")
def _matmul(case: Case) -> Terms:
    a, b = case.centred(0, 2).plain(), case.centred(1, 3).plain()
    parts = [case.algebra.matmul(a[n], b[n]) for n in range(a.shape[0])]
    return case.required(concatenate([part.reshape(1, *part.shape) for part in parts]))


@reads("AVG_POOL2D")
def _average(case: Case) -> Terms:
    algebra = case.algebra
    pad = [int(n) for n in case.attribute("pad")]
    widths = [(0, 0), (pad[0], pad[1]), (pad[2], pad[3]), (0, 0)]
    value = case.centred(0, 1).plain()
    image = value.padded(widths, 0) if any(pad) else value
    inside = np.pad(np.ones((1, *value.shape[1:3], 1), np.int64), widths)
    sums = _sums(algebra.planes(image), case, 1)
    total = case.required(algebra.of_planes(sums, image.degree), INT32)
    count = _sums(inside, case, 0)
    # reciprocal_scale: k = 32 - the leading zeros of count - 1.
    k = np.frexp((count - 1).astype(np.float64))[1].astype(np.int64)
    mean = algebra.rescale(total, ((np.int64((1 << 30) + 1)) << k) // count, 30 + k, double=False)
    return case.clipped(algebra.add(mean, case.zero(2)))


def _sums(image: np.ndarray, case: Case, lead: int) -> np.ndarray:
    """Returns the sums over the windows of [.., N, H, W, C]."""
    for axis in (0, 1):
        size, step = int(case.attribute("kernel")[axis]), int(case.attribute("stride")[axis])
        count = case.output.shape[1 + axis]
        before = (slice(None),) * (lead + 1 + axis)
        parts = [image[(*before, slice(k, k + (count - 1) * step + 1, step))] for k in range(size)]
        image = sum(parts[1:], start=parts[0])
    return image


@reads("MAX_POOL2D")
def _largest(case: Case) -> Terms:
    pad = [int(n) for n in case.attribute("pad")]
    widths = [(0, 0), (pad[0], pad[1]), (pad[2], pad[3]), (0, 0)]
    image = case.term(0)
    image = image.padded(widths, int(case.out.min)) if any(pad) else image
    result = None
    for taps in itertools.product(*(range(int(n)) for n in case.attribute("kernel"))):
        own = _axes(image, _window(case, taps, case.output.shape[1:3]))
        result = own if result is None else case.algebra.extreme(result, own, LARGEST)
    assert result is not None
    return result


@reads("RESIZE")
def _resize(case: Case) -> Terms:
    algebra, image = case.algebra, case.term(0)
    y_n, y_d, x_n, x_d = case.data(1).reshape(-1).tolist()
    offset, border = case.data(2).reshape(-1).tolist(), case.data(3).reshape(-1).tolist()
    rows = _sampled(image.shape[1], (y_n, y_d), offset[0], border[0])
    columns = _sampled(image.shape[2], (x_n, x_d), offset[1], border[1])
    if case.attribute("mode") == "NEAREST":
        own_rows, own_columns = (np.where(2 * d >= n, b, a) for (a, b, d), n in ((rows, y_n), (columns, x_n)))
        return image[:, own_rows][:, :, own_columns]
    image = image.plain()
    total = None
    for y, x in itertools.product(range(2), range(2)):
        own = image[:, rows[y]][:, :, columns[x]]
        weight_y, weight_x = (d if k else n - d for k, d, n in ((y, rows[2], y_n), (x, columns[2], x_n)))
        factors = weight_y[:, None, None] * weight_x[:, None]
        part = algebra.multiply(own, algebra.constant(factors))
        total = part if total is None else algebra.add(total, part)
    assert total is not None
    return case.required(total)


def _sampled(
    size: int, scale: tuple[int, int], offset: int, border: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns, for each position of the result, the two input positions that it lies between, and its distance from
    the first one, in 1/n."""
    count = ((size - 1) * scale[0] - offset + border) // scale[1] + 1
    place = np.arange(count) * scale[1] + offset
    index = place // scale[0]
    first, second = (np.clip(index + k, 0, size - 1) for k in range(2))
    return first, second, place - index * scale[0]
