"""The activation layer and its 13 functions, which the recurrent layers use too; clampedReLU and gelu."""

import math
from typing import Any

from tosaic.compiler.importers.coreml.layer import Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.coreml.weights import has_weights
from tosaic.compiler.importers.lowering import activations


@handles("activation")
def activation(layer: Layer) -> Blob:
    """One of 13 functions."""
    which = layer.params.WhichOneof("NonlinearityType")
    rank = 3 if which in ("PReLU", "parametricSoftplus") else 1
    if rank == 3:
        layer.need_rank(3)
    return layer.same(activate(layer, layer.loose(rank=rank), layer.params))


def activate(layer: Layer, x: str, params: Any) -> str:
    """An ActivationParams message applied to x."""
    low, which = layer.low, params.WhichOneof("NonlinearityType")
    layer.require(which is not None, "the activation names no function")
    p = getattr(params, which)
    match which:
        case "linear":
            return low.plus(low.times(x, p.alpha), p.beta)
        case "ReLU":
            return activations.relu(low, x)
        case "leakyReLU":
            return activations.leaky_relu(low, x, low.scalar(p.alpha, x))
        case "thresholdedReLU":
            edge = low.scalar(p.alpha, x)
            return low.select(low.greater_equal(x, edge), x, low.scalar(0, x))
        case "PReLU":
            return activations.leaky_relu(low, x, _per_channel(layer, x, p, "alpha"))
        case "tanh":
            return low.op("TANH", x)
        case "scaledTanh":
            return low.times(low.op("TANH", low.times(x, p.beta)), p.alpha)
        case "sigmoid":
            return low.op("SIGMOID", x)
        case "sigmoidHard":
            return activations.hard_sigmoid(low, x, p.alpha, p.beta)
        case "ELU":
            return activations.elu(low, x, p.alpha)
        case "softsign":
            return activations.softsign(low, x)
        case "softplus":
            return activations.softplus(low, x)
        case _:
            curve = activations.softplus(low, low.mul(x, _per_channel(layer, x, p, "beta")))
            return low.mul(curve, _per_channel(layer, x, p, "alpha"))


def _per_channel(layer: Layer, x: str, params: Any, field: str) -> str:
    """A parameter of one number, or one for each channel (axis -3)."""
    low, channels = layer.low, layer.low.shape(x)[-3]
    message = getattr(params, field)
    layer.require(has_weights(message), f"{field} is missing")
    if len(b"".join(message.floatValue)) == 4 or len(message.float16Value) == 2:
        return low.scalar(float(layer.weights(field, [1], params=params)[0]), x)
    return layer.constant(layer.weights(field, [channels], params=params).reshape(channels, 1, 1))


@handles("clampedReLU")
def clamped_relu(layer: Layer) -> Blob:
    """min(beta, x) from 0 on, min(beta, alpha * x) below."""
    low, x = layer.low, layer.loose()
    leaky = activations.leaky_relu(low, x, low.scalar(layer.params.alpha, x))
    return layer.same(low.clamp(leaky, -math.inf, layer.params.beta))


@handles("gelu")
def gelu(layer: Layer) -> Blob:
    """Exact by ERF, or approximated by tanh or the sigmoid function."""
    low, x, mode = layer.low, layer.loose(), layer.params.mode
    layer.require(mode in (0, 1, 2), f"mode {mode} is not known")
    if mode == 2:
        return layer.same(low.mul(x, low.op("SIGMOID", low.times(x, 1.702))))
    return layer.same(activations.gelu(low, x, tanh=mode == 1))
