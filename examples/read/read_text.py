"""Sentences of Python's own language reference (what `help()` shows), and what the network reads of a sentence."""

import pydoc_data.topics
import re

import numpy as np
from read_tokens import Tokenizer
from read_tosa import LENGTH, table
from read_weights import Parameters

COUNT, CALIBRATION = 200, 192
"""Sentences that are searched and judged, and others that the ranges of activations come from."""
_NO_TEXT = re.compile(r"^( {6,}|>>>|\s*\|)|::=", re.MULTILINE)
"""Programs, tables and grammars."""


def load_sentences() -> tuple[list[str], list[str]]:
    """`COUNT` sentences, and `CALIBRATION` others."""
    text = "\n\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    found: dict[str, None] = {}
    for paragraph in re.split(r"\n\s*\n", text):
        if not _NO_TEXT.search(paragraph):
            for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", " ".join(paragraph.split())):
                if re.fullmatch(r"[A-Z].{25,160}[.]", sentence):
                    found[sentence] = None
    order = np.random.default_rng(0).permutation(list(found)).tolist()
    return order[:COUNT], order[COUNT : COUNT + CALIBRATION]


class Reader:
    """What the network reads of a sentence."""

    def __init__(self, parameters: Parameters, tokenizer: Tokenizer) -> None:
        self.table, self.tokenizer = table(parameters), tokenizer

    def __call__(self, sentence: str) -> dict[str, np.ndarray]:
        tokens = self.tokenizer(sentence, LENGTH)
        used = tokens.shape[1]
        # What is behind the sentence does not count; its last token again leaves all ranges as they are.
        filled = np.pad(tokens, ((0, 0), (0, LENGTH - used)), "edge")
        return {"rows": self.table[filled], "count": np.array([[used]], np.int32)}
