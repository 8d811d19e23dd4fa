"""How far the integers are from the floats: 200 sentences that calibration did not see.

    python examples/read/read_measure.py

Prints the SQNR of the vectors in dB, the smallest cosine, and for how many sentences the nearest other one is that of
the floats.
"""

import numpy as np
from numpy.typing import NDArray
from read import embed
from read_quantize import make_model
from read_text import Reader, load_sentences
from read_tokens import Tokenizer
from read_tosa import build_graph
from read_weights import load_parameters, load_vocabulary

from tosaic import Session
from tosaic.sim.golden import evaluate


def nearest(vectors: NDArray[np.float64]) -> NDArray[np.intp]:
    """The other sentence with the largest cosine, for each."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    products = unit @ unit.T
    np.fill_diagonal(products, -1)
    return products.argmax(1)


def main() -> None:
    """Command line."""
    parameters = load_parameters()
    reader, (sentences, _) = Reader(parameters, Tokenizer(load_vocabulary())), load_sentences()
    graph, golden = build_graph(parameters), Session(make_model(), "golden")
    feeds = [reader(sentence) for sentence in sentences]
    wanted = np.stack([evaluate(graph, feed)["embedding"].reshape(-1).astype(np.float64) for feed in feeds])
    got = np.stack([embed(golden, feed) for feed in feeds])
    noise = ((got - wanted) ** 2).sum()
    cosines = (got * wanted).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(wanted, axis=1)
    equal = int((nearest(wanted) == nearest(got)).sum())
    print(f"SQNR {10 * np.log10((wanted**2).sum() / noise):.1f} dB, smallest cosine {cosines.min():.4f}")
    print(f"nearest neighbour as in floats: {equal} of {len(sentences)}")


if __name__ == "__main__":
    main()
