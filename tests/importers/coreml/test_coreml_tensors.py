"""Layers that reduce, normalize, move, look up and sort, against NumPy."""

import numpy as np
import pytest
from coreml_models import array, check, floats, layer, model, run, run_single

from tosaic.errors import ModelError, UnsupportedError

RANDOM = np.random.default_rng(13)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


# --- matrices -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_inner_product(lead):
    w, b = normal(5, 12), normal(5)
    params = {
        "inputChannels": 12,
        "outputChannels": 5,
        "hasBias": True,
        "weights": floats(w),
        "bias": floats(b),
    }
    x = normal(*lead, 12)
    check("innerProduct", [x], params, x @ w.T + b)
    image = normal(2, *lead[:1], 3, 2, 2)
    wanted = image.reshape(*image.shape[:-3], 12) @ w.T + b
    check("innerProduct", [image], params, wanted[..., None, None])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 4), (2, 4, 5)),
        ((3, 4), (4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((4,), (2, 4, 3)),
        ((2, 3, 4), (4,)),
    ],
)
def test_batched_matmul_of_two(a, b):
    x, y = normal(*a), normal(*b)
    wanted = np.matmul(x[None] if x.ndim == 1 else x, y[:, None] if y.ndim == 1 else y)
    check("batchedMatmul", [x, y], {}, wanted)
    if x.ndim > 1 and y.ndim > 1:
        check(
            "batchedMatmul",
            [x.swapaxes(-1, -2), y.swapaxes(-1, -2)],
            {"transposeA": True, "transposeB": True},
            wanted,
        )


def test_batched_matmul_with_weights():
    w, b = normal(4, 5), normal(5)
    params = {"weightMatrixFirstDimension": 4, "weightMatrixSecondDimension": 5, "weights": floats(w.T)}
    for shape in ((4,), (2, 4), (2, 3, 4)):
        x = normal(*shape)
        check("batchedMatmul", [x], params, x @ w)
        check("batchedMatmul", [x], {**params, "hasBias": True, "bias": floats(b)}, x @ w + b)


def test_dynamically_quantized_weights():
    q = RANDOM.integers(-127, 128, (5, 4)).astype(np.int8)
    weights = {
        "int8RawValue": q.tobytes(),
        "quantization": {"numberOfBits": 8, "linearQuantization": {"scale": [0.5]}},
    }
    params = {"inputChannels": 4, "outputChannels": 5, "int8DynamicQuantize": True, "weights": weights}
    x = normal(3, 4)
    check("innerProduct", [x], params, x @ (q.T * np.float32(0.5)), rtol=1e-4, atol=1e-4)


def test_embeddings():
    w, b, x = normal(3, 7), normal(3), np.array([[1], [6], [0], [1]], np.float32)
    params = {"hasBias": True, "weights": floats(w), "bias": floats(b)}
    wanted = w.T[x[:, 0].astype(int)] + b
    check("embeddingND", [x], {"vocabSize": 7, "embeddingSize": 3, **params}, wanted)
    legacy = {"inputDim": 7, "outputChannels": 3, **params}
    check("embedding", [x.reshape(4, 1, 1, 1)], legacy, wanted[:, :, None, None])
    check("embedding", [x.reshape(2, 2, 1, 1, 1)], legacy, wanted.reshape(2, 2, 3, 1, 1))


# --- normalizations -------------------------------------------------------------------------------------------


def soft(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def test_softmax():
    x = normal(2, 3, 4, 5) * 20
    check("softmax", [x], {}, soft(x, 1))
    for axis in (-1, 0, 2):
        check("softmaxND", [x], {"axis": axis}, soft(x, axis))


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_batch_normalization(lead):
    x = normal(*lead, 4, 3, 5)
    gamma, beta, mean, variance = normal(4), normal(4), normal(4), np.abs(normal(4)) + 0.5
    stored = {
        "gamma": floats(gamma),
        "beta": floats(beta),
        "mean": floats(mean),
        "variance": floats(variance),
    }
    g, b, m, v = (p[:, None, None] for p in (gamma, beta, mean, variance))
    check("batchnorm", [x], {"channels": 4, **stored}, g * (x - m) / np.sqrt(v + 1e-5) + b)
    own = {"channels": 4, "computeMeanVar": True, "instanceNormalization": True, "epsilon": 0.1, **stored}
    m, v = x.mean((-1, -2), keepdims=True), x.var((-1, -2), keepdims=True)
    check("batchnorm", [x], own, g * (x - m) / np.sqrt(v + 0.1) + b)
    axes = (*range(len(lead)), x.ndim - 2, x.ndim - 1)
    m, v = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    check("batchnorm", [x], {**own, "instanceNormalization": False}, g * (x - m) / np.sqrt(v + 0.1) + b)


def test_other_normalizations():
    x = normal(2, 3, 4, 5)
    for across, axes in ((False, (2, 3)), (True, (1, 2, 3))):
        centred = x - x.mean(axes, keepdims=True)
        check("mvn", [x], {"acrossChannels": across}, centred)
        wanted = centred / np.sqrt(x.var(axes, keepdims=True) + 0.01)
        check("mvn", [x], {"acrossChannels": across, "normalizeVariance": True, "epsilon": 0.01}, wanted)
    check("l2normalize", [x], {"epsilon": 0.5}, x / np.sqrt((x**2).sum((1, 2, 3), keepdims=True) + 0.5))
    squares = np.stack([(x[:, max(c - 1, 0) : c + 2] ** 2).sum(1) for c in range(3)], 1)
    check("lrn", [x], {"alpha": 0.5, "beta": 0.75, "localSize": 3}, x / (1 + 0.5 / 3 * squares) ** 0.75)
    check("lrn", [x], {"alpha": 0.5, "beta": 2.0, "localSize": 3, "k": 2.0}, x / (2 + 0.5 / 3 * squares) ** 2)
    gamma, beta = normal(4, 5), normal(4, 5)
    params = {"normalizedShape": [4, 5], "eps": 0.1, "gamma": floats(gamma), "beta": floats(beta)}
    wanted = gamma * (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + 0.1) + beta
    check("layerNormalization", [x], params, wanted)


def test_bias_scale_and_constants():
    x = normal(2, 3, 4, 5)
    for shape in ((1,), (3,), (1, 4, 5), (3, 4, 5)):
        b, s = normal(*shape), normal(*shape)
        wide = [p[:, None, None] if p.ndim == 1 else p for p in (b, s)]
        check("bias", [x], {"shape": shape, "bias": floats(b)}, x + wide[0])
        params = {
            "shapeScale": shape,
            "scale": floats(s),
            "hasBias": True,
            "shapeBias": shape,
            "bias": floats(b),
        }
        check("scale", [x], params, x * wide[1] + wide[0])
    c = normal(3, 4, 5)
    check("loadConstantND", [], {"shape": [3, 4, 5], "data": floats(c)}, c)
    check("loadConstant", [], {"shape": [3, 4, 5], "data": floats(c)}, c[None, None])
    check("fillStatic", [], {"value": 2.5, "targetShape": [2, 3]}, np.full((2, 3), 2.5))
    check("fillLike", [x], {"value": -1.0}, np.full(x.shape, -1.0))
    check("getShape", [x], {}, np.array([2.0, 3, 4, 5]))
    check(
        "rangeStatic", [], {"startValue": 1.0, "endValue": 4.2, "stepSizeValue": 0.5}, np.arange(1, 4.2, 0.5)
    )


# --- reductions -----------------------------------------------------------------------------------------------

REDUCTIONS = {
    "reduceL1": lambda x, a, k: np.abs(x).sum(a, keepdims=k),
    "reduceL2": lambda x, a, k: np.sqrt((x**2).sum(a, keepdims=k)),
    "reduceMax": lambda x, a, k: x.max(a, keepdims=k),
    "reduceMin": lambda x, a, k: x.min(a, keepdims=k),
    "reduceSum": lambda x, a, k: x.sum(a, keepdims=k),
    "reduceProd": lambda x, a, k: x.prod(a, keepdims=k),
    "reduceMean": lambda x, a, k: x.mean(a, keepdims=k),
    "reduceLogSum": lambda x, a, k: np.log(x.sum(a, keepdims=k)),
    "reduceSumSquare": lambda x, a, k: (x**2).sum(a, keepdims=k),
    "reduceLogSumExp": lambda x, a, k: np.log(np.exp(x).sum(a, keepdims=k)),
}


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions(kind):
    x = np.abs(normal(2, 3, 4)) + 0.5
    for axes in ((1,), (0, 2), (-1, 0)):
        for keep in (True, False):
            check(kind, [x], {"axes": axes, "keepDims": keep}, REDUCTIONS[kind](x, axes, keep), rtol=1e-4)
    check(kind, [x], {"reduceAll": True}, REDUCTIONS[kind](x, None, False).reshape(1), rtol=1e-4)


LEGACY = [
    np.sum,
    np.mean,
    np.prod,
    lambda x, axis, keepdims: np.log(x + 0.1).sum(axis, keepdims=keepdims),
    lambda x, axis, keepdims: (x**2).sum(axis, keepdims=keepdims),
    lambda x, axis, keepdims: np.abs(x).sum(axis, keepdims=keepdims),
    lambda x, axis, keepdims: np.sqrt((x**2).sum(axis, keepdims=keepdims)),
    np.max,
    np.min,
]


@pytest.mark.parametrize("mode", range(9))
@pytest.mark.parametrize(("number", "axes"), list(enumerate([(2, 3, 4), (3, 4), (2,), (3,), (4,)])))
def test_legacy_reduce(mode, number, axes):
    x = np.abs(normal(2, 1, 3, 2, 4)) + 0.5
    wanted = LEGACY[mode](x, axis=axes, keepdims=True)
    check("reduce", [x], {"mode": mode, "axis": number, "epsilon": 0.1}, wanted, rtol=1e-4)


def test_arg_extremes():
    x = normal(2, 3, 4)
    for axis in (0, 1, -1):
        check("reduce", [x[None]], {"mode": 9, "axis": 4}, x[None].argmax(-1)[..., None].astype(float))
        check("argMax", [x], {"axis": axis}, np.expand_dims(x.argmax(axis), axis).astype(float))
        check("argMin", [x], {"axis": axis, "removeDim": True}, x.argmin(axis).astype(float))
    check("argMax", [x[0, 0]], {"axis": 0, "removeDim": True}, np.array([x[0, 0].argmax()], float))


def test_dot_and_cumulative_sum():
    a, b = normal(2, 5, 1, 1), normal(2, 5, 1, 1)
    product = (a * b).sum(1, keepdims=True)
    check("dot", [a, b], {}, product)
    lengths = np.sqrt((a**2).sum(1, keepdims=True) * (b**2).sum(1, keepdims=True))
    check("dot", [a, b], {"cosineSimilarity": True}, product / lengths)
    x = normal(2, 3, 4)
    check("cumSum", [x], {"axis": 1}, x.cumsum(1))
    check("cumSum", [x], {"axis": -1, "reverse": True}, x[..., ::-1].cumsum(2)[..., ::-1])
    without = np.concatenate([np.zeros((2, 3, 1)), x.cumsum(2)[..., :-1]], 2)
    check("cumSum", [x], {"axis": 2, "excludeFinalSum": True}, without)


# --- shapes ---------------------------------------------------------------------------------------------------


def test_legacy_shapes():
    x = normal(2, 1, 3, 4, 5)
    check("flatten", [x], {"mode": 0}, x.reshape(2, 1, 60, 1, 1))
    check("flatten", [x], {"mode": 1}, x.transpose(0, 1, 3, 4, 2).reshape(2, 1, 60, 1, 1))
    check("reshape", [x], {"targetShape": [4, 5, 3]}, x.reshape(2, 1, 4, 5, 3))
    check("reshape", [x], {"targetShape": [1, 6, 4, 5]}, x.reshape(1, 1, 6, 4, 5))
    wanted = x.transpose(0, 1, 3, 4, 2).reshape(2, 1, 5, 3, 4).transpose(0, 1, 4, 2, 3)
    check("reshape", [x], {"targetShape": [4, 5, 3], "mode": 1}, wanted)
    check("permute", [x], {"axis": [0, 3, 1, 2]}, x.transpose(0, 1, 4, 2, 3))
    check("permute", [x], {"axis": [3, 1, 2, 0]}, x.transpose(4, 1, 2, 3, 0))
    check("permute", [x], {}, x)
    check("sequenceRepeat", [x], {"nRepetitions": 3}, np.tile(x, (3, 1, 1, 1, 1)))


def test_reorganize_data_examples_of_the_text():
    x = np.arange(1, 17, dtype=np.float32).reshape(8, 1, 2)
    blocks = np.array([[[1, 5, 2, 6], [9, 13, 10, 14]], [[3, 7, 4, 8], [11, 15, 12, 16]]], float)
    shuffled = np.array([[[1, 3, 2, 4], [5, 7, 6, 8]], [[9, 11, 10, 12], [13, 15, 14, 16]]], float)
    check("reorganizeData", [x], {"mode": 1, "blockSize": 2}, blocks)
    check("reorganizeData", [blocks], {"mode": 0, "blockSize": 2}, x)
    check("reorganizeData", [x], {"mode": 2, "blockSize": 2}, shuffled)


def test_general_shapes():
    x = normal(2, 3, 4)
    check("transpose", [x], {"axes": [2, 0, 1]}, x.transpose(2, 0, 1))
    check("reshapeStatic", [x], {"targetShape": [4, -1]}, x.reshape(4, 6))
    check("reshapeLike", [x, normal(6, 4)], {}, x.reshape(6, 4))
    check("rankPreservingReshape", [x], {"targetShape": [0, -1, 2]}, x.reshape(2, 6, 2))
    check("expandDims", [x], {"axes": [0, -1]}, x[None, ..., None])
    check("squeeze", [x.reshape(1, 2, 12, 1)], {"axes": [0, -1]}, x.reshape(2, 12))
    check("squeeze", [x[:1, :1, :1]], {"squeezeAll": True}, x[0, 0, :1])
    for axis, shape in ((-1, (6, 4)), (0, (1, 24)), (3, (24, 1))):
        check("flattenTo2D", [x], {"axis": axis}, x.reshape(shape))
    check(
        "broadcastToStatic",
        [x[:, :1]],
        {"targetShape": [5, 2, 3, 4]},
        np.broadcast_to(x[:, :1], (5, 2, 3, 4)),
    )
    check("broadcastToLike", [x[0], normal(2, 3, 4)], {}, np.broadcast_to(x[0], (2, 3, 4)))
    check("tile", [x], {"reps": [2, 3]}, np.tile(x, (2, 3)))
    check("reverse", [x], {"reverseDim": [True, False, True]}, x[::-1, :, ::-1])
    check("copy", [x], {}, x)


def with_constant(kind, x, constant, params, more=()):
    """A layer whose second input is a constant, as those that decide shapes must be."""
    constants = [np.asarray(values, np.float32) for values in (constant, *more)]
    names = [f"c{i}" for i in range(len(constants))]
    layers = [
        layer("loadConstantND", [], [name], shape=value.shape, data=floats(value))
        for name, value in zip(names, constants, strict=True)
    ]
    inputs = ["x"] if x is not None else []
    layers.append(layer(kind, [*inputs, *names], ["y"], **params))
    features = [array("x", x.shape)] if x is not None else [array("unused", [1])]
    return run(model(layers, features, [array("y", [])]), {"x": x, "unused": [0]})["y"]


def test_shapes_from_constants():
    x = normal(2, 3, 4)
    np.testing.assert_array_equal(with_constant("reshapeDynamic", x, [4, -1], {}), x.reshape(4, 6))
    np.testing.assert_array_equal(with_constant("tile", x, [1, 2, 2], {}), np.tile(x, (1, 2, 2)))
    np.testing.assert_array_equal(
        with_constant("fillDynamic", None, [2, 5], {"value": 3.0}), np.full((2, 5), 3.0)
    )
    wide = np.broadcast_to(x, (2, 2, 3, 4))
    np.testing.assert_array_equal(with_constant("broadcastToDynamic", x, [2, 2, 3, 4], {}), wide)
    padded = np.pad(x, [(0, 1), (2, 0), (1, 1)], constant_values=5)
    np.testing.assert_array_equal(with_constant("constantPad", x, [0, 1, 2, 0, 1, 1], {"value": 5.0}), padded)
    counted = with_constant("rangeDynamic", None, [7], {"startValue": 1.0, "stepSizeValue": 2.0})
    np.testing.assert_array_equal(counted, [1, 3, 5])
    counted = with_constant("rangeDynamic", None, [7], {}, more=[[2], [1.5]])
    np.testing.assert_array_equal(counted, [2, 3.5, 5, 6.5])
    sliced = with_constant("sliceDynamic", x, [0, 1, -1], {"strides": [1, 1, -1]}, more=[[2, 3, -4]])
    np.testing.assert_array_equal(sliced, x[0:2, 1:3, -1:-4:-1])


def test_shapes_at_run_time_are_refused_with_the_way_out():
    with pytest.raises(UnsupportedError, match="'x1' is computed at run time.*make it a constant"):
        run_single("reshapeDynamic", [normal(2, 3), np.array([3.0, 2.0])], {})


def test_a_chain_of_shapes_is_folded():
    """x.reshape(shape(x)[0], -1), as converters write it."""
    x = normal(2, 3, 4)
    masks = {name: [False] for name in ("beginMasks", "endMasks", "squeezeMasks")}
    layers = [
        layer("getShape", ["x"], ["s"]),
        layer("sliceStatic", ["s"], ["n"], beginIds=[0], endIds=[1], strides=[1], **masks),
        layer("loadConstantND", [], ["m"], shape=[1], data=floats([-1])),
        layer("concatND", ["n", "m"], ["t"], axis=0),
        layer("reshapeDynamic", ["x", "t"], ["y"]),
    ]  # fmt: skip
    got = run(model(layers, [array("x", x.shape)], [array("y", [])]), {"x": x})
    np.testing.assert_array_equal(got["y"], x.reshape(2, 12))


# --- slices ---------------------------------------------------------------------------------------------------


def test_slices():
    x = normal(2, 6, 5, 4)
    check("slice", [x], {"startIndex": 1, "endIndex": -1, "stride": 2, "axis": 0}, x[:, 1:-1:2])
    check("slice", [x], {"startIndex": 2, "endIndex": 5, "axis": 1}, x[:, :, 2:5])
    check("slice", [x], {"startIndex": -3, "endIndex": 4, "axis": 2}, x[..., -3:4])
    check("split", [x], {"nOutputs": 3}, np.split(x, 3, 1))
    check("splitND", [x], {"axis": -1, "splitSizes": [1, 3]}, [x[..., :1], x[..., 1:]])
    check("splitND", [x], {"axis": 2, "numSplits": 2}, np.array_split(x, 2, 2))
    check("concat", [x, x[:, :2]], {}, np.concatenate([x, x[:, :2]], 1))
    check("concat", [x[None], x[None]], {"sequenceConcat": True}, np.stack([x, x]))
    check("concatND", [x, x[:, :, 1:]], {"axis": -2}, np.concatenate([x, x[:, :, 1:]], 2))
    wanted = np.stack([x, -x], 2).reshape(2, 12, 5, 4)
    check("concatND", [x, -x], {"axis": 1, "interleave": True}, wanted)
    check("stack", [x, -x], {"axis": -1}, np.stack([x, -x], -1))
    borders = {
        "borderAmounts": [{"startEdgeSize": 1, "endEdgeSize": 2}, {"startEdgeSize": 0, "endEdgeSize": 1}]
    }
    check("crop", [x], {"cropAmounts": borders}, x[:, :, 1:3, :3])
    check("crop", [x, normal(2, 6, 3, 2)], {"offset": [2, 1]}, x[:, :, 2:5, 1:3])
    check("slidingWindows", [x], {"axis": 1, "windowSize": 3, "step": 2}, np.stack([x[:, 0:3], x[:, 2:5]], 1))
    check("sliceBySize", [x, np.array([2.0])], {"size": 3, "axis": 1}, x[:, 2:5])


def test_slice_static_examples_of_the_text():
    x = normal(5, 5, 5)
    params = {
        "beginIds": [1, 2, 3], "beginMasks": [True, False, True], "endIds": [3, -3, 2],
        "endMasks": [False, True, True], "strides": [2, 2, 2], "squeezeMasks": [False, False, False],
    }  # fmt: skip
    check("sliceStatic", [x], params, x[:3:2, 2::2, ::2])
    check("sliceStatic", [x], {**params, "squeezeMasks": [False, True, False]}, x[:3:2, 2, ::2])
    params |= {"strides": [1, -1, -3], "beginMasks": [True, True, True], "endMasks": [True] * 3}
    check("sliceStatic", [x], params, x[:, ::-1, ::-3])


def test_constant_pad_to_sizes():
    x = normal(20, 10)
    params = {"padAmounts": [0, 21, 14, 0], "padToGivenOutputSizeMode": True}
    check("constantPad", [x], params, np.pad(x, [(0, 1), (4, 0)]))
    check(
        "constantPad",
        [x],
        {"padAmounts": [0, 1, 4, 0], "value": 2.0},
        np.pad(x, [(0, 1), (4, 0)], constant_values=2),
    )


def test_bands():
    x = normal(2, 5, 6)
    distance = np.arange(6)[None] - np.arange(5)[:, None]
    check(
        "matrixBandPart",
        [x],
        {"numLower": 1, "numUpper": 2},
        np.where((distance >= -1) & (distance <= 2), x, 0),
    )
    check("matrixBandPart", [x], {"numLower": -1, "numUpper": 0}, np.tril(x))
    for k in (-1, 0, 2):
        check("upperTriangular", [x], {"k": k}, np.triu(x, k))
        check("lowerTriangular", [x], {"k": k}, np.tril(x, k))


# --- gathers, scatters, orders --------------------------------------------------------------------------------


def test_gathers():
    x = normal(3, 4, 5)
    indices = np.array([[1.0, -1, 0], [2, 3, -4]])
    check("gather", [x, indices], {"axis": 1}, np.take(x, indices.astype(int), 1))
    along = RANDOM.integers(-4, 4, (3, 6, 5)).astype(float)
    check("gatherAlongAxis", [x, along], {"axis": -2}, np.take_along_axis(x, along.astype(int) % 4, 1))
    tuples = np.array([[[0, 1], [2, -1]]], float)
    check("gatherND", [x, tuples], {}, x[tuples[..., 0].astype(int), tuples[..., 1].astype(int)])


MODES = ["update", "add", "sub", "mul", "div", "max", "min"]


def put(old, new, mode):
    return [new, old + new, old - new, old * new, old / new, np.maximum(old, new), np.minimum(old, new)][mode]


@pytest.mark.parametrize("mode", range(7), ids=MODES)
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_scatters(mode, repeated, known):
    x = normal(3, 4, 5)
    indices = np.array([2.0, -1, 2] if repeated else [2.0, -1, 0])
    updates = np.abs(normal(3, 3, 5)) + 0.5
    wanted = x.copy()
    for i, index in enumerate(indices.astype(int)):
        wanted[:, index] = put(wanted[:, index], updates[:, i], mode)
    params = {"axis": 1, "mode": mode}
    if known:
        layers = [
            layer("loadConstantND", [], ["i"], shape=[3], data=floats(indices)),
            layer("scatter", ["x", "i", "u"], ["y"], **params),
        ]
        message = model(layers, [array("x", x.shape), array("u", updates.shape)], [array("y", [])])
        np.testing.assert_allclose(run(message, {"x": x, "u": updates})["y"], wanted, rtol=1e-5, atol=1e-5)
    else:
        check("scatter", [x, indices, updates], params, wanted)


@pytest.mark.parametrize("mode", range(7), ids=MODES)
def test_other_scatters(mode):
    x, updates = normal(4, 3), np.abs(normal(3, 3)) + 0.5
    along = np.array([[0.0, 1, -1], [0, 2, 3], [1, 1, 2]])
    wanted = x.copy()
    for row in range(3):
        for column in range(3):
            place = int(along[row, column]) % 4, column
            wanted[place] = put(wanted[place], updates[row, column], mode)
    check("scatterAlongAxis", [x, along, updates], {"axis": 0, "mode": mode}, wanted)
    tuples, wanted = np.array([[0.0], [3], [0]]), x.copy()
    for row in range(3):
        place = int(tuples[row, 0])
        wanted[place] = put(wanted[place], updates[row], mode)
    check("scatterND", [x, tuples, updates], {"mode": mode}, wanted)


def test_top_k_and_arg_sort():
    x = RANDOM.integers(0, 8, (3, 9, 2)).astype(np.float32)
    for bottom in (False, True):
        order = np.argsort(x if bottom else -x, 1, kind="stable")[:, :4]
        wanted = [np.take_along_axis(x, order, 1), order.astype(float)]
        check("topK", [x], {"axis": 1, "K": 4, "useBottomK": bottom}, wanted)
    check("argSort", [x], {"axis": 1}, np.argsort(x, 1, kind="stable").astype(float))
    check("argSort", [x], {"axis": 1, "descending": True}, np.argsort(-x, 1, kind="stable").astype(float))


def test_one_hot_and_reversed_sequences():
    x = np.array([[0.0, 2], [-1, 1]])
    hot = np.where(np.eye(3)[x.astype(int) % 3] > 0, 2.0, -1.0)
    params = {"oneHotVectorSize": 3, "onValue": 2.0, "offValue": -1.0}
    check("oneHot", [x], {**params, "axis": -1}, hot)
    check("oneHot", [x], {**params, "axis": 0}, np.moveaxis(hot, -1, 0))
    data = np.arange(12.0).reshape(2, 3, 2)
    wanted = np.array([[[2, 3], [0, 1], [4, 5]], [[10, 11], [8, 9], [6, 7]]], float)
    check("reverseSeq", [data, np.array([2.0, 3])], {"batchAxis": 0, "sequenceAxis": 1}, wanted)
    check(
        "reverseSeq",
        [data.swapaxes(0, 2), np.array([2.0, 3])],
        {"batchAxis": 2, "sequenceAxis": 1},
        wanted.swapaxes(0, 2),
    )


@pytest.mark.parametrize(
    ("kind", "inputs", "params", "message"),
    [
        ("gather", [normal(3), np.array([[0.0]])], {"axis": 4}, "axis 4 of 1"),
        ("transpose", [normal(2, 3)], {"axes": [0, 0]}, r"axes are \[0, 0\]"),
        ("reshapeStatic", [normal(2, 3)], {"targetShape": [4, 2]}, r"6 elements do not fit \[4, 2\]"),
        ("addBroadcastable", [normal(2, 3), normal(2)], {}, "do not broadcast"),
        (
            "innerProduct",
            [normal(2, 3)],
            {"inputChannels": 4, "outputChannels": 1},
            "inputChannels is 4, the input has 3",
        ),
        ("loadConstantND", [], {"shape": [5], "data": floats([1, 2])}, "data are 2 numbers, not the 5"),
        ("softmax", [normal(3)], {}, "rank 1, where 3 to 6 is allowed"),
        ("clip", [normal(3)], {"minVal": 2.0, "maxVal": 1.0}, "minVal 2.0 is not below maxVal 1.0"),
    ],
)
def test_what_contradicts_itself_is_told_with_the_layer(kind, inputs, params, message):
    with pytest.raises(ModelError, match=message) as error:
        run_single(kind, inputs, params)
    assert f"layer 'y0' ({kind})" in str(error.value)
