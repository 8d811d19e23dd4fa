"""Softmax and the normalizations; bias and scale."""

import math
from typing import Any

import numpy as np

from tosaic.compiler.importers.coreml.layer import Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering import statistics
from tosaic.compiler.importers.lowering.layout import channels_first, channels_last


def last_axes(layer: Layer, x: str, count: int) -> list[int]:
    """The last axes of a tensor, from the front."""
    rank = layer.low.rank(x)
    return list(range(rank - count, rank))


@handles("softmax")
def softmax(layer: Layer) -> Blob:
    """Over axis -3."""
    layer.need_rank(3)
    x = layer.loose(rank=3)
    return layer.same(statistics.softmax(layer.low, x, [layer.low.rank(x) - 3]))


@handles("softmaxND")
def softmax_nd(layer: Layer) -> Blob:
    """Over one axis."""
    return layer.same(statistics.softmax(layer.low, layer.x(), [layer.axis(layer.params.axis)]))


@handles("batchnorm")
def batchnorm(layer: Layer) -> Blob:
    """Per channel, with stored statistics or with those of the image."""
    low, p = layer.low, layer.params
    layer.need_rank(3)
    channels = layer.shape()[-3]
    layer.require(p.channels == channels, f"channels is {p.channels}, the input has {channels}")
    epsilon = p.epsilon or 1e-5

    def per_channel(field: str) -> str:
        return layer.constant(layer.weights(field, [channels]).reshape(channels, 1, 1))

    gamma, beta = per_channel("gamma"), per_channel("beta")
    if p.computeMeanVar:
        batch = math.prod(layer.shape()[:-3])
        if not p.instanceNormalization and batch > 1:
            x = layer.image()
            normal, _, _ = statistics.standardize(low, x, (0, 2, 3), epsilon)
        else:
            x = layer.loose(rank=3)
            normal, _, _ = statistics.standardize(low, x, last_axes(layer, x, 2), epsilon)
        return layer.same(low.add(low.mul(normal, gamma), beta))
    x = layer.loose(rank=3)
    return layer.same(
        statistics.batch_normalize(low, x, per_channel("mean"), per_channel("variance"), beta, gamma, epsilon)
    )


@handles("mvn")
def mean_variance(layer: Layer) -> Blob:
    """Less the mean, and by the root of variance + epsilon: over H and W, or C, H and W."""
    low, p = layer.low, layer.params
    layer.need_rank(3)
    x = layer.loose(rank=3)
    axes = last_axes(layer, x, 3 if p.acrossChannels else 2)
    if not p.normalizeVariance:
        return layer.same(low.sub(x, low.mean(x, axes)))
    return layer.same(statistics.standardize(low, x, axes, p.epsilon or 1e-6)[0])


@handles("l2normalize")
def l2_normalize(layer: Layer) -> Blob:
    """By the root of the sum of the squares of C, H and W."""
    low = layer.low
    layer.need_rank(3)
    x = layer.loose(rank=3)
    squares = low.reduce("SUM", low.mul(x, x), last_axes(layer, x, 3))
    return layer.same(low.mul(x, low.op("RSQRT", low.plus(squares, layer.params.epsilon or 1e-6))))


@handles("lrn")
def local_response(layer: Layer) -> Blob:
    """x / (k + alpha / localSize * sum of squares of neighbouring channels)^beta."""
    low, p = layer.low, layer.params
    layer.need_rank(3)
    layer.require(0 < p.localSize <= 1 << 16, f"localSize is {p.localSize}")
    layer.affordable(layer.shape()[-3] ** 2, "its matrix of neighbouring channels")
    image = channels_last(low, layer.image())
    size = int(p.localSize)
    result = statistics.local_response(low, image, size, p.alpha / size, p.beta, p.k or 1.0)
    return layer.same(channels_first(low, result))


@handles("layerNormalization")
def layer_normalization(layer: Layer) -> Blob:
    """Over the last axes, those of normalizedShape."""
    low, p = layer.low, layer.params
    shape = tuple(int(size) for size in p.normalizedShape)
    count = len(shape)
    layer.require(
        0 < count <= layer.rank() and layer.shape()[-count:] == shape, f"normalizedShape is {list(shape)}"
    )
    x = layer.loose(rank=count)
    normal, _, _ = statistics.standardize(low, x, last_axes(layer, x, count), p.eps or 1e-5)
    scaled = low.mul(normal, layer.constant(layer.weights("gamma", shape, channels=1)))
    return layer.same(low.add(scaled, layer.constant(layer.weights("beta", shape, channels=1))))


# --- constants that broadcast ---------------------------------------------------------------------------------


@handles("bias", "scale")
def bias_scale(layer: Layer) -> Blob:
    """x + bias, or x * scale + bias, with shapes [1], [C], [1, H, W] or [C, H, W]."""
    low, p = layer.low, layer.params
    layer.need_rank(3)
    x = layer.loose(rank=3)
    if layer.kind == "bias":
        return layer.same(low.add(x, _spread(layer, p.shape, "bias")))
    x = low.mul(x, _spread(layer, p.shapeScale, "scale"))
    return layer.same(low.add(x, _spread(layer, p.shapeBias, "bias")) if p.hasBias else x)


def _spread(layer: Layer, shape: Any, field: str) -> str:
    sizes = [int(size) for size in shape]
    layer.require(len(sizes) in (1, 3) and 0 not in sizes, f"the shape of {field} is {sizes}")
    values = layer.weights(field, sizes, channels=sizes[0]).reshape(
        sizes if len(sizes) == 3 else (*sizes, 1, 1)
    )
    wanted = layer.shape()[-3:]
    fits = all(size in (1, have) for size, have in zip(values.shape, wanted, strict=True))
    layer.require(fits, f"{field} of shape {sizes} does not broadcast to {list(wanted)}")
    return layer.constant(np.ascontiguousarray(values))
