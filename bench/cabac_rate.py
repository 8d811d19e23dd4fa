"""How fast the CABAC decoder decodes the weights of networks: its RTL, Verilated, on every weight tensor.

    python bench/cabac_rate.py MODEL.tosa... [--config base] [--unary 1] [--engines 1,4] [--zeros 0,50,80,95]

A row per model and share of zeros; `--zeros 50` prunes each tensor to at least half zeros, smallest magnitudes first.
Tensors are coded in the order in which the weight memory holds them ([k][W output channels], channels filled up with
zeros), without a quantization step: the int8 weights are the levels. Every weight that comes out is compared with the
one that went in. Words are always there and weights always taken, so the cycles are the decoder's own, start-up
included.
"""

import argparse
import dataclasses
import pathlib

import numpy as np

from tosaic.compiler.ir import Graph, read_tosa
from tosaic.hw.cabac_timing import count_bins
from tosaic.hw.config_text import get_config
from tosaic.hw.nnr_streams import interleave, stream_levels
from tosaic.nnr import levels as coded
from tosaic.sim.rtl.cabac import CabacSimulator, CabacTensor


@dataclasses.dataclass
class Count:
    """Sums over tensors."""

    weights: int = 0
    context_bins: int = 0
    bypass_bins: int = 0
    bytes: int = 0
    cycles: int = 0

    def add(self, other: "Count") -> None:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def decode(simulator: CabacSimulator, weights: np.ndarray, unary_length: int) -> Count:
    """Code `weights` (flat, int8) in as many streams as there are engines, decode them, compare."""
    width, engines = simulator.config.word_bytes, simulator.config.cabac_engines
    payloads, positions = [], []
    for slices in stream_levels(weights.size, engines, width):
        own = np.concatenate([weights[each] for each in slices])
        payloads.append(coded.encode(own, unary_length))
        positions.append(coded.decode(payloads[-1], own.size, unary_length, with_positions=True).positions)
    block = interleave(payloads, positions, weights.size, width)
    lengths = [len(payload) for payload in payloads]
    run = simulator.run(CabacTensor(block, lengths, weights.size, unary_length=unary_length))
    if run.error or not np.array_equal(np.frombuffer(run.weights, np.int8)[: weights.size], weights):
        raise SystemExit(f"the decoder gave other weights: {run}")
    bins = count_bins(weights, unary_length)
    return Count(weights.size, bins.context_coded, bins.bypass, len(block), run.cycles)


def weight_tensors(graph: Graph, width: int) -> list[np.ndarray]:
    """The int8 weights of convolutions, each flat, in the order of the weight memory's words."""
    found = []
    for op in graph.operators:
        if op.op not in ("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D", "CONV3D", "FULLY_CONNECTED"):
            continue
        name = op.inputs[1]
        value = graph.const(name)
        producer = graph.producer(name)
        if value is None and producer is not None:
            source = graph.const(producer.inputs[0])
            value = None if source is None else source.reshape(graph.tensor(name).shape)
        if value is None or value.dtype != np.int8:
            continue
        if op.op == "DEPTHWISE_CONV2D":
            matrix = value.reshape(value.shape[0] * value.shape[1], -1)
        else:
            matrix = value.reshape(value.shape[0], -1).T
        matrix = np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % width)))
        found.append(matrix.reshape(matrix.shape[0], -1, width).transpose(1, 0, 2).reshape(-1))
    return found


def pruned(weights: np.ndarray, percent: int) -> np.ndarray:
    """`weights` with the smallest magnitudes set to 0 until `percent` of them are."""
    wanted = weights.size * percent // 100
    result = weights.copy()
    result[np.argsort(np.abs(weights.astype(np.int16)), kind="stable")[:wanted]] = 0
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--config", default="base")
    parser.add_argument("--unary", type=int, default=1, help="cabac_unary_length")
    parser.add_argument("--engines", default="1,4")
    parser.add_argument("--zeros", default="0,50,80,95", help="percent")
    parser.add_argument("--minimum", type=int, default=1024, help="smaller tensors are left out")
    args = parser.parse_args()
    columns = ("model", "zeros %", "engines", "weights", "bytes/weight", "bins/weight", "bypass %", "cycles")
    columns += ("bins/cycle", "weights/cycle")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for path in args.models:
        name = path.parent.name if path.stem.startswith("model") else path.stem
        for percent in map(int, args.zeros.split(",")):
            for engines in map(int, args.engines.split(",")):
                config = dataclasses.replace(get_config(args.config), cabac_engines=engines)
                simulator = CabacSimulator(config)
                total, zeros = Count(), 0
                for tensor in weight_tensors(read_tosa(path), config.word_bytes):
                    if tensor.size >= args.minimum:
                        weights = pruned(tensor, percent)
                        zeros += int((weights == 0).sum())
                        total.add(decode(simulator, weights, args.unary))
                if not total.weights:
                    continue
                all_bins = total.context_bins + total.bypass_bins
                print(
                    f"| {name} | {100 * zeros / total.weights:.0f} | {engines} | {total.weights} "
                    f"| {total.bytes / total.weights:.3f} | {all_bins / total.weights:.2f} "
                    f"| {100 * total.bypass_bins / all_bins:.0f} | {total.cycles} "
                    f"| {all_bins / total.cycles:.3f} | {total.weights / total.cycles:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
