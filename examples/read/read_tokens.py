"""Text as the numbers of pieces of words (WordPiece), as BERT's uncased models read it."""

import unicodedata
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

UNKNOWN, START, END = "[UNK]", "[CLS]", "[SEP]"
LONGEST_WORD = 100
"""Characters; longer words are unknown."""


class Tokenizer:
    """Tokens of sentences, by a vocabulary."""

    def __init__(self, vocabulary: list[str]) -> None:
        self.numbers = {piece: number for number, piece in enumerate(vocabulary)}

    def __call__(self, text: str, length: int) -> NDArray[np.int32]:
        """Tokens [1, up to length] of a text: what does not fit is cut off."""
        numbers = self.numbers
        pieces = [numbers[piece] for word in words(text) for piece in self._pieces(word)]
        return np.array([[numbers[START], *pieces[: length - 2], numbers[END]]], np.int32)

    def _pieces(self, word: str) -> list[str]:
        """The longest pieces of the vocabulary that make up a word, from its start on."""
        found: list[str] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            ends = range(len(word), start, -1) if len(word) <= LONGEST_WORD else range(0)
            end = next((end for end in ends if mark + word[start:end] in self.numbers), None)
            if end is None:
                return [UNKNOWN]
            found.append(mark + word[start:end])
            start = end
        return found


def words(text: str) -> list[str]:
    """Words and marks of punctuation in lower case, without accents."""
    cleaned = "".join(_cleaned(text))
    plain = unicodedata.normalize("NFD", cleaned.lower())
    letters = (each for each in plain if unicodedata.category(each) != "Mn")
    return "".join(f" {each} " if _is_mark(each) else each for each in letters).split()


def _cleaned(text: str) -> Iterator[str]:
    """Spaces for all kinds of them and around Chinese characters; control characters go."""
    for each in text:
        if each in "\t\n\r" or unicodedata.category(each) == "Zs":
            yield " "
        elif _is_chinese(ord(each)):
            yield f" {each} "
        elif each not in "\0\ufffd" and not unicodedata.category(each).startswith("C"):
            yield each


def _is_mark(character: str) -> bool:
    """Punctuation, and what else of ASCII is neither a letter, a digit nor a space."""
    ascii_mark = "!" <= character <= "~" and not character.isalnum()
    return ascii_mark or unicodedata.category(character).startswith("P")


def _is_chinese(code: int) -> bool:
    blocks = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2CEAF), (0x2F800, 0x2FA1F))
    return any(first <= code <= last for first, last in blocks)
