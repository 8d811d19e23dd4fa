"""Time and memory of compiling BERT-base's shape: 12 layers, 128 tokens, 110 M parameters with its table of words.

    python bench/compile_time.py [--layers 12] [--tokens 128] [--width 768] [--words 30522] [--config base]
    python bench/compile_time.py --matrices 64

One float layer is quantized; the network is layers like it with other random weights, behind the GATHER of the words.
`--matrices` takes fully connected layers of 4,096 by 4,096 instead. Prints processor seconds, those of a layer, and the
highest memory over the weights' bytes, Python's own included: of `compile_graph` with a file that is read and written,
and of `tosaic compile`, each in a process of its own.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from gemma_shape import Layer, stacked

from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, Tensor, write_tosa
from tosaic.driver.quantize import quantize_graph

HEAD = 64
"""Width of a head."""
TOKENS = "words"
COMPILE = """
import sys, time
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.hw.config_text import get_config
started = time.process_time()
compile_graph(read_tosa(sys.argv[1]), get_config(sys.argv[3])).save(sys.argv[2])
print(time.process_time() - started)
"""
"""A process that reads, compiles and writes by the function, and prints the seconds of these."""


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


def matrices(count: int, width: int = 4096) -> Graph:
    """`count` fully connected layers with random weights, from x to y."""
    build, random = GraphBuilder("matrices"), np.random.default_rng(6)
    value = build.input("x", (1, 1, 1, width), DType.INT8)
    zero, bias = build.constant([0], DType.INT8), build.constant(np.zeros(width), DType.INT32)
    scale, shift = build.constant([1 << 30], DType.INT32), build.constant([42], DType.INT8)
    wide_zero = build.constant([0], DType.INT32)
    for number in range(count):
        weights = f"weights.{number}"
        values = np.frombuffer(random.bytes(width * width), np.int8).reshape(width, 1, 1, width)
        build.graph.tensors[weights] = Tensor(weights, values.shape, DType.INT8, values)
        sums = build.add(
            "CONV2D",
            [value, weights, bias, zero, zero],
            pad=[0, 0, 0, 0],
            stride=[1, 1],
            dilation=[1, 1],
            acc_type=DType.INT32,
        )
        value = build.add(
            "RESCALE",
            [sums, scale, shift, wide_zero, zero],
            dtype=DType.INT8,
            scale32=True,
            rounding_mode="SINGLE_ROUND",
            per_channel=False,
            input_unsigned=False,
            output_unsigned=False,
        )
    build.output(value)
    return build.finish()


def measured(command: list[str]) -> tuple[float, int, str]:
    """Processor seconds, the highest memory in bytes, and what it printed last, of a process that must succeed."""
    with (
        tempfile.TemporaryDirectory() as cache,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TOSAIC_CACHE": cache}
        ) as process,
    ):
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed with exit code {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, said


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, value in (("layers", 12), ("tokens", 128), ("width", 768), ("words", 30522), ("matrices", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--config", default="base")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    sizes = (chosen.layers, chosen.tokens, chosen.width, chosen.words)
    if chosen.write:
        graph = matrices(chosen.matrices) if chosen.matrices else bert(*sizes)
        write_tosa(graph, chosen.write)
    else:
        with tempfile.TemporaryDirectory() as folder:
            compare(pathlib.Path(folder), chosen)


def compare(folder: pathlib.Path, chosen: argparse.Namespace) -> None:
    """Writes the model, compiles it both ways and prints the figures."""
    model, program = str(folder / "model.tosa"), str(folder / "program.tsc")
    own = [sys.executable, __file__, *sys.argv[1:]]
    # The graph is made in another process: a child's highest memory begins with its parent's.
    measured([*own, "--write", model])
    layers, weights_bytes = chosen.matrices or chosen.layers, os.stat(model).st_size
    print(f"{layers} layers, {weights_bytes:,} bytes")
    command = ["-m", "tosaic", "compile", model, "-o", program, "--config", chosen.config]
    for name, line in (
        ("compile_graph", [sys.executable, "-c", COMPILE, model, program, chosen.config]),
        ("tosaic compile", [sys.executable, *command]),
    ):
        seconds, peak_bytes, said = measured(line)
        if COMPILE in line:
            seconds = float(said)
        print(
            f"{name:>15}: {seconds:6.2f} s, {seconds / layers:.2f} s a layer; "
            f"{peak_bytes / (1 << 20):,.0f} MiB, {peak_bytes / weights_bytes:.2f} times the weights"
        )


if __name__ == "__main__":
    main()
