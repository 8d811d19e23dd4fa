"""The activation layer and its 13 functions, which the recurrent layers use too; clampedReLU and gelu."""

import math
from typing import Any

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.coreml.weights import has_weights
from tosaic.compiler.importers.lowering import activations


@handles("activation")
def activation(node: CoreMlNode) -> CoreMlValue:
    """One of 13 functions."""
    which = node.params.WhichOneof("NonlinearityType")
    rank = 3 if which in ("PReLU", "parametricSoftplus") else 1
    if rank == 3:
        node.need_rank(3)
    return node.same(activate(node, node.loose(rank=rank), node.params))


def activate(node: CoreMlNode, x: str, params: Any) -> str:
    """An ActivationParams message applied to x."""
    low, which = node.low, params.WhichOneof("NonlinearityType")
    node.require(which is not None, "the activation names no function")
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
            return activations.leaky_relu(low, x, _per_channel(node, x, p, "alpha"))
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
            curve = activations.softplus(low, low.mul(x, _per_channel(node, x, p, "beta")))
            return low.mul(curve, _per_channel(node, x, p, "alpha"))


def _per_channel(node: CoreMlNode, x: str, params: Any, field: str) -> str:
    """A parameter of one number, or one for each channel (axis -3)."""
    low, channels = node.low, node.low.shape(x)[-3]
    message = getattr(params, field)
    node.require(has_weights(message), f"{field} is missing")
    if len(b"".join(message.floatValue)) == 4 or len(message.float16Value) == 2:
        return low.scalar(float(node.weights(field, [1], params=params)[0]), x)
    return node.constant(node.weights(field, [channels], params=params).reshape(channels, 1, 1))


@handles("clampedReLU")
def clamped_relu(node: CoreMlNode) -> CoreMlValue:
    """Computes min(beta, x) from 0 on, min(beta, alpha * x) below."""
    low, x = node.low, node.loose()
    leaky = activations.leaky_relu(low, x, low.scalar(node.params.alpha, x))
    return node.same(low.clamp(leaky, -math.inf, node.params.beta))


@handles("gelu")
def gelu(node: CoreMlNode) -> CoreMlValue:
    """Computes GELU exactly by ERF, or approximates it by tanh or the sigmoid function."""
    low, x, mode = node.low, node.loose(), node.params.mode
    node.require(mode in (0, 1, 2), f"mode {mode} is not known")
    if mode == 2:
        return node.same(low.mul(x, low.op("SIGMOID", low.times(x, 1.702))))
    return node.same(activations.gelu(low, x, tanh=mode == 1))
