"""A decoder of Gemma 3 270M's shape with random weights: cycles of a token, layer by layer of the program.

    python bench/gemma_shape.py [--layers 1] [--on sim] [--cached 63] [--batch 1] [--memory-bandwidth B] [--check]
        [--weights int4 --group 64 --compress fast]

640 wide, 2,048 hidden, 4 heads of 256 with one head of keys and values, norms before and behind each block, rotary
positions and a gated GELU. One layer is quantized; more are copies of it with other weights, which read what the layer
before left.
Prints what binds: the share of the bus' time that weights alone take, and the dearest layers of the program.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, State, Tensor
from tosaic.driver.quantize import quantize_graph
from tosaic.driver.session import Session

WIDTH, HIDDEN, HEADS, HEAD = 640, 2048, 4, 256
FLOAT = DType.FP32


class Layer:
    """The float graph of one layer and one token."""

    def __init__(self, cached: int, seed: int = 1):
        self.build, self.random, self.cached = (
            GraphBuilder("gemma_shape"),
            np.random.default_rng(seed),
            cached,
        )

    def graph(self) -> Graph:
        """Inputs x [1, 1, 640], cos and sin [1, 1, 256]; states keys and values [1, cached, 256]; output y."""
        build = self.build
        x, cos, sin = (
            build.input(n, (1, 1, w), FLOAT) for n, w in (("x", WIDTH), ("cos", HEAD), ("sin", HEAD))
        )
        y = self.op("ADD", x, self.normed(self.attention(self.normed(x), cos, sin)), output=None)
        a = self.normed(y)
        gate, up = self.matrix(a, WIDTH, HIDDEN), self.matrix(a, WIDTH, HIDDEN)
        down = self.matrix(self.mul(self.gelu(gate), up), HIDDEN, WIDTH)
        build.output(self.op("ADD", y, self.normed(down), output="y"))
        build.graph.outputs += [state.output for state in build.graph.states.values()]
        return build.finish()

    def attention(self, a: str, cos: str, sin: str) -> str:
        sizes = self.build.shape
        query = self.op("RESHAPE", self.matrix(a, WIDTH, HEADS * HEAD), sizes([1, HEADS, HEAD]))
        query = self.turned(self.normed(query), cos, sin)
        keys = self.remembered("keys", self.turned(self.normed(self.matrix(a, WIDTH, HEAD)), cos, sin))
        values = self.remembered("values", self.matrix(a, WIDTH, HEAD))
        scores = self.product(query, self.op("TRANSPOSE", keys, perms=[0, 2, 1]))
        scores = self.mul(scores, self.full(HEAD**-0.5))
        powers = self.op(
            "EXP", self.op("SUB", scores, self.op("REDUCE_MAX", scores, axis=2, nan_mode="PROPAGATE"))
        )
        shares = self.mul(powers, self.op("RECIPROCAL", self.op("REDUCE_SUM", powers, axis=2)))
        row = self.op("RESHAPE", self.product(shares, values), sizes([1, 1, HEADS * HEAD]))
        return self.matrix(row, HEADS * HEAD, WIDTH)

    def remembered(self, name: str, row: str) -> str:
        """[1, cached + 1, 256]: this row behind those of earlier tokens."""
        cache = self.build.input(name, (1, self.cached, HEAD), FLOAT)
        whole = self.op("CONCAT", cache, row, axis=1)
        boxes = self.build.shape([0, 1, 0]), self.build.shape([1, self.cached, HEAD])
        self.build.graph.states[name] = State(
            self.op("SLICE", whole, *boxes, output=f"{name}.next"),
            np.zeros((1, self.cached, HEAD), np.float32),
        )
        return whole

    def turned(self, x: str, cos: str, sin: str) -> str:
        """Rotary positions; `sin` has the sign of each half."""
        _, heads, _ = self.build.graph.tensors[x].shape
        halves = [
            self.op("SLICE", x, self.build.shape([0, 0, first]), self.build.shape([1, heads, HEAD // 2]))
            for first in (HEAD // 2, 0)
        ]
        return self.op("ADD", self.mul(x, cos), self.mul(self.op("CONCAT", *halves, axis=2), sin))

    def normed(self, x: str) -> str:
        width = self.build.graph.tensors[x].shape[2]
        mean = self.mul(self.op("REDUCE_SUM", self.mul(x, x), axis=2), self.full(1 / width))
        gain = self.constant(self.random.uniform(0.8, 1.2, (1, 1, width)))
        return self.mul(self.mul(x, self.op("RSQRT", self.op("ADD", mean, self.full(1e-6)))), gain)

    def gelu(self, x: str) -> str:
        """Computes GELU by tanh."""
        cube = self.mul(self.mul(x, x), x)
        inner = self.mul(
            self.op("ADD", x, self.mul(cube, self.full(0.044715))), self.full((2 / np.pi) ** 0.5)
        )
        return self.mul(self.mul(x, self.full(0.5)), self.op("ADD", self.op("TANH", inner), self.full(1)))

    def matrix(self, x: str, inputs: int, outputs: int) -> str:
        return self.product(x, self.constant(self.random.normal(0, inputs**-0.5, (1, inputs, outputs))))

    def product(self, a: str, b: str) -> str:
        return self.op("MATMUL", a, b, *(self.constant(np.zeros(1)) for _ in range(2)))

    def mul(self, a: str, b: str) -> str:
        return self.op("MUL", a, b, self.build.constant([0], DType.INT8))

    def full(self, value: float) -> str:
        return self.constant(np.full((1, 1, 1), value))

    def constant(self, values: np.ndarray) -> str:
        return self.build.constant(np.asarray(values, np.float32), FLOAT)

    def op(self, name: str, *operands: str, output: str | None = None, **attributes: object) -> str:
        return self.build.add(name, list(operands), dtype=FLOAT, output=output, **attributes)


def positions(where: np.ndarray) -> dict[str, np.ndarray]:
    """`cos` and `sin` of tokens at positions [samples]."""
    angles = where[:, None] * 10_000.0 ** (-np.arange(HEAD // 2) / (HEAD // 2))
    cos, sin = np.cos(angles), np.sin(angles)
    pairs = {"cos": np.concatenate([cos, cos], 1), "sin": np.concatenate([-sin, sin], 1)}
    return {name: each[:, None, None].astype(np.float32) for name, each in pairs.items()}


def one_layer(cached: int, weights: str = "int8", group: int = 64) -> Graph:
    """The integers of one layer, calibrated with unit normals."""
    graph, random = Layer(cached).graph(), np.random.default_rng(2)
    samples = {
        name: random.normal(0, 1, (4, *graph.tensors[name].shape)).astype(np.float32)
        for name in ("x", "keys", "values")
    }
    options = {"weights": weights, "group": group}
    return quantize_graph(graph, {**samples, **positions(np.arange(60, 64))}, **options).graph


def is_matrix(tensor: Tensor) -> bool:
    """Whether a tensor holds weights: a convolution's, or those of a group."""
    return (
        tensor.data is not None
        and tensor.data.ndim in (3, 4)
        and tensor.dtype is DType.INT8
        and tensor.data.size > WIDTH
    )


def stacked(layer: Graph, count: int, shared: Sequence[str] = ("x", "cos", "sin")) -> Graph:
    """`count` layers one after the other, from x to y, with weights of their own, but for the order of the columns
    alike. All of them read the inputs `shared`."""
    graph, random, x = Graph(layer.name), np.random.default_rng(3), "x"
    graph.inputs = [name for name in shared if name in layer.inputs]
    for name in graph.inputs:
        graph.tensors[name] = layer.tensors[name]
    for number in range(count):
        names = {name: name if name in shared else f"{name}.{number}" for name in layer.tensors}
        names["x"] = x
        for name, tensor in layer.tensors.items():
            if names[name] in graph.tensors:
                continue
            data = tensor.data
            if data is not None and is_matrix(tensor):
                data = random.permuted(data, axis=3 if data.ndim == 4 else 1)
            graph.tensors[names[name]] = Tensor(names[name], tensor.shape, tensor.dtype, data)
        graph.operators += [
            Operator(
                op.op,
                [names[each] for each in op.inputs],
                [names[each] for each in op.outputs],
                dict(op.attributes),
                f"{op.name}.{number}",
            )
            for op in layer.operators
        ]
        for name, state in layer.states.items():
            graph.inputs.append(names[name])
            graph.outputs.append(names[state.output])
            graph.states[names[name]] = State(names[state.output], state.initial)
        x = names["y"]
    graph.outputs.insert(0, x)
    return graph


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--on", default="sim")
    parser.add_argument("--config", default="base")
    parser.add_argument("--cached", type=int, default=63)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--memory-bandwidth", type=float)
    parser.add_argument("--weights", default="int8")
    parser.add_argument("--group", type=int, default=64)
    parser.add_argument("--compress")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--dearest", type=int, default=8, help="layers of the program to print")
    chosen = parser.parse_args()
    graph = stacked(one_layer(chosen.cached, chosen.weights, chosen.group), chosen.layers)
    session = Session(
        graph,
        chosen.on,
        chosen.config,
        memory_bandwidth=chosen.memory_bandwidth,
        batch=chosen.batch,
        compress=chosen.compress,
    )
    random = np.random.default_rng(4)
    for name, value in session.state.items():
        session.state[name] = random.integers(-127, 128, value.shape).astype(value.dtype)
    feed = {each.name: random.integers(-127, 128, each.shape).astype(each.numpy) for each in session.inputs}
    session.run(feed, check=chosen.check)
    stats = session.stats
    weights = sum(t.data.size for t in graph.tensors.values() if t.data is not None and is_matrix(t))
    if chosen.weights == "int4" and chosen.compress:
        weights //= 2
    bus = weights / stats["memory_bandwidth"]
    print(
        f"{chosen.layers} layers on {chosen.on} ({chosen.config}), {chosen.cached} cached, batch {chosen.batch}: "
        f"{stats['cycles']:,} cycles, {stats['macs']:,} MACs, {stats['dram_read_bytes']:,} bytes read; "
        f"weights alone {weights:,} bytes = {bus:,.0f} cycles ({bus / stats['cycles']:.1%})"
        + ("; bit-exact" if chosen.check else "")
    )
    for layer in sorted(stats["layers"], key=lambda each: -each["cycles"])[: chosen.dearest]:
        print(f"{layer['cycles']:>9,} {layer['op']:<12} {layer['macs']:>10,} {layer['name']}")


if __name__ == "__main__":
    main()
