"""The decoder as a TOSA graph of floats that reads one token and remembers the last keys and values."""

import math

import numpy as np
from chat_float import EPSILON, Array, Parameters, Shape

from tosaic.compiler.ir import DType, Graph, GraphBuilder, State

FLOAT = DType.FP32


def build_graph(parameters: Parameters) -> Graph:
    """Input `token` int32 [1, 1], output `logits` fp32 [1, 1, vocabulary] of the token that follows. The states
    `layerN.keys` and `layerN.values`, fp32 [heads, window - 1, head], are zeros before the first token."""
    step = _Step(parameters)
    table = step.constant(parameters["embedding"][None])
    x = step.build.add("GATHER", [table, step.build.input("token", (1, 1), DType.INT32)])
    for layer in range(step.shape.layers):
        x = step.layer(x, layer)
    gain = parameters["head.gain"][:, None]
    step.build.output(step.matrix(step.normed(x), gain * parameters["head"], output="logits"))
    step.build.graph.outputs += [state.output for state in step.build.graph.states.values()]
    return step.build.finish()


class _Step:
    """The operators of one step. Gains of norms and the scale of scores are in the matrices behind them."""

    def __init__(self, parameters: Parameters):
        self.build, self.parameters, self.shape = GraphBuilder("chat"), parameters, Shape.of(parameters)

    def constant(self, values: Array) -> str:
        return self.build.constant(np.asarray(values, np.float32), FLOAT)

    def op(self, name: str, *operands: str, output: str | None = None, **attributes: object) -> str:
        return self.build.add(name, list(operands), dtype=FLOAT, output=output, **attributes)

    def mul(self, a: str, b: str) -> str:
        return self.op("MUL", a, b, self.build.constant([0], DType.INT8))

    def product(self, a: str, b: str, output: str | None = None) -> str:
        zeros = [self.constant(np.zeros(1, np.float32)) for _ in range(2)]
        return self.op("MATMUL", a, b, *zeros, output=output)

    def matrix(self, x: str, weights: Array, output: str | None = None) -> str:
        """[1, 1, in] times [in, out]."""
        return self.product(x, self.constant(weights[None]), output)

    def normed(self, x: str) -> str:
        """x / sqrt(mean(x^2))."""
        total = self.op("REDUCE_SUM", self.mul(x, x), axis=2)
        mean = self.mul(total, self.constant(np.full((1, 1, 1), 1 / self.shape.width)))
        scale = self.op("RSQRT", self.op("ADD", mean, self.constant(np.full((1, 1, 1), EPSILON))))
        return self.mul(x, scale)

    def remembered(self, name: str, row: str) -> str:
        """[heads, window, head]: the rows of the last tokens and this one, which pushes out the oldest."""
        shape = (self.shape.heads, self.shape.window - 1, self.shape.head)
        cache = self.build.input(name, shape, FLOAT)
        whole = self.op("CONCAT", cache, self.heads(row), axis=1)
        boxes = self.build.shape([0, 1, 0]), self.build.shape(shape)
        following = self.op("SLICE", whole, *boxes, output=f"{name}.next")
        self.build.graph.states[name] = State(following, np.zeros(shape, np.float32))
        return whole

    def heads(self, row: str) -> str:
        """[1, 1, width] as [heads, 1, head]."""
        return self.op("RESHAPE", row, self.build.shape([self.shape.heads, 1, self.shape.head]))

    def softmax(self, scores: str) -> str:
        shifted = self.op("SUB", scores, self.op("REDUCE_MAX", scores, axis=2, nan_mode="PROPAGATE"))
        powers = self.op("EXP", shifted)
        return self.mul(powers, self.op("RECIPROCAL", self.op("REDUCE_SUM", powers, axis=2)))

    def layer(self, x: str, number: int) -> str:
        prefix = f"layer{number}."
        own = {
            name: self.parameters[prefix + name] for name in ("query", "key", "value", "out", "up", "down")
        }
        gain = self.parameters[f"{prefix}attention.gain"][:, None]
        a = self.normed(x)
        query = self.heads(self.matrix(a, gain * own["query"] * self.shape.head**-0.5))
        keys = self.remembered(f"{prefix}keys", self.matrix(a, gain * own["key"]))
        values = self.remembered(f"{prefix}values", self.matrix(a, gain * own["value"]))
        scores = self.product(query, self.op("TRANSPOSE", keys, perms=[0, 2, 1]))
        scores = self.op("ADD", scores, self.constant(self.parameters[f"{prefix}distance"][:, None]))
        mixed = self.product(self.softmax(scores), values)
        row = self.op("RESHAPE", mixed, self.build.shape([1, 1, self.shape.width]))
        x = self.op("ADD", x, self.matrix(row, own["out"]))
        gain = self.parameters[f"{prefix}hidden.gain"][:, None]
        hidden = self.matrix(self.normed(x), gain * own["up"])
        hidden = self.op("CLAMP", hidden, min_val=0.0, max_val=math.inf, nan_mode="PROPAGATE")
        return self.op("ADD", x, self.matrix(hidden, own["down"]))
