"""Convolutions, pools, padding and resampling against loops over NumPy arrays."""

import itertools

import numpy as np
import pytest
from coreml_models import check, floats, run_single

from tosaic.errors import ModelError, UnsupportedError

RANDOM = np.random.default_rng(12)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def pads(*pairs):
    return {"borderAmounts": [{"startEdgeSize": a, "endEdgeSize": b} for a, b in pairs]}


def correlate(x, w, stride, dilation, groups=1):
    """Convolution of a padded image [N, C, spatial...] with weights [O, C/groups, spatial...]."""
    spatial = x.ndim - 2
    outer, inner = w.shape[0] // groups, w.shape[1]
    sizes = [
        (x.shape[2 + i] - (w.shape[2 + i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in range(spatial)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *sizes))
    for place in itertools.product(*map(range, sizes)):
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = tuple(p * s + t * d for p, s, t, d in zip(place, stride, tap, dilation, strict=True))
            for g in range(groups):
                part = x[(slice(None), slice(g * inner, (g + 1) * inner), *at)]
                taps = w[(slice(g * outer, (g + 1) * outer), slice(None), *tap)]
                y[(slice(None), slice(g * outer, (g + 1) * outer), *place)] += part @ taps.T
    return y


def spread(x, w, stride, groups=1):
    """Deconvolution without padding: weights [C, O/groups, spatial...]."""
    inner, outer = x.shape[1] // groups, w.shape[1]
    sizes = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], stride, w.shape[2:], strict=True)]
    y = np.zeros((x.shape[0], outer * groups, *sizes))
    for place in itertools.product(*map(range, x.shape[2:])):
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = tuple(p * s + t for p, s, t in zip(place, stride, tap, strict=True))
            for g in range(groups):
                part = x[(slice(None), slice(g * inner, (g + 1) * inner), *place)]
                taps = w[(slice(g * inner, (g + 1) * inner), slice(None), *tap)]
                y[(slice(None), slice(g * outer, (g + 1) * outer), *at)] += part @ taps
    return y


def convolution(w, **more):
    return {
        "outputChannels": w.shape[0],
        "kernelChannels": w.shape[1],
        "kernelSize": w.shape[2:],
        "weights": floats(w),
        **more,
    }


@pytest.mark.parametrize(("groups", "outputs"), [(1, 5), (2, 6), (4, 8)])
def test_convolution_valid(groups, outputs):
    x, w, b = normal(2, 4, 8, 9), normal(outputs, 4 // groups, 3, 2), normal(outputs)
    params = convolution(
        w,
        nGroups=groups,
        stride=[2, 1],
        dilationFactor=[1, 2],
        hasBias=True,
        bias=floats(b),
        valid={"paddingAmounts": pads((1, 2), (0, 1))},
    )
    padded = np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 1)])
    check("convolution", [x], params, correlate(padded, w, (2, 1), (1, 2), groups) + b[:, None, None])


@pytest.mark.parametrize(("mode", "before"), [(0, 0), (1, 1)])
def test_convolution_same_is_heavy_on_one_side(mode, before):
    x, w = normal(1, 3, 6, 7), normal(2, 3, 3, 3)
    # Height 6, stride 2: 3 results, padding 1 in all. Width 7: 4 results, padding 2.
    padded = np.pad(x, [(0, 0), (0, 0), (before, 1 - before), (1, 1)])
    params = convolution(w, stride=[2, 2], same={"asymmetryMode": mode})
    check("convolution", [x], params, correlate(padded, w, (2, 2), (1, 1)))


def test_convolution_defaults_leading_axes_and_weights_as_input():
    x, w = normal(2, 2, 3, 5, 5), normal(4, 3, 3, 3)
    flat = correlate(x.reshape(4, 3, 5, 5), w, (1, 1), (1, 1)).reshape(2, 2, 4, 3, 3)
    params = convolution(w)
    del params["kernelSize"]
    check("convolution", [x], params, flat)
    del params["weights"]
    check("convolution", [x, w], params, flat)


@pytest.mark.parametrize("groups", [1, 2])
def test_deconvolution(groups):
    x, w, b = normal(1, 4, 3, 4), normal(4, 3, 3, 2), normal(3 * groups)
    common = {
        "outputChannels": 3 * groups, "kernelChannels": 4, "kernelSize": [3, 2], "nGroups": groups,
        "isDeconvolution": True, "weights": floats(w), "hasBias": True, "bias": floats(b),
    }  # fmt: skip
    full = spread(x, w, (2, 3), groups) + b[:, None, None]
    check("convolution", [x], {**common, "stride": [2, 3], "valid": {}}, full)
    cut = {**common, "stride": [2, 3], "valid": {"paddingAmounts": pads((1, 1), (0, 1))}}
    check("convolution", [x], cut, full[:, :, 1:-1, :-1])
    one = spread(x, w, (1, 1), groups) + b[:, None, None]
    # 3 rows become 3: 2 of 5 go, one on each side; 4 columns become 4: the last of 5 goes.
    check("convolution", [x], {**common, "same": {}}, one[:, :, 1:4, :4])
    check("convolution", [x], {**common, "outputShape": [3, 4]}, one[:, :, 1:4, :4])


def test_convolution3d():
    x, w, b = normal(1, 2, 4, 5, 6), normal(3, 2, 2, 3, 2), normal(3)
    params = {
        "outputChannels": 3, "inputChannels": 2, "nGroups": 1, "kernelDepth": 2, "kernelHeight": 3, "kernelWidth": 2,
        "strideDepth": 1, "strideHeight": 2, "strideWidth": 1, "dilationDepth": 1, "dilationHeight": 1,
        "dilationWidth": 2, "hasBias": True, "weights": floats(w), "bias": floats(b),
    }  # fmt: skip
    bias = b[:, None, None, None]
    check("convolution3d", [x], {**params, "paddingType": 1}, correlate(x, w, (1, 2, 1), (1, 1, 2)) + bias)
    custom = {
        f"customPadding{side}": n
        for side, n in zip(
            ("Front", "Back", "Top", "Bottom", "Left", "Right"), (1, 0, 0, 2, 1, 1), strict=True
        )
    }
    padded = np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 2), (1, 1)])
    check("convolution3d", [x], {**params, **custom}, correlate(padded, w, (1, 2, 1), (1, 1, 2)) + bias)
    # Same: depth 4 by kernel 2 pads (0, 1), height 5 by stride 2 (1, 1), width 6 by extent 3 (1, 1).
    padded = np.pad(x, [(0, 0), (0, 0), (0, 1), (1, 1), (1, 1)])
    check(
        "convolution3d", [x], {**params, "paddingType": 2}, correlate(padded, w, (1, 2, 1), (1, 1, 2)) + bias
    )


def test_deconvolution3d():
    x, w = normal(1, 2, 2, 3, 2), normal(2, 3, 2, 2, 3)
    params = {
        "outputChannels": 3, "inputChannels": 2, "nGroups": 1, "kernelDepth": 2, "kernelHeight": 2, "kernelWidth": 3,
        "strideDepth": 2, "strideHeight": 1, "strideWidth": 2, "dilationDepth": 1, "dilationHeight": 1,
        "dilationWidth": 1, "isDeconvolution": True, "paddingType": 1, "weights": floats(w),
    }  # fmt: skip
    check("convolution3d", [x], params, spread(x, w, (2, 1, 2)))


# --- pools ----------------------------------------------------------------------------------------------------


def pool(x, kernel, stride, before, counts, function):
    """Windows of the last axes; `before` is the padding in front; function(elements inside, size of the window)."""
    y = np.zeros((*x.shape[: x.ndim - len(kernel)], *counts))
    for place in itertools.product(*map(range, counts)):
        starts = [p * s - b for p, s, b in zip(place, stride, before, strict=True)]
        box = tuple(
            slice(max(a, 0), max(min(a + k, n), 0))
            for a, k, n in zip(starts, kernel, x.shape[-len(kernel) :], strict=True)
        )
        axes = tuple(range(-len(kernel), 0))
        y[(..., *place)] = function(x[(..., *box)], axes, int(np.prod(kernel)))
    return y


def maximum(part, axes, size):
    return part.max(axes)


def mean_all(part, axes, size):
    return part.sum(axes) / size


def mean_inside(part, axes, size):
    return part.mean(axes)


def root(part, axes, size):
    return np.sqrt((part**2).sum(axes))


POOLS = [(0, False, maximum), (1, False, mean_all), (1, True, mean_inside), (2, False, root)]


@pytest.mark.parametrize(("kind", "exclude", "function"), POOLS)
def test_pooling(kind, exclude, function):
    x = normal(2, 3, 7, 8)
    params = {"type": kind, "kernelSize": [3, 2], "stride": [2, 3], "avgPoolExcludePadding": exclude}
    padding = {"valid": {"paddingAmounts": pads((1, 1), (0, 1))}}
    check("pooling", [x], {**params, **padding}, pool(x, (3, 2), (2, 3), (1, 0), (4, 3), function))
    # Same, heavy on the far side: 7 by 2 gives 4 with (1, 1), 8 by 3 gives 3 with (0, 0).
    check("pooling", [x], {**params, "same": {}}, pool(x, (3, 2), (2, 3), (1, 0), (4, 3), function))
    whole = pool(x, (7, 8), (1, 1), (0, 0), (1, 1), function)
    check("pooling", [x], {"type": kind, "globalPooling": True}, whole)


def test_pooling_that_includes_the_last_pixel():
    x = normal(1, 2, 6, 7)
    params = {
        "type": 0,
        "kernelSize": [3, 3],
        "stride": [2, 2],
        "includeLastPixel": {"paddingAmounts": [0, 0]},
    }
    check("pooling", [x], params, pool(x, (3, 3), (2, 2), (0, 0), (3, 3), maximum))
    params["includeLastPixel"] = {"paddingAmounts": [1, 1]}
    # ceil((6 + 2 - 3) / 2) + 1 = 4, and 3 * 2 < 6 + 1; ceil((7 + 2 - 3) / 2) + 1 = 4.
    check("pooling", [x], params, pool(x, (3, 3), (2, 2), (1, 1), (4, 4), maximum))
    params = {"type": 0, "kernelSize": [1, 1], "stride": [3, 3], "includeLastPixel": {}}
    with pytest.raises(UnsupportedError, match="its last window lies outside of the image"):
        run_single("pooling", [normal(1, 1, 3, 3)], params)


@pytest.mark.parametrize(("kind", "exclude", "function"), POOLS[:3])
def test_pooling3d(kind, exclude, function):
    x = normal(1, 2, 5, 6, 7)
    params = {
        "type": kind, "kernelDepth": 2, "kernelHeight": 3, "kernelWidth": 2, "strideDepth": 2, "strideHeight": 2,
        "strideWidth": 3, "countExcludePadding": exclude,
    }  # fmt: skip
    check(
        "pooling3d",
        [x],
        {**params, "paddingType": 1},
        pool(x, (2, 3, 2), (2, 2, 3), (0, 0, 0), (2, 2, 2), function),
    )
    custom = {"customPaddingFront": 1, "customPaddingBottom": 1, "customPaddingRight": 1}
    # (5 + 1 - 2) / 2 + 1 = 3, (6 + 1 - 3) / 2 + 1 = 3, (7 + 1 - 2) / 3 + 1 = 3.
    check(
        "pooling3d", [x], {**params, **custom}, pool(x, (2, 3, 2), (2, 2, 3), (1, 0, 0), (3, 3, 3), function)
    )
    reduced = x.max((2, 3, 4), keepdims=True) if kind == 0 else x.mean((2, 3, 4), keepdims=True)
    check("globalPooling3d", [x], {"type": kind}, reduced)


# --- padding and resampling -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "mode"), [("reflection", "reflect"), ("replication", "edge"), ("constant", "constant")]
)
def test_padding(kind, mode):
    x = normal(2, 3, 4)
    more = {"constant_values": 1.5} if kind == "constant" else {}
    params = {kind: {"value": 1.5} if kind == "constant" else {}, "paddingAmounts": pads((2, 0), (1, 3))}
    check("padding", [x], params, np.pad(x, [(0, 0), (2, 0), (1, 3)], mode=mode, **more))


def linear(x, axis, grid):
    """Samples between elements of an axis."""
    grid = np.clip(grid, 0, x.shape[axis] - 1)
    low = np.floor(grid).astype(int)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    line = [1] * x.ndim
    line[axis] = len(grid)
    t = (grid - low).reshape(line)
    return np.take(x, low, axis) * (1 - t) + np.take(x, high, axis) * t


GRIDS = {
    0: lambda x, n: np.linspace(0, x - x / n, n),
    1: lambda x, n: np.linspace(0, x - 1, n),
    2: lambda x, n: (np.arange(n) + 0.5) * x / n - 0.5,
}


def test_upsample_nearest():
    x = normal(2, 3, 4)
    check("upsample", [x], {"scalingFactor": [2, 3]}, x.repeat(2, 1).repeat(3, 2))
    rows, columns = np.floor(np.arange(4) / 1.5).astype(int), np.floor(np.arange(10) / 2.5).astype(int)
    check("upsample", [x], {"fractionalScalingFactor": [1.5, 2.5]}, x[:, rows][:, :, columns])


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_upsample_bilinear(mode):
    x = normal(1, 1, 2, 3, 4)
    expected = linear(linear(x, 3, GRIDS[mode](3, 9)), 4, GRIDS[mode](4, 8))
    check("upsample", [x], {"scalingFactor": [3, 2], "mode": 1, "linearUpsampleMode": mode}, expected)


SAMPLINGS = {
    0: lambda x, n: np.linspace(0, x - 1, n),
    1: lambda x, n: np.linspace(0, x - 1, n) if n > 1 else np.array([(x - 1) / 2]),
    2: lambda x, n: np.linspace(0, x - x / n, n),
    3: lambda x, n: (np.arange(n) + 0.5) * max(1, x - 1) / n,
}


@pytest.mark.parametrize("mode", SAMPLINGS)
@pytest.mark.parametrize("target", [(7, 3), (1, 4), (3, 6)])
def test_resize_bilinear(mode, target):
    x = normal(2, 3, 6)
    expected = linear(linear(x, 1, SAMPLINGS[mode](3, target[0])), 2, SAMPLINGS[mode](6, target[1]))
    check("resizeBilinear", [x], {"targetSize": target, "mode": {"samplingMethod": mode}}, expected)


def crop_and_resize(image, boxes, target, mode, box_mode, normalized, scale):
    """image [batch, C, H, W], boxes [N, 4 or 5] by the text's formulas."""
    results = []
    for box in boxes:
        pictures = image if len(box) == 4 else image[int(box[0]) : int(box[0]) + 1]
        a, b, c, d = box[-4:]
        if box_mode in (1, 3):
            a, b, c, d = b, a, d, c
        if box_mode in (2, 3):
            a, b, c, d = a - c / 2, b - d / 2, a + c / 2, b + d / 2
        height, width = image.shape[2:]
        tall, wide = ((height - 1, width - 1) if normalized else (1, 1)) * np.array(scale)
        rows = a * tall + SAMPLINGS[mode](c * tall - a * tall + 1, target[0])
        columns = b * wide + SAMPLINGS[mode](d * wide - b * wide + 1, target[1])
        results.append(linear(linear(pictures, 2, rows), 3, columns))
    return np.stack(results)


@pytest.mark.parametrize("mode", SAMPLINGS)
@pytest.mark.parametrize("box_mode", range(4))
def test_crop_resize(mode, box_mode):
    image = normal(1, 2, 3, 8, 9)
    # Corners or centres and sizes: all inside for both meanings.
    boxes = np.array([[2, 3, 5, 6], [3, 2.5, 4, 3.5], [1, 1, 1.5, 2]], np.float32)
    params = {"targetSize": [3, 4], "mode": {"samplingMethod": mode}, "boxIndicesMode": {"boxMode": box_mode}}
    expected = crop_and_resize(image[0], boxes, (3, 4), mode, box_mode, False, 1.0)
    check("cropResize", [image, boxes.reshape(3, 1, 4, 1, 1)], params, expected, atol=1e-4)
    picked = np.concatenate([[[1], [0], [1]], boxes / 10], 1).astype(np.float32)
    expected = crop_and_resize(image[0], picked, (3, 4), mode, box_mode, True, 0.9)
    params |= {"normalizedCoordinates": True, "spatialScale": 0.9}
    check("cropResize", [image, picked.reshape(3, 1, 5, 1, 1)], params, expected, atol=1e-4)


def test_a_kernel_larger_than_the_image_is_told():
    with pytest.raises(ModelError, match=r"the kernel \[5, 5\] is larger than the padded image \[3, 3\]"):
        run_single("pooling", [normal(1, 1, 3, 3)], {"kernelSize": [5, 5]})
