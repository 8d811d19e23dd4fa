"""Four small networks for scikit-learn's digits, their training in NumPy, and variants with stretched channels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from backends import Backend, Network, OnnxWriter, Parameters, Training

WIDTH, HEADS, TOKENS, HIDDEN = 32, 4, 8, 64
EPOCHS, BATCH, RATE, DECAY = 40, 32, 3e-3, 1e-4
HELD_OUT = 0.4


def cnn(b: Backend, x: Any) -> Any:
    """Convolutions, a pool, two linear layers."""
    x = b.max_pool(b.relu(b.convolve(x, "conv1")), 2)
    x = b.relu(b.convolve(x, "conv2"))
    x = b.relu(b.linear(b.reshape(x, (b.batch, 32 * 16)), "fc1"))
    return b.linear(x, "fc2")


def depthwise(b: Backend, x: Any) -> Any:
    """Depthwise-separable convolutions and a global average."""
    x = b.relu(b.convolve(x, "conv1"))
    x = b.relu(b.convolve(x, "dw1", depthwise=True))
    x = b.relu(b.convolve(x, "pw1", pad=0))
    x = b.relu(b.convolve(x, "dw2", stride=2, depthwise=True))
    x = b.relu(b.convolve(x, "pw2", pad=0))
    return b.linear(b.global_average(x), "fc")


def mlp(b: Backend, x: Any) -> Any:
    """Three linear layers."""
    x = b.relu(b.linear(b.reshape(x, (b.batch, 64)), "fc1"))
    x = b.relu(b.linear(x, "fc2"))
    return b.linear(x, "fc3")


def transformer(b: Backend, x: Any) -> Any:
    """One block over the image's rows: attention of four heads, GELU, layer norms before each."""
    x = b.linear(b.reshape(x, (b.batch, TOKENS, 8)), "embed")
    x = b.add(x, b.parameter("position.weight"))
    y = b.layer_norm(x, "norm1")
    query, key, value = (_heads(b, b.linear(y, name), name) for name in ("query", "key", "value"))
    scores = b.scale(b.matmul(query, key), (WIDTH // HEADS) ** -0.5)
    mixed = b.transpose(b.matmul(b.softmax(scores), value), (0, 2, 1, 3))
    x = b.add(x, b.linear(b.reshape(mixed, (b.batch, TOKENS, WIDTH)), "output"))
    y = b.gelu(b.linear(b.layer_norm(x, "norm2"), "wide"))
    x = b.layer_norm(b.add(x, b.linear(y, "narrow")), "norm3")
    return b.linear(b.mean(x, 1), "head")


def _heads(b: Backend, x: Any, name: str) -> Any:
    split = b.reshape(x, (b.batch, TOKENS, HEADS, WIDTH // HEADS))
    return b.transpose(split, (0, 2, 3, 1) if name == "key" else (0, 2, 1, 3))


@dataclass(frozen=True)
class Description:
    """A network, the shapes of its weights, and which layers stretch which (`stretched`)."""

    network: Network
    weights: dict[str, tuple[int, ...]]
    stretches: tuple[tuple[str, str, str], ...]


DESCRIPTIONS: dict[str, Description] = {
    "cnn": Description(
        cnn,
        {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "fc1": (512, 64), "fc2": (64, 10)},
        (("conv1", "conv2", "convolution"), ("fc1", "fc2", "linear")),
    ),
    "depthwise": Description(
        depthwise,
        {
            "conv1": (16, 1, 3, 3),
            "dw1": (16, 1, 3, 3),
            "pw1": (32, 16, 1, 1),
            "dw2": (32, 1, 3, 3),
            "pw2": (48, 32, 1, 1),
            "fc": (48, 10),
        },
        (("conv1", "dw1", "depthwise"), ("dw1", "pw1", "convolution"), ("dw2", "pw2", "convolution")),
    ),
    "mlp": Description(
        mlp,
        {"fc1": (64, 64), "fc2": (64, 32), "fc3": (32, 10)},
        (("fc1", "fc2", "linear"), ("fc2", "fc3", "linear")),
    ),
    "transformer": Description(
        transformer,
        {
            "embed": (8, WIDTH),
            "position": (TOKENS, WIDTH),
            "norm1": (WIDTH,),
            "query": (WIDTH, WIDTH),
            "key": (WIDTH, WIDTH),
            "value": (WIDTH, WIDTH),
            "output": (WIDTH, WIDTH),
            "norm2": (WIDTH,),
            "wide": (WIDTH, HIDDEN),
            "narrow": (HIDDEN, WIDTH),
            "norm3": (WIDTH,),
            "head": (WIDTH, 10),
        },
        (("norm1", "query key value", "linear"), ("value", "output", "linear"), ("norm2", "wide", "linear")),
    ),
}


@dataclass(frozen=True)
class Digits:
    """Images float32 [N, 1, 8, 8] in 0..1, labels [N]."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_digits(seed: int) -> Digits:
    """scikit-learn's digits; 40 % are held out, by a permutation of the seed."""
    from sklearn.datasets import load_digits as load  # only training needs scikit-learn

    digits = load()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images = (digits.images[order, None] / 16).astype(np.float32)
    labels, split = digits.target[order], int(len(order) * (1 - HELD_OUT))
    return Digits(images[:split], labels[:split], images[split:], labels[split:])


def initial(description: Description, seed: int) -> Parameters:
    """He-normal weights, zero biases, unit scales."""
    rng = np.random.default_rng(seed)
    parameters: Parameters = {}
    for name, shape in description.weights.items():
        if len(shape) == 1:
            parameters[f"{name}.scale"] = np.ones(shape, np.float32)
        else:
            fan_in = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
            parameters[f"{name}.weight"] = rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        if name != "position":
            parameters[f"{name}.bias"] = np.zeros(shape[0] if len(shape) == 4 else shape[-1], np.float32)
    return parameters


def train(name: str, digits: Digits, seed: int, epochs: int = EPOCHS) -> Parameters:
    """Adam on the cross-entropy, with a cosine schedule; half of the images are shifted by a pixel."""
    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    # The products are small: several threads of BLAS on busy cores take twenty times longer.
    with threadpool_limits(1):
        return _trained(DESCRIPTIONS[name], digits, seed, epochs)


def _trained(description: Description, digits: Digits, seed: int, epochs: int) -> Parameters:
    rng, parameters = np.random.default_rng(seed), initial(description, seed)
    moments = {key: (np.zeros_like(v), np.zeros_like(v)) for key, v in parameters.items()}
    step, batches = 0, len(digits.train_labels) // BATCH
    for _ in range(epochs):
        order = rng.permutation(len(digits.train_labels))
        for batch in range(batches):
            chosen = order[batch * BATCH : (batch + 1) * BATCH]
            gradients = _gradients(description.network, parameters, digits, chosen, rng)
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / (epochs * batches)))
            _update(parameters, moments, gradients, step, rate)
    return parameters


def _gradients(
    network: Network, parameters: Parameters, digits: Digits, chosen: np.ndarray, rng: np.random.Generator
) -> Parameters:
    training = Training(parameters)
    images, labels = _shifted(digits.train_images[chosen], rng), digits.train_labels[chosen]
    logits = network(training, _constant(images))
    powers = np.exp(logits.value - logits.value.max(1, keepdims=True))
    gradient = powers / powers.sum(1, keepdims=True)
    gradient[np.arange(len(labels)), labels] -= 1
    logits.propagate((gradient / len(labels)).astype(np.float32))
    return {
        name: variable.gradient
        for name, variable in training.variables.items()
        if variable.gradient is not None
    }


def _constant(images: np.ndarray) -> Any:
    from autodiff import Variable

    return Variable(images)


def _shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = rng.integers(0, 3, (len(images), 2))
    moves[rng.random(len(images)) < 0.5] = 1
    return np.stack([padded[i, :, y : y + 8, x : x + 8] for i, (y, x) in enumerate(moves)])


def _update(
    parameters: Parameters,
    moments: dict[str, tuple[np.ndarray, np.ndarray]],
    gradients: Parameters,
    step: int,
    rate: float,
) -> None:
    for name, gradient in gradients.items():
        mean, square = moments[name]
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        change = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        decay = DECAY if name.endswith(".weight") else 0.0
        parameters[name] *= 1 - rate * decay
        parameters[name] -= (rate * change).astype(np.float32)


def stretched(name: str, parameters: Parameters, seed: int, octaves: float = 3.0) -> Parameters:
    """Channels multiplied by 2^-octaves .. 2^octaves where the next layer divides by them: the same function."""
    result = {key: value.copy() for key, value in parameters.items()}
    rng = np.random.default_rng(seed + 1000)
    for first, seconds, kind in DESCRIPTIONS[name].stretches:
        weight = f"{first}.weight" if f"{first}.weight" in result else f"{first}.scale"
        channels = len(result[f"{first}.bias"])
        factors = (2.0 ** rng.uniform(-octaves, octaves, channels)).astype(np.float32)
        out_first = result[weight].ndim == 4
        result[weight] *= factors[:, None, None, None] if out_first else factors
        result[f"{first}.bias"] *= factors
        for second in seconds.split():
            shape = {"linear": (-1, 1), "convolution": (1, -1, 1, 1), "depthwise": (-1, 1, 1, 1)}[kind]
            result[f"{second}.weight"] /= factors.reshape(shape)
    return result


def export(name: str, parameters: Parameters) -> Any:
    """The network as an ONNX ModelProto; its dimension `batch` is open."""
    return OnnxWriter(parameters).model(DESCRIPTIONS[name].network)


def forward(name: str, parameters: Parameters, images: np.ndarray) -> np.ndarray:
    """Float logits."""
    logits: np.ndarray = DESCRIPTIONS[name].network(Training(parameters), _constant(images)).value
    return logits
