"""What packed weights save where memory is slow: bytes and cycles of whole networks, pruned by magnitude.

    python bench/packed_weights.py MODEL.tosa... [--config base] [--zeros 0,80,95] [--bandwidth 16,8,4,2,1]
        [--on emulator]

Prints the table of docs/records/compressed_weights.md.
Each weight tensor of an array's operator is pruned to the share of zeros, smallest
magnitudes first. Every output is compared with golden's.
"""

import argparse
import pathlib

import numpy as np
from checked_run import checked_run

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph, read_tosa
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config_text import get_config

_LAYERS = ("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D", "CONV3D", "FULLY_CONNECTED")


def pruned(path: pathlib.Path, percent: int) -> Graph:
    """The network with `percent` of each weight tensor's elements 0."""
    graph = read_tosa(path)
    for op in graph.operators:
        if op.op not in _LAYERS:
            continue
        name, producer = op.inputs[1], graph.producer(op.inputs[1])
        # Weights of a fully connected layer are reshaped.
        tensor = graph.tensors[producer.inputs[0] if producer is not None and producer.inputs else name]
        if tensor.data is None:
            continue
        values = np.array(tensor.data)
        order = np.argsort(np.abs(values.reshape(-1).astype(np.int16)), kind="stable")
        values.reshape(-1)[order[: values.size * percent // 100]] = 0
        tensor.data = values
    return graph


def stored(graph: Graph, config: str, compress: str | None) -> int:
    """Bytes of the weights in the image, packed for 1 byte per cycle."""
    program = compile_graph(graph, get_config(config), compress=compress, speed=MemorySpeed(1))
    return sum(each.stored_bytes for each in program.weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--config", default="base")
    parser.add_argument("--zeros", default="0,80,95", help="percent")
    parser.add_argument("--bandwidth", default="16,8,4,2,1")
    parser.add_argument("--on", default="emulator", metavar="TARGET")
    args = parser.parse_args()
    bandwidths = [int(each) for each in args.bandwidth.split(",")]
    columns = ["network", "zeros %", "bytes", "packed", "NNR", *(f"{each} B/cycle" for each in bandwidths)]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for path in args.models:
        name = path.parent.name if path.stem.startswith("model") else path.stem
        for percent in map(int, args.zeros.split(",")):
            graph = pruned(path, percent)
            sizes = [f"{stored(graph, args.config, method):,}" for method in (None, "fast", "nnr")]
            runs = []
            for bandwidth in bandwidths:
                stats = [checked_run(graph, args.config, args.on, bandwidth, how) for how in (None, "fast")]
                runs.append(" → ".join(f"{each['cycles']:,}" for each in stats))
            print(f"| {' | '.join([name, str(percent), *sizes, *runs])} |", flush=True)


if __name__ == "__main__":
    main()
