"""How well a decoder knows text that training and calibration did not see, in integers and in floats.

    python examples/chat/perplexity.py [--model characters|pieces] [--weights int8|int4] [--count 4000]

The perplexity is e to the power of the mean nats a token: among how many tokens a coin would have to choose.
"""

import argparse
from collections.abc import Callable

import numpy as np
from chat import logits_of
from chat_float import Parameters, forward, loss_of
from chat_models import MODELS
from numpy.typing import NDArray
from quantize import make_model

from tosaic import Session

PART = 500
"""Tokens that are read in a row; caches are empty before each."""


def losses(logits: NDArray[np.floating], wanted: NDArray[np.int32]) -> NDArray[np.float64]:
    """Nats of each token."""
    return np.array([loss_of(row[None], token[None])[0] for row, token in zip(logits, wanted, strict=True)])


def of_floats(parameters: Parameters) -> Callable[[NDArray[np.int32]], NDArray[np.floating]]:
    """Logits of what follows each token, by the float decoder."""
    return lambda tokens: forward(parameters, tokens[None])[0]


def of_integers(session: Session) -> Callable[[NDArray[np.int32]], NDArray[np.floating]]:
    """The same by the quantized one, step by step."""

    def run(tokens: NDArray[np.int32]) -> NDArray[np.floating]:
        session.state.reset()
        return np.stack([logits_of(session, token) for token in tokens.tolist()])

    return run


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="pieces")
    parser.add_argument("--weights", choices=("int8", "int4"), default="int8")
    parser.add_argument("--count", type=int, default=4000, help="tokens")
    chosen = parser.parse_args()
    model = MODELS[chosen.model]
    tokenizer, parameters = model.load()
    kept = model.held_out(tokenizer)
    read = [of_floats(parameters), of_integers(Session(make_model(chosen.model, chosen.weights), "golden"))]
    found: list[list[NDArray[np.float64]]] = [[], []]
    for first in range(0, min(chosen.count, len(kept) - 1), PART):
        part = kept[first : first + PART + 1]
        for kind, logits in zip(found, read, strict=True):
            kind.append(losses(logits(part[:-1]), part[1:]))
    floats, integers = (np.concatenate(kind) for kind in found)
    print(f"{len(floats)} held-out tokens: perplexity {np.exp(floats.mean()):.3f} in floats, ", end="")
    print(f"{np.exp(integers.mean()):.3f} in integers with weights of {chosen.weights}")
    error = (integers - floats).std() / len(floats) ** 0.5
    print(f"{100 * np.expm1((integers - floats).mean()):+.2f} % (standard error {100 * error:.2f})")


if __name__ == "__main__":
    main()
