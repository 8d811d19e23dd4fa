"""What eight bits do badly: the quantizer's SQNR beside the best that eight bits allow, case by case.

    python bench/weak_spots.py [NAME...] [--check]

The limit is that of a fake-quantized model: floats whose inputs and outputs, and what convolutions and products read,
are rounded to 256 levels for the tensor, weights to 255 for each output channel, each in the range with the least
squared error on the calibration data. Where another form of the same function loses less, the limit is that form's
(of the file with attention it is that of rounded shares). SQNR is that of other data. `--check`: exit 1 where int8 is
more than 1.5 dB below its limit, or int16 below int8.
"""

import argparse
import math
import os
import pathlib
import sys
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from weak_spot_cases import CASES

from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.ir.building import rename_tensor
from tosaic.driver.models import open_model
from tosaic.driver.quantize import load_samples, measure, quantize_graph
from tosaic.errors import ModelWarning
from tosaic.sim.golden import evaluate, evaluate_operator

_SHARED = os.environ.get("TOSAIC_SHARED", pathlib.Path(__file__).resolve().parents[2] / "shared")
FILES = pathlib.Path(_SHARED) / "cases/numerics"
COUNTS = {1 << 11: 64, 1 << 14: 16, math.inf: 4}
"""Samples to calibrate with, by what inputs have fewer elements than: `fresh` data must hardly leave their ranges."""
FRESH = 4
LOSS_DB = 1.5
"""Decibels by which int8 may be below the limit."""
_CHANNEL_AXES = {"DEPTHWISE_CONV2D": (2, 3), "MATMUL": (2,), "TRANSPOSE_CONV2D": (0,)}
_PRODUCTS = ("CONV2D", "CONV3D", *_CHANNEL_AXES)
_SHARES = np.linspace(1.0, 0.4, 25)
"""Shares of the range seen that are candidates for the encoded range."""
Arrays = dict[str, np.ndarray]
Rounding = Callable[[np.ndarray], np.ndarray]


class EightBits:
    """A fake-quantized model of a float graph."""

    def __init__(self, graph: Graph, samples: Sequence[Arrays]) -> None:
        self.graph = graph
        runs = [{**sample, **evaluate(graph, sample, keep=True)} for sample in samples]
        read = [name for op in graph.operators if op.op in _PRODUCTS for name in op.inputs[:2]]
        names = {name for name in (*graph.inputs, *graph.outputs, *read) if graph.tensors[name].data is None}
        self._rounded = {name: _activation([run[name] for run in runs]) for name in sorted(names)}

    def __call__(self, sample: Arrays) -> Arrays:
        """The outputs."""
        values = {name: tensor.data for name, tensor in self.graph.tensors.items() if tensor.data is not None}
        values |= {name: self._rounded[name](value) for name, value in sample.items()}
        for op in self.graph.operators:
            operands = [values[name] for name in op.inputs]
            if op.op in _PRODUCTS:
                operands[:2] = [self._operand(op, place, operands[place]) for place in (0, 1)]
            dtypes = [self.graph.tensors[name].dtype for name in op.outputs]
            values.update(
                zip(op.outputs, evaluate_operator(op.op, operands, op.attributes, dtypes), strict=True)
            )
        return {name: self._rounded[name](values[name]) for name in self.graph.outputs}

    def _operand(self, op: Operator, place: int, value: np.ndarray) -> np.ndarray:
        name = op.inputs[place]
        if self.graph.tensors[name].data is None:
            return self._rounded[name](value)
        axes = _CHANNEL_AXES.get(op.op, (0,)) if place else (1,)
        return _by_channel(value, axes)


def _activation(values: Sequence[np.ndarray]) -> Rounding:
    """Rounds to 256 levels, of which one is 0."""
    whole = np.concatenate([value.reshape(-1) for value in values]).astype(np.float64)
    low, high = min(whole.min(), 0.0), max(whole.max(), 0.0)

    def rounding(share: float) -> Rounding:
        step = share * (high - low) / 255 or 1.0
        first = -round(-low * share / step)
        return lambda x: (np.clip(np.rint(x / step), first, first + 255) * step).astype(np.float32)

    return min((rounding(share) for share in _SHARES), key=lambda each: ((each(whole) - whole) ** 2).sum())


def _by_channel(weight: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Rounds to 255 levels around 0, with a step for each channel."""
    others = tuple(axis for axis in range(weight.ndim) if axis not in axes)
    wide, best = weight.astype(np.float64), np.zeros_like(weight)
    least = np.full([size if axis in axes else 1 for axis, size in enumerate(weight.shape)], np.inf)
    for share in _SHARES:
        step = share * np.abs(wide).max(others, keepdims=True) / 127
        found = np.clip(np.rint(wide / np.where(step > 0, step, 1.0)), -127, 127) * step
        error = ((found - wide) ** 2).sum(others, keepdims=True)
        best, least = np.where(error < least, found, best), np.minimum(error, least)
    return best.astype(np.float32)


def limit_db(graph: Graph, known: Arrays, fresh: Arrays) -> float:
    """Returns the SQNR of the fake-quantized model on fresh samples, in dB."""
    model = EightBits(
        graph, [{name: values[i] for name, values in known.items()} for i in range(len(known["x"]))]
    )
    signal = noise = 0.0
    for i in range(len(fresh["x"])):
        sample = {name: values[i] for name, values in fresh.items()}
        wanted, got = evaluate(graph, sample), model(sample)
        signal += sum(float((wanted[name].astype(np.float64) ** 2).sum()) for name in graph.outputs)
        noise += sum(
            float(((got[name] - wanted[name].astype(np.float64)) ** 2).sum()) for name in graph.outputs
        )
    return float(10 * np.log10(signal / noise))


def integers_db(graph: Graph, known: Arrays, fresh: Arrays, activations: str) -> float:
    """Returns the SQNR of the quantizer's integers on fresh samples, in dB."""
    found = quantize_graph(graph, known, activations=activations)
    return min(output.sqnr_db for output in measure(found, held_out=fresh).outputs)


def read_case(name: str) -> tuple[Graph, Arrays, Arrays]:
    """A case's graph with its input x, calibration and fresh data, samples along the first axis."""
    if name not in CASES:
        graph = open_model(str(FILES / f"{name}.onnx"))
        (given,) = graph.inputs
        known = load_samples(FILES / f"{name}_cal.npz")[given]
        other = FILES / f"{name}_test.npz"
        # Without data of its own it is measured on what it was calibrated with.
        fresh = load_samples(other)[given] if other.exists() else known
        if given != "x":
            rename_tensor(graph, given, "x")
        return graph, {"x": known}, {"x": fresh}
    graph, random = CASES[name].graph(), np.random.default_rng(1)
    shape = graph.tensors["x"].shape
    count = next(count for elements, count in COUNTS.items() if math.prod(shape) < elements)
    shapes = ((each, *shape) for each in (count, FRESH))
    known, fresh = (CASES[name].draw(random, shape).astype(np.float32) for shape in shapes)
    return graph, {"x": known}, {"x": fresh}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="cases; default: all")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ModelWarning)
    weak = 0
    print("| case | limit of 8 bits, dB | int8 | int16 |\n|---|---|---|---|")
    for name in arguments.names or [*CASES, *(path.stem for path in sorted(FILES.glob("*.onnx")))]:
        graph, known, fresh = read_case(name)
        limit = limit_db(CASES[name].graph(best=True) if name in CASES else graph, known, fresh)
        narrow, wide = (integers_db(graph, known, fresh, kind) for kind in ("int8", "int16"))
        missed = narrow < limit - LOSS_DB or wide < narrow
        weak += missed
        shown = f"**{narrow:.1f}**" if missed else f"{narrow:.1f}"
        print(f"| {name} | {limit:.1f} | {shown} | {wide:.1f} |", flush=True)
    sys.exit(arguments.check and weak > 0)


if __name__ == "__main__":
    main()
