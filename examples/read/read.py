"""The sentences of Python's language reference that are nearest to yours, by meaning, on the accelerator.

    python examples/read/read.py [SENTENCE...] [--on emulator|sim] [--count N] [--check]

The accelerator makes a vector of a sentence in integers; the nearest sentence is that with the largest product of
vectors. Your sentences run on the target, the 200 that are searched on golden, once: all targets give equal integers.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from read_quantize import make_model
from read_text import Reader, load_sentences
from read_tokens import Tokenizer
from read_weights import BUILD, load_parameters, load_vocabulary

from tosaic import Session

QUESTIONS = (
    "How do I deal with an error?",
    "Can I change the contents of a list?",
    "What happens when two numbers of different types are added?",
)


def embed(session: Session, feed: dict[str, NDArray[np.generic]], check: bool = False) -> NDArray[np.float64]:
    """The vector of a sentence; `check` compares every tensor with golden."""
    integers = {
        port.name: feed[port.name] if port.encoding is None else port.encoding.quantize(feed[port.name])
        for port in session.inputs
    }
    (output,) = session.outputs
    assert output.encoding is not None
    return output.encoding.dequantize(session.run(integers, check=check)[output.name]).reshape(-1)


def vectors(reader: Reader, sentences: list[str]) -> NDArray[np.float64]:
    """Those of the sentences that are searched, kept beside the model."""
    model = make_model()
    path = BUILD / "vectors.npz"
    if path.exists() and path.stat().st_mtime_ns > model.stat().st_mtime_ns:
        with np.load(path) as kept:
            if kept["sentences"].tolist() == sentences:
                return np.asarray(kept["vectors"])
    print(f"Reading {len(sentences)} sentences, once.", flush=True)
    golden = Session(model, "golden")
    found = np.stack([embed(golden, reader(sentence)) for sentence in sentences])
    np.savez(path, sentences=sentences, vectors=found)
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sentences", nargs="*", default=QUESTIONS, metavar="SENTENCE")
    parser.add_argument("--on", default="emulator", help="target, as of `tosaic run`")
    parser.add_argument("--config", default="base")
    parser.add_argument("--count", type=int, default=3, help="neighbours shown")
    parser.add_argument("--check", action="store_true", help="compare every tensor with golden")
    chosen = parser.parse_args()
    reader, (sentences, _) = Reader(load_parameters(), Tokenizer(load_vocabulary())), load_sentences()
    known = vectors(reader, sentences)
    session = Session(make_model(), chosen.on, chosen.config, keep_layers=chosen.check)
    for question in chosen.sentences:
        near = known @ embed(session, reader(question), chosen.check)
        print(f"\n{question}")
        for place in np.argsort(-near)[: chosen.count]:
            print(f"  {near[place]:.2f}  {sentences[place]}")
    if session.result is not None:
        told = f"{session.result.cycles:,} cycles a sentence on {chosen.on} ({chosen.config})"
        exact = f", {len(session.kept)} tensors of each equal golden" if chosen.check else ""
        print(f"\n{told}{exact}")


if __name__ == "__main__":
    main()
