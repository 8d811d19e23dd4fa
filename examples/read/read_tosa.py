"""The network as a TOSA graph of floats: tokens in, the unit vector of a sentence out."""

import numpy as np
from read_weights import Parameters

from tosaic.compiler.importers.lowering import Lowering, activations, attention, statistics
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.ir import DType, Graph

HEADS, LAYERS, WIDTH = 12, 6, 384
EPSILON = 1e-12
PAD = 0
"""The token of what is free behind a sentence."""
FLOAT = DType.FP32


def build_graph(parameters: Parameters, length: int) -> Graph:
    """Input `tokens` int32 [1, length], output `embedding` fp32 [1, 1, WIDTH]."""
    return _Encoder(parameters, length).finished()


class _Encoder(Lowering):
    """BERT's encoder, and the mean of what it says of each token as a unit vector."""

    def __init__(self, parameters: Parameters, length: int) -> None:
        super().__init__("minilm")
        self.parameters, self.length = parameters, length
        self.tokens = self.build.input("tokens", (1, length), DType.INT32)
        pad = self.constant([[PAD]], DType.INT32)
        self.free = self.equal(self.tokens, pad)
        """Where there is no token."""

    def finished(self) -> Graph:
        x = self._embedded()
        used = self.op("LOGICAL_NOT", self.free)
        bias = attention.infinite(self, self.reshape(used, (1, 1, 1, self.length)), FLOAT)
        for number in range(LAYERS):
            x = self._layer(x, f"encoder.layer.{number}.", bias)
        # The unit vector of the sum is that of the mean.
        total = self.reduce("SUM", self.select(self.reshape(self.free, (1, self.length, 1)), self.real(0), x), (1,))
        power = self.reduce("SUM", self.mul(total, total), (2,))
        self.build.output(self.mul(total, self.op("RSQRT", power)))
        return self.build.finish()

    def real(self, values: np.ndarray | float) -> str:
        return self.constant(np.reshape(values, (1, 1, -1)), FLOAT)

    def _embedded(self) -> str:
        """A row for each token, for its place and for the first of two sentences, the only one here."""
        own = {
            name: self.parameters[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        }
        rows = self.gather_rows(self.constant(own["word"][None], FLOAT), self.tokens)
        places = (own["position"][: self.length] + own["token_type"][0])[None]
        return self._normed(self.add(rows, self.constant(places, FLOAT)), "embeddings.")

    def _normed(self, x: str, prefix: str) -> str:
        gain, offset = (self.real(self.parameters[f"{prefix}LayerNorm.{name}"]) for name in ("weight", "bias"))
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
