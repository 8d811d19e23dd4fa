"""Trains the decoder in NumPy, some minutes on two cores, and writes its float weights.

    python examples/chat/train.py [-o DIRECTORY] [--steps N]

The text is that of the Python that runs this, so another version learns from a slightly different one.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from chat_float import Parameters, forward, gradients, initial_parameters, loss_of
from chat_text import split
from numpy.typing import NDArray

STEPS, BATCH, LENGTH = 1500, 24, 96
LEARNING_RATE, WARM_UP, WEIGHT_DECAY = 4e-3, 50, 1e-2
SEED = 1


class Adam:
    """Adam with weight decay on matrices."""

    def __init__(self, parameters: Parameters):
        self.parameters, self.step = parameters, 0
        self.mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.square = {name: np.zeros_like(value) for name, value in parameters.items()}

    def update(self, found: Parameters, rate: float) -> None:
        """One step; changes the parameters in place."""
        self.step += 1
        size = np.sqrt(sum(float((grad**2).sum()) for grad in found.values()))
        for name, grad in found.items():
            grad = grad / max(1.0, size)
            self.mean[name] += 0.1 * (grad - self.mean[name])
            self.square[name] += 0.02 * (grad * grad - self.square[name])
            mean = self.mean[name] / (1 - 0.9**self.step)
            square = self.square[name] / (1 - 0.98**self.step)
            if grad.ndim == 2 and not name.endswith("distance"):
                self.parameters[name] *= 1 - rate * WEIGHT_DECAY
            self.parameters[name] -= (rate * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)


def windows(
    tokens: NDArray[np.int32], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Tokens [B, LENGTH] from `starts` on, and what follows each."""
    where = starts[:, None] + np.arange(LENGTH)
    return tokens[where], tokens[where + 1]


def held_out_loss(parameters: Parameters, tokens: NDArray[np.int32]) -> float:
    """Returns the loss on held-out text, in nats per character."""
    read, wanted = windows(tokens, np.arange(0, len(tokens) - LENGTH - 1, LENGTH))
    return loss_of(forward(parameters, read), wanted)[0]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent)
    parser.add_argument("--steps", type=int, default=STEPS)
    chosen = parser.parse_args()
    learned, kept = split()
    random = np.random.default_rng(SEED)
    parameters = initial_parameters(random)
    adam, began, losses = Adam(parameters), time.monotonic(), []
    for step in range(chosen.steps):
        starts = random.integers(0, len(learned) - LENGTH - 1, BATCH)
        loss, found = gradients(parameters, *windows(learned, starts))
        rate = LEARNING_RATE * min(1, (step + 1) / WARM_UP) * 0.5 * (1 + np.cos(np.pi * step / chosen.steps))
        adam.update(found, rate)
        losses.append(loss)
        if step % 250 == 249:
            told = f"{np.mean(losses[-250:]):.3f} nats per character, {time.monotonic() - began:.0f} s"
            print(f"step {step + 1} of {chosen.steps}: {told}", flush=True)
    print(f"held out: {held_out_loss(parameters, kept):.3f} nats per character")
    np.savez_compressed(
        chosen.output / "weights.npz",
        **{name: value.astype(np.float16) for name, value in parameters.items()},
    )


if __name__ == "__main__":
    main()
