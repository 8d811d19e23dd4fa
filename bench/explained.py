"""tests/explained: what `tosaic compile --explain` says of a dozen graphs up to the plan, as texts for a reviewer.

The instructions are left out: other tests run them, and tests/cycles.csv has their cycles.

    python bench/explained.py     # writes them again: look at the difference
"""

import itertools
import pathlib
import sys

import numpy as np
from cliff_cases import FAMILIES, random_case

from tosaic.compiler.explain import explain
from tosaic.compiler.ir import DType, Graph, GraphBuilder, read_tosa
from tosaic.hw.config_text import get_config

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests/explained"
SEEDS = dict.fromkeys(FAMILIES, 1)
CONFIG = "base"
CASCADE_CONFIG = "base,am_bytes=32K"
"""Whose activation memory is too small for a layer's whole result."""


def names() -> list[str]:
    """A graph of each family of layers, a cascade of them, and a network."""
    return [*SEEDS, "cascade", "digits"]


def text(name: str) -> str:
    """What is said of a graph, until its work is emitted."""
    config = CASCADE_CONFIG if name == "cascade" else CONFIG
    lines = explain(_graph(name), get_config(config))
    return "\n".join(itertools.takewhile(lambda line: not line.startswith("5 emit"), lines)).strip() + "\n"


def kept(name: str) -> str:
    """What the repository keeps of it."""
    return (FOLDER / f"{name}.txt").read_text()


def _graph(name: str) -> Graph:
    if name == "digits":
        return read_tosa((ROOT / "examples/digits/digits.tosa").read_bytes())
    if name == "cascade":
        return _inverted_bottleneck()
    return random_case(name, SEEDS[name]).graph


def _inverted_bottleneck() -> Graph:
    """Two convolutions with a depthwise one between them, whose results are larger than what comes in and goes out."""
    dice, build = np.random.default_rng(1), GraphBuilder("cascade")
    x, zero = build.input("x", (1, 28, 28, 16), DType.INT8), build.constant([0], DType.INT8)
    plain = dict(stride=[1, 1], dilation=[1, 1], acc_type=DType.INT32, local_bound=False)
    for op, shape, channels, pad in (
        ("CONV2D", (96, 1, 1, 16), 96, 0),
        ("DEPTHWISE_CONV2D", (3, 3, 96, 1), 96, 1),
        ("CONV2D", (16, 1, 1, 96), 16, 0),
    ):
        weights = build.constant(dice.integers(-128, 128, shape), DType.INT8)
        bias = build.constant(dice.integers(-5000, 5000, channels), DType.INT32)
        sums = build.add(op, [x, weights, bias, zero, zero], pad=[pad] * 4, **plain)
        scale = [build.constant([1 << 30], DType.INT32), build.constant([40], DType.INT8)]
        zeros = [build.constant([0], DType.INT32), zero]
        flags = dict(scale32=True, per_channel=False, input_unsigned=False, output_unsigned=False)
        rounding = dict(rounding_mode="SINGLE_ROUND")
        x = build.add("RESCALE", [sums, *scale, *zeros], dtype=DType.INT8, **flags, **rounding)
    build.output(x)
    return build.finish()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in names():
        (FOLDER / f"{each}.txt").write_text(text(each))
    sys.exit(0)
