"""Lowers softmax, the normalizations, bias and scale."""

import math
from typing import Any

import numpy as np

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering import statistics
from tosaic.compiler.importers.lowering.layout import channels_first, channels_last


def last_axes(node: CoreMlNode, x: str, count: int) -> list[int]:
    """The last axes of a tensor, from the front."""
    rank = node.low.rank(x)
    return list(range(rank - count, rank))


@handles("softmax")
def softmax(node: CoreMlNode) -> CoreMlValue:
    """Lowers softmax over axis -3."""
    node.need_rank(3)
    x = node.loose(rank=3)
    return node.same(statistics.softmax(node.low, x, [node.low.rank(x) - 3]))


@handles("softmaxND")
def softmax_nd(node: CoreMlNode) -> CoreMlValue:
    """Lowers softmax over one axis."""
    return node.same(statistics.softmax(node.low, node.x(), [node.axis(node.params.axis)]))


@handles("batchnorm")
def batchnorm(node: CoreMlNode) -> CoreMlValue:
    """Normalizes each channel, with stored statistics or with those of the image."""
    low, p = node.low, node.params
    node.need_rank(3)
    channels = node.shape()[-3]
    node.require(p.channels == channels, f"channels is {p.channels}, the input has {channels}")
    epsilon = p.epsilon or 1e-5

    def per_channel(field: str) -> str:
        return node.constant(node.weights(field, [channels]).reshape(channels, 1, 1))

    gamma, beta = per_channel("gamma"), per_channel("beta")
    if p.computeMeanVar:
        batch = math.prod(node.shape()[:-3])
        if not p.instanceNormalization and batch > 1:
            x = node.image()
            normal, _, _ = statistics.standardize(low, x, (0, 2, 3), epsilon)
        else:
            x = node.loose(rank=3)
            normal, _, _ = statistics.standardize(low, x, last_axes(node, x, 2), epsilon)
        return node.same(low.add(low.mul(normal, gamma), beta))
    x = node.loose(rank=3)
    return node.same(
        statistics.batch_normalize(low, x, per_channel("mean"), per_channel("variance"), beta, gamma, epsilon)
    )


@handles("mvn")
def mean_variance(node: CoreMlNode) -> CoreMlValue:
    """Subtracts the mean and divides by the root of variance + epsilon, over H and W, or C, H and W."""
    low, p = node.low, node.params
    node.need_rank(3)
    x = node.loose(rank=3)
    axes = last_axes(node, x, 3 if p.acrossChannels else 2)
    if not p.normalizeVariance:
        return node.same(low.sub(x, low.mean(x, axes)))
    return node.same(statistics.standardize(low, x, axes, p.epsilon or 1e-6)[0])


@handles("l2normalize")
def l2_normalize(node: CoreMlNode) -> CoreMlValue:
    """Divides by the root of the sum of the squares of C, H and W."""
    low = node.low
    node.need_rank(3)
    x = node.loose(rank=3)
    squares = low.reduce("SUM", low.mul(x, x), last_axes(node, x, 3))
    return node.same(low.mul(x, low.op("RSQRT", low.plus(squares, node.params.epsilon or 1e-6))))


@handles("lrn")
def local_response(node: CoreMlNode) -> CoreMlValue:
    """x / (k + alpha / localSize * sum of squares of neighbouring channels)^beta."""
    low, p = node.low, node.params
    node.need_rank(3)
    node.require(0 < p.localSize <= 1 << 16, f"localSize is {p.localSize}")
    node.affordable(node.shape()[-3] ** 2, "its matrix of neighbouring channels")
    image = channels_last(low, node.image())
    size = int(p.localSize)
    result = statistics.local_response(low, image, size, p.alpha / size, p.beta, p.k or 1.0)
    return node.same(channels_first(low, result))


@handles("layerNormalization")
def layer_normalization(node: CoreMlNode) -> CoreMlValue:
    """Normalizes over the last axes, those of normalizedShape."""
    low, p = node.low, node.params
    shape = tuple(int(size) for size in p.normalizedShape)
    count = len(shape)
    node.require(
        0 < count <= node.rank() and node.shape()[-count:] == shape, f"normalizedShape is {list(shape)}"
    )
    x = node.loose(rank=count)
    normal, _, _ = statistics.standardize(low, x, last_axes(node, x, count), p.eps or 1e-5)
    scaled = low.mul(normal, node.constant(node.weights("gamma", shape, channels=1)))
    return node.same(low.add(scaled, node.constant(node.weights("beta", shape, channels=1))))


# --- constants that broadcast ---------------------------------------------------------------------------------


@handles("bias", "scale")
def bias_scale(node: CoreMlNode) -> CoreMlValue:
    """x + bias, or x * scale + bias, with shapes [1], [C], [1, H, W] or [C, H, W]."""
    low, p = node.low, node.params
    node.need_rank(3)
    x = node.loose(rank=3)
    if node.kind == "bias":
        return node.same(low.add(x, _spread(node, p.shape, "bias")))
    x = low.mul(x, _spread(node, p.shapeScale, "scale"))
    return node.same(low.add(x, _spread(node, p.shapeBias, "bias")) if p.hasBias else x)


def _spread(node: CoreMlNode, shape: Any, field: str) -> str:
    sizes = [int(size) for size in shape]
    node.require(len(sizes) in (1, 3) and 0 not in sizes, f"the shape of {field} is {sizes}")
    values = node.weights(field, sizes, channels=sizes[0]).reshape(
        sizes if len(sizes) == 3 else (*sizes, 1, 1)
    )
    wanted = node.shape()[-3:]
    fits = all(size in (1, have) for size, have in zip(values.shape, wanted, strict=True))
    node.require(fits, f"{field} of shape {sizes} does not broadcast to {list(wanted)}")
    return node.constant(np.ascontiguousarray(values))
