"""Quantizes the trained decoder to int8 and writes it as `chat.tosa`, with the scales in `chat.quant.json`.

    python examples/chat/quantize.py [-o DIRECTORY]

Reads `weights.npz` beside this file; calibrates with what the float decoder reads, keeps and computes on parts of the
text.
"""

import argparse
from pathlib import Path

import numpy as np
from chat_float import Parameters
from chat_text import split
from chat_tosa import build_graph
from numpy.typing import NDArray

from tosaic import Session
from tosaic.compiler.ir import Graph, write_tosa
from tosaic.compiler.quantizer import Quantized
from tosaic.driver.encodings import sidecar, write_encodings
from tosaic.driver.quantize import quantize_graph

HERE = Path(__file__).parent
PARTS, LENGTH, STRIDE = 4, 160, 3
"""Parts of the text, tokens of each, and of how many tokens one is a sample."""


def load_parameters() -> Parameters:
    """The committed float weights."""
    with np.load(HERE / "weights.npz") as weights:
        return {name: weights[name].astype(np.float32) for name in weights}


def calibration(graph: Graph, tokens: NDArray[np.int32]) -> dict[str, np.ndarray]:
    """What the float graph reads and remembers on its way through parts of `tokens`: [samples, ...]."""
    samples: list[dict[str, np.ndarray]] = []
    for part in range(PARTS):
        session = Session(graph, "golden")
        first = part * (len(tokens) // PARTS)
        for number, token in enumerate(tokens[first : first + LENGTH]):
            feed = {"token": np.array([[token]], np.int32)}
            if number % STRIDE == 0:
                samples.append({**feed, **session.state})
            session.run(feed)
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}


def quantize() -> Quantized:
    """The integer decoder."""
    graph = build_graph(load_parameters())
    return quantize_graph(graph, calibration(graph, split()[0])).result


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=HERE)
    path = parser.parse_args().output / "chat.tosa"
    found = quantize()
    write_tosa(found.graph, path)
    write_encodings(sidecar(path), found.inputs, found.outputs)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
