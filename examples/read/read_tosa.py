"""The network as a TOSA graph of floats: rows of the table of tokens in, the unit vector of a sentence out.

The rows are looked up outside: an accelerator without addresses from data would read all 30,522 of them.
"""

import numpy as np
from read_weights import Array, Parameters

from tosaic.compiler.importers.lowering import Lowering, activations, attention, statistics
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.ir import DType, Graph

HEADS, WIDTH = 12, 384
LENGTH = 32
"""Tokens of a sentence, the two at its ends among them; longer ones are cut."""
EPSILON = 1e-12
FLOAT = DType.FP32


def build_graph(parameters: Parameters, length: int = LENGTH) -> Graph:
    """Inputs `rows` fp32 [1, length, WIDTH], those of `table`, and `count` int32 [1, 1], how many of them count; output
    `embedding` fp32 [1, 1, WIDTH]."""
    return _Encoder(parameters, length).finished()


def table(parameters: Parameters) -> Array:
    """The row of each token."""
    return parameters["embeddings.word_embeddings.weight"]


class _Encoder(Lowering):
    """BERT's encoder, and the mean of what it says of each token as a unit vector."""

    def __init__(self, parameters: Parameters, length: int) -> None:
        super().__init__("minilm")
        self.parameters, self.length = parameters, length
        self.rows = self.build.input("rows", (1, length, WIDTH), FLOAT)
        count = self.build.input("count", (1, 1), DType.INT32)
        places = self.constant(np.arange(length)[None], DType.INT32)
        self.used = self.greater(count, places)
        """Where there is a token."""

    def finished(self) -> Graph:
        x = self._embedded()
        bias = attention.infinite(self, self.reshape(self.used, (1, 1, 1, self.length)), FLOAT)
        number = 0
        while (prefix := f"encoder.layer.{number}.") + "output.dense.bias" in self.parameters:
            x, number = self._layer(x, prefix, bias), number + 1
        # The unit vector of the sum is that of the mean.
        used = self.reshape(self.used, (1, self.length, 1))
        total = self.reduce("SUM", self.select(used, x, self.real(0)), (1,))
        power = self.reduce("SUM", self.mul(total, total), (2,))
        self.op("MUL", total, self.op("RSQRT", power), self.constant([0], DType.INT8), output="embedding")
        self.build.output("embedding")
        return self.build.finish()

    def real(self, values: np.ndarray | float) -> str:
        return self.constant(np.reshape(values, (1, 1, -1)), FLOAT)

    def _embedded(self) -> str:
        """With a row for each place, and that of the first of two sentences, the only one here."""
        places, kinds = (
            self.parameters[f"embeddings.{name}_embeddings.weight"] for name in ("position", "token_type")
        )
        rows = self.add(self.rows, self.constant((places[: self.length] + kinds[0])[None], FLOAT))
        return self._normed(rows, "embeddings.")

    def _normed(self, x: str, prefix: str) -> str:
        gain, offset = (
            self.real(self.parameters[f"{prefix}LayerNorm.{name}"]) for name in ("weight", "bias")
        )
        return self.add(self.mul(statistics.standardize(self, x, (2,), EPSILON)[0], gain), offset)

    def _linear(self, x: str, prefix: str) -> str:
        weight = self.constant(self.parameters[f"{prefix}.weight"].T, FLOAT)
        return self.add(matmul(self, x, weight), self.real(self.parameters[f"{prefix}.bias"]))

    def _layer(self, x: str, prefix: str, bias: str) -> str:
        parts = (self._linear(x, f"{prefix}attention.self.{name}") for name in ("query", "key", "value"))
        q, k, v = (attention.by_heads(self, part, HEADS) for part in parts)
        rules = attention.Scores((WIDTH // HEADS) ** -0.5, bias=bias)
        mixed = attention.joined_heads(self, attention.attend(self, q, k, v, rules).y)
        x = self._normed(
            self.add(x, self._linear(mixed, f"{prefix}attention.output.dense")), f"{prefix}attention.output."
        )
        hidden = activations.gelu(self, self._linear(x, f"{prefix}intermediate.dense"))
        return self._normed(self.add(x, self._linear(hidden, f"{prefix}output.dense")), f"{prefix}output.")
