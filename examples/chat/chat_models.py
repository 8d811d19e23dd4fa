"""The two decoders: what each reads, how large it is, how it is trained, and where its files are."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from chat_float import Parameters, Shape
from chat_text import load_library, load_reference, split
from chat_tokens import ALPHABET, Tokenizer

from tosaic import nnr

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build/chat"
"""What is made here, once."""


CODING = nnr.Settings("dependent", relative_step=1 / 63)
"""How matrices are coded: some five bits a weight."""
ONE = 1 << 16
"""Gains and distances are whole multiples of its inverse."""


def is_matrix(name: str, value: np.ndarray) -> bool:
    """Whether a parameter is one: neither a gain nor the heads' distances."""
    return value.ndim == 2 and not name.endswith("distance")


@dataclasses.dataclass(frozen=True)
class Training:
    """Steps on batches of windows of the text."""

    steps: int
    batch: int
    length: int
    """Tokens of a window."""
    rate: float
    """Of Adam."""
    weight_decay: float
    muon_rate: float = 0
    """Of Muon; 0: Adam everywhere."""


@dataclasses.dataclass(frozen=True)
class Model:
    """A decoder."""

    weights: Path
    load_text: Callable[[], str]
    merges: int
    """Joined pairs of tokens; none: a token is a character."""
    sizes: tuple[int, int, int, int, int]
    """Width, heads, hidden channels, layers, window."""
    training: Training
    prompt: str
    quantization: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Options of `quantize_graph`."""

    @property
    def shape(self) -> Shape:
        """Its sizes."""
        return Shape(len(ALPHABET) + self.merges, *self.sizes)

    def save(self, path: Path, tokenizer: Tokenizer, parameters: Parameters) -> None:
        """Writes weights in float16, or weights and merges as an NNR bitstream with some five bits a weight."""
        if path.suffix == ".npz":
            np.savez_compressed(
                path, **{name: value.astype(np.float16) for name, value in parameters.items()}
            )
            return
        packed = {
            name: value if is_matrix(name, value) else np.rint(value * ONE).astype(np.int32)
            for name, value in parameters.items()
        }
        path.write_bytes(nnr.encode({"merges": tokenizer.merges, **packed}, CODING))

    def load(self) -> tuple[Tokenizer, Parameters]:
        """The committed float weights, and the tokens that they know."""
        if self.weights.suffix == ".npz":
            with np.load(self.weights) as weights:
                return Tokenizer(), {name: weights[name].astype(np.float32) for name in weights}
        found = nnr.decode(self.weights.read_bytes())
        tokenizer = Tokenizer(found.pop("merges"))
        return tokenizer, {
            name: value if is_matrix(name, value) else (value / ONE).astype(np.float32)
            for name, value in found.items()
        }

    def held_out(self, tokenizer: Tokenizer) -> np.ndarray:
        """Tokens of the text that training did not see."""
        return tokenizer.encode(split(self.load_text())[1])


MODELS = {
    "characters": Model(
        HERE / "weights.npz",
        load_reference,
        0,
        (64, 4, 192, 2, 64),
        Training(1500, 24, 96, 4e-3, 1e-2),
        "The statement ",
    ),
    "pieces": Model(
        HERE / "pieces.nnr",
        load_library,
        1024,
        (192, 6, 512, 3, 64),
        Training(600, 8, 128, 4e-3, 0.1, muon_rate=0.02),
        "Return the",
        {"outputs": "int16", "error_feedback": True},
    ),
}
