"""Trains the two networks of this example in NumPy and writes their float weights and the images they need.

    python examples/digits/train.py [-o DIRECTORY]

Writes `weights.npz` (both networks) and `images.npz`. Seeded: one machine and BLAS give the same weights.
Another BLAS sums in another order, so the weights are committed and `quantize.py` starts from those.
"""

import argparse
from pathlib import Path

import numpy as np
from digits_data import Split, load_split, to_float, to_int8
from digits_float import Array, Parameters, backward, cross_entropy, forward, initial_parameters
from digits_network import NETWORKS, Layer
from numpy.typing import NDArray

EPOCHS = {"digits": 30, "digits_tiny": 120}
BATCH = 32
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-4
TRAIN_SEED = 1
CALIBRATION_IMAGES = 256


class Adam:
    """Adam with decoupled weight decay on the weights (not on the biases)."""

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        self.mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.square = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.step = 0

    def update(self, grads: Parameters, rate: float) -> None:
        """One step; changes the parameters in place."""
        self.step += 1
        for name, grad in grads.items():
            self.mean[name] += 0.1 * (grad - self.mean[name])
            self.square[name] += 0.001 * (grad * grad - self.square[name])
            mean = self.mean[name] / (1 - 0.9**self.step)
            square = self.square[name] / (1 - 0.999**self.step)
            if name.endswith(".weight"):
                self.parameters[name] *= 1 - rate * WEIGHT_DECAY
            self.parameters[name] -= (rate * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)


def shifted(images: Array, rng: np.random.Generator) -> Array:
    """Half of the images [N, 8, 8, 1] as they are, the others moved by one pixel up, down, left or right."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    offsets = ((1, 1), (1, 1), (1, 1), (1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
    choice = rng.integers(len(offsets), size=len(images))
    result = np.empty_like(images)
    for index, (dy, dx) in enumerate(offsets):
        result[choice == index] = padded[choice == index, dy : dy + 8, dx : dx + 8]
    return result


def accuracy(
    network: tuple[Layer, ...], parameters: Parameters, images: Array, labels: NDArray[np.uint8]
) -> int:
    """How many images the float network classifies correctly."""
    logits = forward(network, parameters, images)["logits"].reshape(len(labels), -1)
    return int((logits.argmax(axis=1) == labels).sum())


def train(name: str, split: Split, epochs: int) -> Parameters:
    """Trains one network; prints the loss every tenth epoch."""
    network, rng = NETWORKS[name], np.random.default_rng(TRAIN_SEED)
    parameters = initial_parameters(network, rng)
    images, labels = to_float(split.train_pixels), split.train_labels
    optimizer, batches = Adam(parameters), len(labels) // BATCH
    for epoch in range(epochs):
        order, losses = rng.permutation(len(labels)), []
        for batch in range(batches):
            chosen = order[batch * BATCH : (batch + 1) * BATCH]
            outputs = forward(network, parameters, shifted(images[chosen], rng))
            loss, grad = cross_entropy(outputs["logits"].reshape(BATCH, -1), labels[chosen])
            progress = (epoch * batches + batch) / (epochs * batches)
            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * progress))
            optimizer.update(backward(network, parameters, outputs, grad), rate)
            losses.append(loss)
        if epoch % 10 == 9 or epoch == epochs - 1:
            print(f"{name}: epoch {epoch + 1}/{epochs}, loss {np.mean(losses):.4f}", flush=True)
    return parameters


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Train the digits networks in NumPy.")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent)
    directory = parser.parse_args().output
    split = load_split()
    weights: dict[str, np.ndarray] = {}
    for name, network in NETWORKS.items():
        parameters = train(name, split, EPOCHS[name])
        correct = accuracy(network, parameters, to_float(split.test_pixels), split.test_labels)
        print(f"{name}: float, held out: {correct} of {len(split.test_labels)}")
        weights |= {f"{name}.{key}": value for key, value in parameters.items()}
    np.savez_compressed(directory / "weights.npz", **weights)
    np.savez_compressed(
        directory / "images.npz",
        inputs=to_int8(split.test_pixels),
        labels=split.test_labels,
        pixels=split.test_pixels,
        calibration=split.train_pixels[:CALIBRATION_IMAGES],
    )


if __name__ == "__main__":
    main()
