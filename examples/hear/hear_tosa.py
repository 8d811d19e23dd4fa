"""Whisper's encoder and one step of its decoder as TOSA graphs of floats.

The encoder ends in what each layer of the decoder reads of it, its keys and values. The decoder reads one token and
remembers the keys and values of the tokens before. Gains and offsets of layer norms, and the scale of scores, are in
the matrices behind them.
"""

import numpy as np
from hear_float import EPSILON
from hear_weights import CONTEXT, HEAD, HEADS, MELS, TEXT, WIDTH, Array, Parameters, layers_of

from tosaic.compiler.ir import DType, Graph, GraphBuilder, State

FLOAT = DType.FP32


def encoder_graph(parameters: Parameters, positions: int, for_decoder: bool = True) -> Graph:
    """Input `mel` fp32 [1, 2 * positions, MELS]. Outputs for each layer of the decoder `layerN.keys` fp32
    [HEADS, HEAD, positions] and `layerN.values` [HEADS, positions, HEAD]; or `audio` [1, positions, WIDTH]."""
    net = _Network(parameters, "hear_encoder", positions)
    x = net.build.input("mel", (1, 2 * positions, MELS), FLOAT)
    x = net.reshaped(x, 1, 1, 2 * positions, MELS)
    x = net.gelu(net.convolution(x, "encoder/conv1", 1))
    x = net.reshaped(net.gelu(net.convolution(x, "encoder/conv2", 2)), 1, positions, WIDTH)
    places = parameters["encoder/position_encodings/encodings"][None, :positions]
    x = net.op("ADD", x, net.constant(places))
    for number in range(layers_of(parameters, "encoder")):
        layer = f"encoder/layer_{number}"
        query, keys, values = net.projected(net.norm(x), f"{layer}/self_attention", 3)
        found = net.attended(net.heads(query), net.heads(keys, turned=True), net.heads(values))
        x = net.op("ADD", x, net.linear(found, f"{layer}/self_attention/linear_1"))
        x = net.feed_forward(x, layer)
    x = net.norm(x)
    if not for_decoder:
        gain, offset = (parameters[f"encoder/layer_norm/{name}"][None, None] for name in ("gamma", "beta"))
        net.build.output(net.op("ADD", net.mul(x, net.constant(gain)), net.constant(offset), output="audio"))
        return net.build.finish()
    for number in range(layers_of(parameters, "decoder")):
        keys, values = net.projected(x, f"decoder/layer_{number}/attention", 2, norm="encoder/layer_norm")
        net.build.output(net.heads(keys, turned=True, output=f"layer{number}.keys"))
        net.build.output(net.heads(values, output=f"layer{number}.values"))
    return net.build.finish()


def decoder_graph(parameters: Parameters, positions: int, context: int = CONTEXT) -> Graph:
    """Inputs `token` and `place` (its number, from 0) int32 [1, 1], and the encoder's outputs; output `logits` fp32
    [1, 1, TEXT] of the token that follows. The states `layerN.said_keys` and `layerN.said_values`, fp32
    [HEADS, context - 1, HEAD], are zeros before the first token."""
    net = _Network(parameters, "hear_decoder", 1)
    token, place = (net.build.input(name, (1, 1), DType.INT32) for name in ("token", "place"))
    table = parameters["decoder/embeddings/weight"][:, :]
    x = net.op("GATHER", net.constant(table[None]), token)
    places = parameters["decoder/position_encodings/encodings"][None, :context]
    x = net.op("ADD", x, net.op("GATHER", net.constant(places), place))
    # The newest token is the last; before the first there is nothing to be seen.
    before = net.build.constant(np.arange(context - 2, -2, -1).reshape(1, 1, context), DType.INT32)
    place = net.reshaped(place, 1, 1, 1, dtype=DType.INT32)
    seen = net.build.add("GREATER", [place, before])
    for number in range(layers_of(parameters, "decoder")):
        layer = f"decoder/layer_{number}"
        heard = [
            net.build.input(f"layer{number}.keys", (HEADS, HEAD, positions), FLOAT),
            net.build.input(f"layer{number}.values", (HEADS, positions, HEAD), FLOAT),
        ]
        query, key, value = net.projected(net.norm(x), f"{layer}/self_attention", 3)
        keys = net.op("TRANSPOSE", net.remembered(f"layer{number}.said_keys", key, context), perms=[0, 2, 1])
        values = net.remembered(f"layer{number}.said_values", value, context)
        found = net.attended(net.heads(query), keys, values, seen)
        x = net.op("ADD", x, net.linear(found, f"{layer}/self_attention/linear_1"))
        (query,) = net.projected(net.norm(x), f"{layer}/attention", 1)
        found = net.attended(net.heads(query), *heard)
        x = net.op("ADD", x, net.linear(found, f"{layer}/attention/linear_2"))
        x = net.feed_forward(x, layer)
    gain, offset = (parameters[f"decoder/layer_norm/{name}"] for name in ("gamma", "beta"))
    net.build.output(net.matrix(net.norm(x), gain[:, None] * table[:TEXT].T, table[:TEXT] @ offset, "logits"))
    net.build.graph.outputs += [state.output for state in net.build.graph.states.values()]
    return net.build.finish()


class _Network:
    """Operators on `rows` positions or tokens, [1, rows, channels]."""

    def __init__(self, parameters: Parameters, name: str, rows: int):
        self.build, self.parameters, self.rows = GraphBuilder(name), parameters, rows

    def constant(self, values: Array | float) -> str:
        return self.build.constant(np.asarray(values, np.float32), FLOAT)

    def op(self, name: str, *operands: str, output: str | None = None, **attributes: object) -> str:
        return self.build.add(name, list(operands), dtype=FLOAT, output=output, **attributes)

    def mul(self, a: str, b: str) -> str:
        return self.op("MUL", a, b, self.build.constant([0], DType.INT8))

    def scaled(self, x: str, factor: float) -> str:
        return self.mul(x, self.constant(np.full((1, 1, 1), factor)))

    def reshaped(self, x: str, *shape: int, dtype: DType = FLOAT) -> str:
        return self.build.add("RESHAPE", [x, self.build.shape(shape)], dtype=dtype)

    def matrix(self, x: str, weights: Array, bias: Array, output: str | None = None) -> str:
        """x times [in, out], and a bias."""
        zeros = [self.constant(np.zeros(1)) for _ in range(2)]
        product = self.op("MATMUL", x, self.constant(weights[None]), *zeros)
        return self.op("ADD", product, self.constant(bias[None, None]), output=output)

    def linear(self, x: str, name: str) -> str:
        own = self.parameters
        return self.matrix(x, own[f"{name}/weight"].T, own[f"{name}/bias"])

    def normed_matrix(self, x: str, weight: Array, bias: Array, norm: str) -> str:
        """A norm's gain and offset, then a matrix [out, in]."""
        gain, offset = (self.parameters[f"{norm}/{name}"] for name in ("gamma", "beta"))
        return self.matrix(x, (weight * gain).T, weight @ offset + bias)

    def projected(self, x: str, layer: str, count: int, norm: str = "") -> list[str]:
        """`count` rows out of a norm: query (scaled), keys and values; or keys and values; or the query."""
        name = f"{layer}/linear_{1 if count == 2 else 0}"
        weights, biases = (np.split(self.parameters[f"{name}/{part}"], count) for part in ("weight", "bias"))
        if count != 2:
            weights[0], biases[0] = weights[0] * np.float32(HEAD**-0.5), biases[0] * np.float32(HEAD**-0.5)
        norm = norm or f"{layer}/layer_norm"
        pairs = zip(weights, biases, strict=True)
        return [self.normed_matrix(x, weight, bias, norm) for weight, bias in pairs]

    def norm(self, x: str) -> str:
        """(x - mean) / sqrt(variance), without gain and offset."""
        mean = self.scaled(self.op("REDUCE_SUM", x, axis=2), 1 / WIDTH)
        x = self.op("SUB", x, mean)
        variance = self.scaled(self.op("REDUCE_SUM", self.mul(x, x), axis=2), 1 / WIDTH)
        return self.mul(
            x, self.op("RSQRT", self.op("ADD", variance, self.constant(np.full((1, 1, 1), EPSILON))))
        )

    def gelu(self, x: str) -> str:
        rank = len(self.build.graph.tensors[x].shape)

        def one(value: float) -> str:
            return self.constant(np.full((1,) * rank, value))

        share = self.op("ADD", self.op("ERF", self.mul(x, one(0.5**0.5))), one(1.0))
        return self.mul(self.mul(x, share), one(0.5))

    def convolution(self, x: str, name: str, stride: int) -> str:
        """Along the positions [1, 1, positions, channels], three taps."""
        weight = self.parameters[f"{name}/weight"].transpose(0, 2, 1)[:, None]
        bias = self.parameters[f"{name}/bias"]
        # TOSA wants all samples used.
        after = 1 if stride == 1 else 0
        zeros = [self.constant(np.zeros(1)) for _ in range(2)]
        return self.op(
            "CONV2D",
            x,
            self.constant(weight),
            self.constant(bias),
            *zeros,
            pad=[0, 0, 1, after],
            stride=[1, stride],
            dilation=[1, 1],
            acc_type=FLOAT,
            local_bound=False,
        )

    def heads(self, x: str, turned: bool = False, output: str | None = None) -> str:
        """[1, rows, WIDTH] as [HEADS, rows, HEAD], or turned as [HEADS, HEAD, rows]."""
        split = self.reshaped(x, self.rows, HEADS, HEAD)
        return self.op("TRANSPOSE", split, perms=[1, 2, 0] if turned else [1, 0, 2], output=output)

    def remembered(self, name: str, row: str, context: int) -> str:
        """[HEADS, context, HEAD]: the rows of the last tokens and this one, which pushes out the oldest."""
        shape = (HEADS, context - 1, HEAD)
        cache = self.build.input(name, shape, FLOAT)
        whole = self.op("CONCAT", cache, self.heads(row), axis=1)
        boxes = self.build.shape([0, 1, 0]), self.build.shape(shape)
        following = self.op("SLICE", whole, *boxes, output=f"{name}.next")
        self.build.graph.states[name] = State(following, np.zeros(shape, np.float32))
        return whole

    def attended(self, query: str, keys: str, values: str, seen: str | None = None) -> str:
        """What queries [HEADS, rows, HEAD] find by keys [HEADS, HEAD, n], as [1, rows, WIDTH]."""
        zeros = [self.constant(np.zeros(1)) for _ in range(4)]
        scores = self.op("MATMUL", query, keys, *zeros[:2])
        if seen is not None:
            scores = self.op("SELECT", seen, scores, self.constant(np.full((1, 1, 1), -np.inf)))
        shifted = self.op("SUB", scores, self.op("REDUCE_MAX", scores, axis=2, nan_mode="PROPAGATE"))
        powers = self.op("EXP", shifted)
        shares = self.mul(powers, self.op("RECIPROCAL", self.op("REDUCE_SUM", powers, axis=2)))
        found = self.op("TRANSPOSE", self.op("MATMUL", shares, values, *zeros[2:]), perms=[1, 0, 2])
        return self.reshaped(found, 1, self.rows, WIDTH)

    def feed_forward(self, x: str, layer: str) -> str:
        name = f"{layer}/ffn/linear_0"
        weight, bias = (self.parameters[f"{name}/{part}"] for part in ("weight", "bias"))
        hidden = self.gelu(self.normed_matrix(self.norm(x), weight, bias, f"{layer}/ffn/layer_norm"))
        return self.op("ADD", x, self.linear(hidden, f"{layer}/ffn/linear_1"))
