"""The text that the decoder learns: Python's own language reference, as `help()` shows it."""

import pydoc_data.topics
import re

import numpy as np
from numpy.typing import NDArray

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
"""Token -> character."""
HELD_OUT = 0.05
"""The last part of the text, which training does not see."""


def encode(text: str) -> NDArray[np.int32]:
    """Tokens of a text; characters that the alphabet has not are left out."""
    return np.array([ALPHABET.index(each) for each in text if each in ALPHABET], np.int32)


def decode(tokens: NDArray[np.int32]) -> str:
    """The text of tokens."""
    return "".join(ALPHABET[each] for each in tokens)


def load_text() -> str:
    """Some 450,000 characters; typographic quotes become plain ones."""
    text = "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    for typographic, plain in (("\u2018", "'"), ("\u2019", "'"), ("\u201c", '"'), ("\u201d", '"')):
        text = text.replace(typographic, plain)
    # Underlines of headings and deep indentation say nothing.
    text = re.sub(r"\n[=*~^\"+-]{4,}\n", "\n", text)
    text = re.sub(r"\n +", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text)


def split() -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Tokens to learn from, and those held out."""
    tokens = encode(load_text())
    first = int(len(tokens) * (1 - HELD_OUT))
    return tokens[:first], tokens[first:]
