"""Quantizes a trained decoder and writes it as TOSA, with the scales beside it.

    python examples/chat/quantize.py [--model pieces] [--weights int8|int4] [-o DIRECTORY]

Calibrates with what the float decoder reads and keeps on parts of the text.
"""

import argparse
from pathlib import Path

import numpy as np
from chat_float import Parameters, caches
from chat_models import BUILD, HERE, MODELS
from chat_text import split
from chat_tosa import build_graph
from numpy.typing import NDArray

from tosaic.compiler.ir import write_tosa
from tosaic.compiler.quantizer import Quantized
from tosaic.driver.encodings import sidecar, write_encodings
from tosaic.driver.quantize import quantize_graph

PARTS, LENGTH, STRIDE = 8, 160, 5
"""Parts of the text, tokens of each, and of how many tokens one is a sample."""


def calibration(parameters: Parameters, tokens: NDArray[np.int32]) -> dict[str, np.ndarray]:
    """What the decoder reads and remembers on its way through parts of `tokens`: [samples, ...]."""
    first = np.arange(PARTS) * (len(tokens) // PARTS)
    parts = tokens[first[:, None] + np.arange(LENGTH)]
    found = {name: kept[:, ::STRIDE] for name, kept in caches(parameters, parts).items()}
    found["token"] = parts[:, ::STRIDE, None, None]
    return {name: kept.reshape(-1, *kept.shape[2:]) for name, kept in found.items()}


def quantize(name: str, weights: str) -> Quantized:
    """The integer decoder; `weights` is int8 or int4, the latter in groups of 64 with error feedback."""
    model = MODELS[name]
    tokenizer, parameters = model.load()
    samples = calibration(parameters, tokenizer.encode(split(model.load_text())[0]))
    return quantize_graph(build_graph(parameters), samples, weights=weights, **model.quantization).result


def file_of(name: str, weights: str) -> Path:
    """Where the integers are: the small decoder's are committed."""
    if (name, weights) == ("characters", "int8"):
        return HERE / "chat.tosa"
    return BUILD / f"{name}.{weights}.tosa"


def make_model(name: str, weights: str) -> Path:
    """The file, quantized first where it is not there or older than the weights."""
    path = file_of(name, weights)
    if (
        not path.exists()
        or BUILD == path.parent
        and path.stat().st_mtime < MODELS[name].weights.stat().st_mtime
    ):
        print(f"Quantizing the decoder, a minute, once: {path}", flush=True)
        write(quantize(name, weights), path)
    return path


def write(found: Quantized, path: Path) -> None:
    """Writes the graph and its encodings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_encodings(sidecar(path), found.inputs, found.outputs)
    write_tosa(found.graph, path)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="characters")
    parser.add_argument("--weights", choices=("int8", "int4"), default="int8")
    parser.add_argument("-o", "--output", type=Path, help="default: where chat.py looks for it")
    chosen = parser.parse_args()
    path = file_of(chosen.model, chosen.weights)
    path = chosen.output / path.name if chosen.output else path
    write(quantize(chosen.model, chosen.weights), path)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
