"""Trains a decoder in NumPy and writes its pieces of words and float weights.

    python examples/chat/train.py [--model pieces] [-o DIRECTORY] [--steps N]

The text is that of the Python that runs this, so another version learns from a slightly different one.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from chat_float import Array, Parameters, Shape, forward, gradients, initial_parameters, loss_of
from chat_models import MODELS, Training, is_matrix
from chat_text import split
from chat_tokens import Tokenizer, learn_pieces
from numpy.typing import NDArray

WARM_UP = 50
"""Steps until the learning rate is at its peak."""
SEED = 1


class Optimizer:
    """Adam, with weight decay on matrices; where a plan has a rate for it, Muon for those inside the layers, whose
    steps are orthogonal matrices and so learn as much of rare directions as of frequent ones."""

    def __init__(self, parameters: Parameters, plan: Training):
        self.parameters, self.plan, self.step = parameters, plan, 0
        self.mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.square = {name: np.zeros_like(value) for name, value in parameters.items()}

    def update(self, found: Parameters, part: float) -> None:
        """One step, of `part` of the plan's rates; changes the parameters in place."""
        self.step += 1
        size = np.float32(max(1.0, np.sqrt(sum(float((grad**2).sum()) for grad in found.values()))))
        for name, grad in found.items():
            decays = is_matrix(name, grad)
            if decays and self.plan.muon_rate and name.startswith("layer"):
                rate = part * self.plan.muon_rate
                step = self._muon(name, grad / size)
            else:
                rate = part * self.plan.rate
                step = self._adam(name, grad / size)
            if decays:
                self.parameters[name] *= 1 - rate * self.plan.weight_decay
            self.parameters[name] -= (rate * step).astype(np.float32)

    def _adam(self, name: str, grad: Array) -> Array:
        self.mean[name] += 0.1 * (grad - self.mean[name])
        self.square[name] += 0.02 * (grad * grad - self.square[name])
        mean = self.mean[name] / (1 - 0.9**self.step)
        square = self.square[name] / (1 - 0.98**self.step)
        return np.asarray(mean / (np.sqrt(square) + 1e-8))

    def _muon(self, name: str, grad: Array) -> Array:
        self.mean[name] = 0.95 * self.mean[name] + grad
        step = grad + 0.95 * self.mean[name]
        wide = max(1.0, grad.shape[1] / grad.shape[0]) ** 0.5
        return wide * (orthogonal(step) if grad.shape[0] <= grad.shape[1] else orthogonal(step.T).T)


def orthogonal(x: Array) -> Array:
    """Nearly the matrix with the directions of x, all of size 1: five steps of Newton and Schulz, tuned for speed."""
    x = x / np.float32(np.linalg.norm(x) + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * (square @ square)) @ x
    return x


def windows(
    tokens: NDArray[np.int32], starts: NDArray[np.int64], length: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Tokens [B, length] from `starts` on, and what follows each."""
    where = starts[:, None] + np.arange(length)
    return tokens[where], tokens[where + 1]


def held_out_loss(parameters: Parameters, tokens: NDArray[np.int32], length: int) -> float:
    """Returns the loss on held-out text, in nats per token."""
    losses = []
    for first in range(0, len(tokens) - length * 16 - 1, length * 16):
        read, wanted = windows(tokens, first + np.arange(0, length * 16, length), length)
        losses.append(loss_of(forward(parameters, read), wanted)[0])
    return float(np.mean(losses))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="characters")
    parser.add_argument("-o", "--output", type=Path, help="default: where the model's files are")
    parser.add_argument("--steps", type=int)
    chosen = parser.parse_args()
    model = MODELS[chosen.model]
    steps = chosen.steps or model.training.steps
    began = time.process_time()
    learned_text, kept_text = split(model.load_text())
    tokenizer = learn_pieces(learned_text, model.merges) if model.merges else Tokenizer()
    learned, kept = tokenizer.encode(learned_text), tokenizer.encode(kept_text)
    print(
        f"{len(learned):,} tokens to learn, {len(learned_text) / len(learned):.2f} characters each",
        flush=True,
    )
    random = np.random.default_rng(SEED)
    plan, parameters = model.training, initial_parameters(model.shape, random)
    assert Shape.of(parameters) == model.shape
    optimizer, losses = Optimizer(parameters, plan), []
    for step in range(steps):
        starts = random.integers(0, len(learned) - plan.length - 1, plan.batch)
        loss, found = gradients(parameters, *windows(learned, starts, plan.length))
        optimizer.update(found, min(1, (step + 1) / WARM_UP) * 0.5 * (1 + np.cos(np.pi * step / steps)))
        losses.append(loss)
        if step % 100 == 99:
            told = (
                f"{np.mean(losses[-100:]):.3f} nats a token, {time.process_time() - began:.0f} s of processor"
            )
            print(f"step {step + 1} of {steps}: {told}", flush=True)
    print(f"held out: {held_out_loss(parameters, kept, plan.length):.3f} nats a token")
    path = (chosen.output or model.weights.parent) / model.weights.name
    model.save(path, tokenizer, parameters)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
