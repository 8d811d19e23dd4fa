"""Bytes that a network's int8 weights need: plain, with zlib, as NNR without loss, and as NNR at two lossy settings.

    python bench/nnr_size.py MODEL.tosa... [--digits]

The inputs are the `inputs_*.npy` beside a model and the means of every two of them. The lossy weights are decoded,
rounded to int8 and put into the network, which golden runs. Of its output: top-1 agreement with the unchanged network,
unless it reconstructs its input, and the signal-to-noise ratio (variance of the unchanged output over the mean squared
change). `--digits` adds the project's own network, with its accuracy on its test images. Bytes are those of whole data
units, headers included; zlib packs all weights at once. Nothing is trained after the quantization.
"""

import argparse
import copy
import itertools
import pathlib
import zlib
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType, Graph, read_tosa
from tosaic.nnr import read_bitstream, write_unit
from tosaic.nnr.encoder import Settings, encode_model, encode_unit
from tosaic.sim.golden import evaluate

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "examples" / "digits"
LOSSLESS = Settings(cabac_unary_length=1)
LOSSY = {f"step {step}": Settings("dependent", 1, integer_step=step) for step in (1, 2)}


@dataclass(frozen=True)
class Coded:
    """Weights after a lossy coding and its bytes."""

    weights: dict[str, np.ndarray]
    bytes: int


def weights_of(graph: Graph) -> dict[str, np.ndarray]:
    """The int8 constants of two dimensions and more."""
    return {
        name: tensor.data
        for name, tensor in graph.tensors.items()
        if tensor.data is not None and tensor.dtype is DType.INT8 and tensor.data.ndim >= 2
    }


def code(weights: dict[str, np.ndarray], settings: Settings) -> Coded:
    """Encode and decode; integers come back rounded, within int8."""
    size = sum(len(write_unit(encode_unit(name, values, settings))) for name, values in weights.items())
    tensors = read_bitstream(encode_model(weights, settings)).tensors
    decoded = {t.name: np.clip(np.rint(t.decode()), -128, 127).astype(np.int8) for t in tensors}
    return Coded(decoded, size)


def with_weights(graph: Graph, weights: dict[str, np.ndarray]) -> Graph:
    """A copy of the graph with other constants."""
    changed = copy.deepcopy(graph)
    for name, values in weights.items():
        changed.tensors[name].data = values
    return changed


def run(graph: Graph, inputs: np.ndarray) -> np.ndarray:
    """The first output for each input of one sample, one behind the other."""
    name, output = graph.inputs[0], graph.outputs[0]
    return np.stack([evaluate(graph, {name: sample})[output].reshape(-1) for sample in inputs])


def beside(path: pathlib.Path) -> np.ndarray:
    """The inputs in a model's folder, and the means of every two."""
    found = [np.load(file) for file in sorted(path.parent.glob("inputs_*.npy"))]
    if not found:
        raise SystemExit(f"{path}: there are no inputs_*.npy beside it")
    pairs = itertools.combinations(found, 2)
    means = [((a.astype(np.int32) + b) // 2).astype(a.dtype) for a, b in pairs]
    return np.stack([*found, *means])


def ratio(expected: np.ndarray, found: np.ndarray) -> str:
    """Signal-to-noise ratio."""
    noise = np.mean((found.astype(np.float64) - expected) ** 2)
    return f"{10 * np.log10(np.var(expected.astype(np.float64)) / noise):.1f} dB" if noise else "equal"


def print_model(name: str, graph: Graph, inputs: np.ndarray, labels: np.ndarray | None) -> None:
    """One row of the table."""
    weights = weights_of(graph)
    raw = b"".join(values.tobytes() for values in weights.values())
    exact = code(weights, LOSSLESS)
    assert all(np.array_equal(exact.weights[name], values) for name, values in weights.items())
    expected = run(graph, inputs)
    cells = [name, f"{len(raw):,}", f"{len(zlib.compress(raw, 9)):,}", f"{exact.bytes:,}"]
    if labels is not None:
        cells[0] += f" (accuracy {np.mean(expected.argmax(1) == labels):.2%})"
    for settings in LOSSY.values():
        lossy = code(weights, settings)
        found = run(with_weights(graph, lossy.weights), inputs)
        told = ratio(expected, found)
        if labels is not None:
            told = f"accuracy {np.mean(found.argmax(1) == labels):.2%}, {told}"
        elif expected[0].size != inputs[0].size:
            told = f"{(expected.argmax(1) == found.argmax(1)).sum()} of {len(expected)}, {told}"
        cells += [f"{lossy.bytes:,}", told]
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--digits", action="store_true", help="also the network of examples/digits")
    chosen = parser.parse_args()
    heads = ["network", "raw", "zlib", "NNR lossless"]
    for name in LOSSY:
        heads += [f"NNR dependent, {name}", "top-1, output"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for path in chosen.models:
        print_model(
            path.parent.name if path.stem == "model" else path.stem, read_tosa(path), beside(path), None
        )
    if chosen.digits:
        with np.load(DIGITS / "images.npz") as images:
            inputs, labels = images["inputs"][:, None], images["labels"]
        graph = read_tosa(DIGITS / "digits.tosa")
        print_model("digits", graph, inputs.reshape(-1, *graph.tensors[graph.inputs[0]].shape), labels)


if __name__ == "__main__":
    main()
