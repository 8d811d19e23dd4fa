"""A small decoder in NumPy: embedding, layers of attention over the last tokens and ReLU, with gradients.

A head adds to each score a number for the distance between two tokens; there is no other notion of a position. Tokens
before the first one are rows of zeros, as in a cache that is still empty.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Parameters = dict[str, Array]

EPSILON = 1e-5


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of a decoder."""

    vocabulary: int
    width: int
    heads: int
    hidden: int
    layers: int
    window: int
    """Tokens that one looks at, itself among them."""

    @property
    def head(self) -> int:
        """The width of a head."""
        return self.width // self.heads

    @classmethod
    def of(cls, parameters: Parameters) -> "Shape":
        """That of a decoder's parameters."""
        vocabulary, width = parameters["embedding"].shape
        heads, window = parameters["layer0.distance"].shape
        layers = sum(name.endswith(".distance") for name in parameters)
        return cls(vocabulary, width, heads, parameters["layer0.up"].shape[1], layers, window)


def initial_parameters(shape: Shape, random: np.random.Generator) -> Parameters:
    """Matrices are [in, out]; `distance` is [heads, window], the nearest token last."""
    width, hidden, layers = shape.width, shape.hidden, shape.layers

    def normal(*sizes: int, scale: float) -> Array:
        return random.normal(0, scale, sizes).astype(np.float32)

    made = {
        "embedding": normal(shape.vocabulary, width, scale=0.3),
        "head": normal(width, shape.vocabulary, scale=width**-0.5),
        "head.gain": np.ones(width, np.float32),
    }
    slopes = 2.0 ** -np.arange(1, shape.heads + 1)
    for layer in range(layers):
        p = f"layer{layer}."
        for name in ("query", "key", "value"):
            made[p + name] = normal(width, width, scale=width**-0.5)
        made[p + "out"] = normal(width, width, scale=(2 * layers * width) ** -0.5)
        made[p + "up"] = normal(width, hidden, scale=(2 / width) ** 0.5)
        made[p + "down"] = normal(hidden, width, scale=(2 * layers * hidden) ** -0.5)
        made[p + "attention.gain"] = np.ones(width, np.float32)
        made[p + "hidden.gain"] = np.ones(width, np.float32)
        made[p + "distance"] = (slopes[:, None] * np.arange(1 - shape.window, 1) / 4).astype(np.float32)
    return made


@dataclasses.dataclass
class Normed:
    """x / sqrt(mean(x^2)) * gain, with what its gradient needs."""

    x: Array
    gain: Array

    def __post_init__(self) -> None:
        self.scale = 1 / np.sqrt((self.x**2).mean(-1, keepdims=True) + EPSILON)
        self.unit = self.x * self.scale
        self.y = self.unit * self.gain

    def backward(self, grad: Array) -> tuple[Array, Array]:
        """Gradients of x and of the gain."""
        inner = grad * self.gain
        grad_x = self.scale * (inner - self.unit * (inner * self.unit).mean(-1, keepdims=True))
        return grad_x, (grad * self.unit).reshape(-1, len(self.gain)).sum(0)


def _heads(x: Array, heads: int) -> Array:
    """[B, T, width] -> [B, heads, T, head]."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def _joined(x: Array) -> Array:
    """The inverse of `_heads`."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def _product(x: Array, grad: Array) -> Array:
    """Gradient of a matrix that x was multiplied by."""
    return x.reshape(-1, x.shape[-1]).T @ grad.reshape(-1, grad.shape[-1])


class Layer:
    """One layer on tokens [B, T, width]; it keeps what `backward` needs."""

    def __init__(self, parameters: Parameters, number: int):
        self.prefix, self.shape = f"layer{number}.", Shape.of(parameters)
        self.own = {
            name.removeprefix(self.prefix): value
            for name, value in parameters.items()
            if name.startswith(self.prefix)
        }

    def forward(self, x: Array) -> Array:
        own, heads, window = self.own, self.shape.heads, self.shape.window
        self.a = Normed(x, own["attention.gain"])
        pad = ((0, 0), (0, 0), (window - 1, 0), (0, 0))
        self.q = _heads(self.a.y @ (own["query"] * self.shape.head**-0.5), heads)
        self.k = np.pad(_heads(self.a.y @ own["key"], heads), pad)
        self.v = np.pad(_heads(self.a.y @ own["value"], heads), pad)
        count = x.shape[1]
        # Slot s of token t: [0, window) from the oldest of its window to itself.
        self.slot = np.arange(count + window - 1)[None] - np.arange(count)[:, None]
        self.seen = (self.slot >= 0) & (self.slot < window)
        far = np.where(self.seen, own["distance"][:, np.clip(self.slot, 0, window - 1)], np.float32(-1e9))
        scores = self.q @ self.k.transpose(0, 1, 3, 2)
        scores += far
        scores -= scores.max(-1, keepdims=True)
        self.p = np.exp(scores, out=scores)
        self.p /= self.p.sum(-1, keepdims=True)
        self.mixed = _joined(self.p @ self.v)
        x = x + self.mixed @ own["out"]
        self.m = Normed(x, own["hidden.gain"])
        self.hidden = np.maximum(self.m.y @ own["up"], 0)
        return x + self.hidden @ own["down"]

    def backward(self, grad: Array) -> tuple[Array, Parameters]:
        """Gradients of the input and of the parameters."""
        own, found = self.own, {}
        found["down"] = _product(self.hidden, grad)
        grad_hidden = (grad @ own["down"].T) * (self.hidden > 0)
        found["up"] = _product(self.m.y, grad_hidden)
        inner, found["hidden.gain"] = self.m.backward(grad_hidden @ own["up"].T)
        grad = grad + inner
        found["out"] = _product(self.mixed, grad)
        grad_mixed = _heads(grad @ own["out"].T, self.shape.heads)
        grad_s = grad_mixed @ self.v.transpose(0, 1, 3, 2)
        grad_s -= (grad_mixed * (self.p @ self.v)).sum(-1, keepdims=True)
        grad_s *= self.p
        per_slot, window = grad_s.sum(0), self.shape.window
        found["distance"] = np.stack(
            [np.bincount(self.slot[self.seen], head[self.seen], window) for head in per_slot]
        ).astype(grad.dtype)
        grad_v = _joined((self.p.transpose(0, 1, 3, 2) @ grad_mixed)[:, :, window - 1 :])
        grad_q = _joined(grad_s @ self.k) * self.shape.head**-0.5
        grad_k = _joined((grad_s.transpose(0, 1, 3, 2) @ self.q)[:, :, window - 1 :])
        grad_a = np.zeros_like(grad)
        for name, each in (("query", grad_q), ("key", grad_k), ("value", grad_v)):
            found[name] = _product(self.a.y, each)
            grad_a += each @ own[name].T
        inner, found["attention.gain"] = self.a.backward(grad_a)
        return grad + inner, {self.prefix + name: value for name, value in found.items()}


def forward(parameters: Parameters, tokens: NDArray[np.int32]) -> Array:
    """Logits [B, T, vocabulary] of what follows each token [B, T]."""
    return _run(parameters, tokens)[0]


def caches(parameters: Parameters, tokens: NDArray[np.int32]) -> Parameters:
    """The states of the step-by-step decoder before each token: `layerN.keys` and `layerN.values`
    [B, T, heads, window - 1, head]."""
    found: Parameters = {}
    for layer in _run(parameters, tokens)[2]:
        for name, rows in (("keys", layer.k), ("values", layer.v)):
            # One window for each token, and the last one's is its own row.
            seen = np.lib.stride_tricks.sliding_window_view(rows, layer.shape.window, axis=2)
            found[layer.prefix + name] = seen.transpose(0, 2, 1, 4, 3)[..., :-1, :]
    return found


def _run(parameters: Parameters, tokens: NDArray[np.int32]) -> tuple[Array, Normed, list[Layer]]:
    x = parameters["embedding"][tokens]
    layers = [Layer(parameters, number) for number in range(Shape.of(parameters).layers)]
    for layer in layers:
        x = layer.forward(x)
    last = Normed(x, parameters["head.gain"])
    return last.y @ parameters["head"], last, layers


def loss_of(logits: Array, wanted: NDArray[np.int32]) -> tuple[float, Array]:
    """Mean cross-entropy in nats, and its gradient."""
    shifted = logits - logits.max(-1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    picked = np.take_along_axis(log, wanted[..., None], -1)
    grad = np.exp(log)
    np.put_along_axis(grad, wanted[..., None], np.take_along_axis(grad, wanted[..., None], -1) - 1, -1)
    return float(-picked.mean()), grad / np.float32(wanted.size)


def gradients(
    parameters: Parameters, tokens: NDArray[np.int32], wanted: NDArray[np.int32]
) -> tuple[float, Parameters]:
    """Loss, and its gradient of every parameter."""
    logits, last, layers = _run(parameters, tokens)
    loss, grad_logits = loss_of(logits, wanted)
    found = {"head": _product(last.y, grad_logits)}
    grad, found["head.gain"] = last.backward(grad_logits @ parameters["head"].T)
    for layer in reversed(layers):
        grad, own = layer.backward(grad)
        found |= own
    found["embedding"] = np.zeros_like(parameters["embedding"])
    np.add.at(found["embedding"], tokens.ravel(), grad.reshape(-1, grad.shape[-1]))
    return loss, found
