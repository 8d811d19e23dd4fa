"""Time and memory of compiling BERT-base's shape: 12 layers, 128 tokens, 110 M parameters with its table of words.

    python bench/compile_time.py [--layers 12] [--tokens 128] [--width 768] [--words 30522] [--config base]

One float layer is quantized; the network is layers like it with other random weights, behind the GATHER of the words.
Prints processor seconds a layer, and the highest memory over the weights' bytes: of `compile_graph` and a saved program
in a process of their own, and of `tosaic compile` from start to end.
"""

import numpy as np
from gemma_shape import Layer, stacked

from tosaic.compiler.ir import DType, Graph, Operator, Tensor
from tosaic.driver.quantize import quantize_graph

HEAD = 64
"""Width of a head."""
TOKENS = "words"


class BertLayer(Layer):
    """The float graph of one layer: input x, output y, [1, tokens, width]."""

    def __init__(self, tokens: int, width: int):
        super().__init__(cached=0)
        self.tokens, self.width = tokens, width

    def graph(self) -> Graph:
        """The layer with its norms behind the sums, as BERT has them."""
        x = self.build.input("x", (1, self.tokens, self.width), DType.FP32)
        attended = self.linear(self.attention(x), self.width, self.width)
        a = self.layer_norm(self.op("ADD", x, attended))
        hidden = self.gelu(self.linear(a, self.width, 4 * self.width))
        self.build.output(
            self.layer_norm(self.op("ADD", a, self.linear(hidden, 4 * self.width, self.width)), "y")
        )
        return self.build.finish()

    def attention(self, x: str) -> str:
        heads = self.width // HEAD
        query, key, value = (self.heads(self.linear(x, self.width, self.width), heads) for _ in range(3))
        scores = self.mul(
            self.product(query, self.op("TRANSPOSE", key, perms=[0, 2, 1])), self.full(HEAD**-0.5)
        )
        powers = self.op(
            "EXP", self.op("SUB", scores, self.op("REDUCE_MAX", scores, axis=2, nan_mode="PROPAGATE"))
        )
        shares = self.mul(powers, self.op("RECIPROCAL", self.op("REDUCE_SUM", powers, axis=2)))
        mixed = self.op("TRANSPOSE", self.product(shares, value), perms=[1, 0, 2])
        return self.op("RESHAPE", mixed, self.build.shape([1, self.tokens, self.width]))

    def heads(self, x: str, heads: int) -> str:
        """[heads, tokens, HEAD]."""
        split = self.op("RESHAPE", x, self.build.shape([self.tokens, heads, HEAD]))
        return self.op("TRANSPOSE", split, perms=[1, 0, 2])

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        return self.op(
            "ADD",
            self.matrix(x, inputs, outputs),
            self.constant(self.random.normal(0, 0.1, (1, 1, outputs))),
        )

    def layer_norm(self, x: str, output: str | None = None) -> str:
        share = self.full(1 / self.width)
        centred = self.op("SUB", x, self.mul(self.op("REDUCE_SUM", x, axis=2), share))
        variance = self.mul(self.op("REDUCE_SUM", self.mul(centred, centred), axis=2), share)
        scaled = self.mul(centred, self.op("RSQRT", self.op("ADD", variance, self.full(1e-5))))
        gain, bias = (self.constant(self.random.normal(mean, 0.1, (1, 1, self.width))) for mean in (1.0, 0.0))
        return self.op("ADD", self.mul(scaled, gain), bias, output=output)


def bert(layers: int, tokens: int, width: int, words: int) -> Graph:
    """The integers of the whole network: input words int32 [1, tokens], output the last layer's."""
    layer, random = BertLayer(tokens, width).graph(), np.random.default_rng(5)
    samples = random.normal(0, 1, (2, 1, tokens, width)).astype(np.float32)
    graph = stacked(quantize_graph(layer, {"x": samples}).graph, layers, shared=("x",))
    table = random.integers(-127, 128, (1, words, width)).astype(np.int8)
    graph.tensors[TOKENS] = Tensor(TOKENS, (1, tokens), DType.INT32)
    graph.tensors["table"] = Tensor("table", table.shape, DType.INT8, table)
    graph.operators.insert(0, Operator("GATHER", ["table", TOKENS], ["x"], {}, "table"))
    graph.inputs = [TOKENS]
    return graph


def weights_bytes(graph: Graph) -> int:
    """Bytes of all constants."""
    return sum(tensor.data.nbytes for tensor in graph.tensors.values() if tensor.data is not None)
