"""Quantizes the trained networks of this example to int8 and writes them as .tosa files.

    python examples/digits/quantize.py [-o DIRECTORY]

Reads `weights.npz` and the calibration images of `images.npz` beside this file; writes `digits.tosa` and
`digits_tiny.tosa`, and beside each what its integers stand for (.quant.json), the same bytes each time.
"""

import argparse
from pathlib import Path

import numpy as np
from digits_data import to_float
from digits_float import Parameters
from digits_network import NETWORKS
from digits_quantization import calibrate
from digits_tosa import build_graph

from tosaic.compiler.ir import DType, Graph, write_tosa
from tosaic.compiler.quantizer import Encoding
from tosaic.driver.encodings import sidecar, write_encodings

HERE = Path(__file__).parent


def load_parameters(name: str) -> Parameters:
    """The committed float weights of one network."""
    with np.load(HERE / "weights.npz") as weights:
        prefix = f"{name}."
        return {key.removeprefix(prefix): weights[key] for key in weights if key.startswith(prefix)}


def quantize(name: str) -> Graph:
    """Calibrates one network by name and builds its integer graph."""
    with np.load(HERE / "images.npz") as images:
        calibration = to_float(images["calibration"])
    network, parameters = NETWORKS[name], load_parameters(name)
    return build_graph(name, network, parameters, calibrate(network, parameters, calibration))


def encodings(name: str, graph: Graph) -> tuple[dict[str, Encoding], dict[str, Encoding]]:
    """What the integers of a network's input and output stand for: pixels of 0 to 1, and logits."""
    with np.load(HERE / "images.npz") as images:
        calibration = to_float(images["calibration"])
    network = NETWORKS[name]
    found = calibrate(network, load_parameters(name), calibration)
    ends = ((graph.inputs[0], found["input"]), (graph.outputs[0], found[network[-1].name]))
    sides = [{port: Encoding(DType.INT8, each.scale, each.zero_point)} for port, each in ends]
    return sides[0], sides[1]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Quantize the digits networks to TOSA.")
    parser.add_argument("-o", "--output", type=Path, default=HERE)
    directory = parser.parse_args().output
    for name in NETWORKS:
        path = directory / f"{name}.tosa"
        graph = quantize(name)
        write_tosa(graph, path)
        write_encodings(sidecar(path), *encodings(name, graph))
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
