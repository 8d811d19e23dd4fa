"""A small decoder in NumPy: embedding, layers of attention over the last `WINDOW` tokens and ReLU, with gradients.

A head adds to each score a number for the distance between two tokens; there is no other notion of a position. Tokens
before the first one are rows of zeros, as in a cache that is still empty.
"""

import dataclasses

import numpy as np
from chat_text import ALPHABET
from numpy.typing import NDArray

Array = NDArray[np.float32]
Parameters = dict[str, Array]

VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS = len(ALPHABET), 64, 4, 192, 2
WINDOW = 64
"""Tokens that one looks at, itself among them."""
HEAD = WIDTH // HEADS
EPSILON = 1e-5


def initial_parameters(random: np.random.Generator) -> Parameters:
    """Matrices are [in, out]; `distance` is [heads, WINDOW], the nearest token last."""

    def normal(*shape: int, scale: float) -> Array:
        return random.normal(0, scale, shape).astype(np.float32)

    made = {
        "embedding": normal(VOCABULARY, WIDTH, scale=0.3),
        "head": normal(WIDTH, VOCABULARY, scale=WIDTH**-0.5),
        "head.gain": np.ones(WIDTH, np.float32),
    }
    slopes = 2.0 ** -np.arange(1, HEADS + 1)
    for layer in range(LAYERS):
        p = f"layer{layer}."
        for name in ("query", "key", "value"):
            made[p + name] = normal(WIDTH, WIDTH, scale=WIDTH**-0.5)
        made[p + "out"] = normal(WIDTH, WIDTH, scale=(2 * LAYERS * WIDTH) ** -0.5)
        made[p + "up"] = normal(WIDTH, HIDDEN, scale=(2 / WIDTH) ** 0.5)
        made[p + "down"] = normal(HIDDEN, WIDTH, scale=(2 * LAYERS * HIDDEN) ** -0.5)
        made[p + "attention.gain"] = np.ones(WIDTH, np.float32)
        made[p + "hidden.gain"] = np.ones(WIDTH, np.float32)
        made[p + "distance"] = (slopes[:, None] * np.arange(1 - WINDOW, 1) / 4).astype(np.float32)
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
        return grad_x, (grad * self.unit).reshape(-1, WIDTH).sum(0)


def _heads(x: Array) -> Array:
    """[B, T, WIDTH] -> [B, HEADS, T, HEAD]."""
    return x.reshape(*x.shape[:2], HEADS, HEAD).transpose(0, 2, 1, 3)


def _joined(x: Array) -> Array:
    """The inverse of `_heads`."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], WIDTH)


def _product(x: Array, grad: Array) -> Array:
    """Gradient of a matrix that x was multiplied by."""
    return x.reshape(-1, x.shape[-1]).T @ grad.reshape(-1, grad.shape[-1])


class Layer:
    """One layer on tokens [B, T, WIDTH]; it keeps what `backward` needs."""

    def __init__(self, parameters: Parameters, number: int):
        self.prefix = f"layer{number}."
        self.own = {
            name.removeprefix(self.prefix): value
            for name, value in parameters.items()
            if name.startswith(self.prefix)
        }

    def forward(self, x: Array) -> Array:
        own = self.own
        self.a = Normed(x, own["attention.gain"])
        pad = ((0, 0), (0, 0), (WINDOW - 1, 0), (0, 0))
        self.q = _heads(self.a.y @ own["query"])
        self.k = np.pad(_heads(self.a.y @ own["key"]), pad)
        self.v = np.pad(_heads(self.a.y @ own["value"]), pad)
        count = x.shape[1]
        # Slot s of token t: [0, WINDOW) from the oldest of its window to itself.
        self.slot = np.arange(count + WINDOW - 1)[None] - np.arange(count)[:, None]
        self.seen = (self.slot >= 0) & (self.slot < WINDOW)
        scores = self.q @ self.k.transpose(0, 1, 3, 2) * HEAD**-0.5
        scores += own["distance"][:, np.clip(self.slot, 0, WINDOW - 1)]
        scores = np.where(self.seen, scores, np.float32(-1e9))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        self.p = scores / scores.sum(-1, keepdims=True)
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
        grad_mixed = _heads(grad @ own["out"].T)
        grad_p = grad_mixed @ self.v.transpose(0, 1, 3, 2)
        grad_s = self.p * (grad_p - (grad_p * self.p).sum(-1, keepdims=True))
        per_slot = grad_s.sum(0)
        found["distance"] = np.stack(
            [np.bincount(self.slot[self.seen], head[self.seen], WINDOW) for head in per_slot]
        ).astype(np.float32)
        grad_s = grad_s * HEAD**-0.5
        grad_v = _joined((self.p.transpose(0, 1, 3, 2) @ grad_mixed)[:, :, WINDOW - 1 :])
        grad_q = _joined(grad_s @ self.k)
        grad_k = _joined((grad_s.transpose(0, 1, 3, 2) @ self.q)[:, :, WINDOW - 1 :])
        grad_a = np.zeros_like(grad)
        for name, each in (("query", grad_q), ("key", grad_k), ("value", grad_v)):
            found[name] = _product(self.a.y, each)
            grad_a += each @ own[name].T
        inner, found["attention.gain"] = self.a.backward(grad_a)
        return grad + inner, {self.prefix + name: value for name, value in found.items()}


def forward(parameters: Parameters, tokens: NDArray[np.int32]) -> Array:
    """Logits [B, T, VOCABULARY] of what follows each token [B, T]."""
    return _run(parameters, tokens)[0]


def _run(parameters: Parameters, tokens: NDArray[np.int32]) -> tuple[Array, Normed, list[Layer]]:
    x = parameters["embedding"][tokens]
    layers = [Layer(parameters, number) for number in range(LAYERS)]
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
    np.add.at(found["embedding"], tokens.ravel(), grad.reshape(-1, WIDTH))
    return loss, found
