"""Quantizes the network and writes it as `build/read/minilm.tosa`, with the scales in `minilm.quant.json`.

    python examples/read/read_quantize.py

Activations have 16 bits, weights 8.
"""

from pathlib import Path

import numpy as np
from read_text import Reader, load_sentences
from read_tokens import Tokenizer
from read_tosa import build_graph
from read_weights import BUILD, Parameters, load_parameters, load_vocabulary

from tosaic.compiler.ir import write_tosa
from tosaic.driver.encodings import sidecar, write_encodings
from tosaic.driver.quantize import Quantization, quantize_graph

MODEL = BUILD / "minilm.tosa"


def quantize(parameters: Parameters, vocabulary: list[str], sentences: list[str]) -> Quantization:
    """The integers, calibrated with sentences, and the float graph that they stand for."""
    reader, graph = Reader(parameters, Tokenizer(vocabulary)), build_graph(parameters)
    samples = [reader(sentence) for sentence in sentences]
    return quantize_graph(
        graph,
        {name: np.stack([sample[name] for sample in samples]) for name in graph.inputs},
        activations="int16",
        error_feedback=True,
    )


def make_model(path: Path = MODEL) -> Path:
    """The file, quantized first where it is not there."""
    if not path.exists():
        print("Quantizing all-MiniLM-L6-v2, a minute, once.", flush=True)
        found = quantize(load_parameters(), load_vocabulary(), load_sentences()[1]).result
        write_encodings(sidecar(path), found.inputs, found.outputs)
        write_tosa(found.graph, path)
    return path


if __name__ == "__main__":
    MODEL.unlink(missing_ok=True)
    print(f"{make_model()}: {MODEL.stat().st_size:,} bytes")
