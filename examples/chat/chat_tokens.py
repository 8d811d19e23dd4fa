"""Text as numbers of characters, and of pieces of words that byte-pair encoding finds."""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
"""The first tokens: one character each; others are left out."""
_WORD = re.compile(r" ?[A-Za-z]+| ?[0-9]| ?[^A-Za-z0-9\s]+|\n+| +")
"""Within these, and never across, characters grow together."""


class Tokenizer:
    """Tokens of a text. `merges` [N, 2] are the pairs of tokens that were joined, in order; none: a character each."""

    def __init__(self, merges: NDArray[np.integer] | None = None) -> None:
        self.merges = np.zeros((0, 2), np.int32) if merges is None else np.asarray(merges, np.int32)
        self.pieces = list(ALPHABET)
        for left, right in self.merges:
            self.pieces.append(self.pieces[left] + self.pieces[right])
        self._joined = {pair: len(ALPHABET) + n for n, pair in enumerate(map(tuple, self.merges.tolist()))}
        self._of_word = functools.cache(self._split)

    def encode(self, text: str) -> NDArray[np.int32]:
        """Tokens [N] of a text."""
        return np.array([token for word in _WORD.findall(text) for token in self._of_word(word)], np.int32)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens."""
        return "".join(self.pieces[each] for each in tokens)

    def _split(self, word: str) -> list[int]:
        found = _characters(word)
        while True:
            pairs = [pair for pair in zip(found, found[1:], strict=False) if pair in self._joined]
            if not pairs:
                return found
            first = min(pairs, key=self._joined.__getitem__)
            found = _joined(found, first, self._joined[first])


def learn_pieces(text: str, count: int) -> Tokenizer:
    """Joins the pair of neighbours that is most frequent, `count` times."""
    counts = Counter(_WORD.findall(text))
    words = [_characters(word) for word in counts]
    often = list(counts.values())
    pairs: Counter[tuple[int, int]] = Counter()
    users: defaultdict[tuple[int, int], set[int]] = defaultdict(set)

    def note(number: int, sign: int) -> None:
        for pair in zip(words[number], words[number][1:], strict=False):
            pairs[pair] += sign * often[number]
            users[pair].add(number)

    for number in range(len(words)):
        note(number, 1)
    merges: list[tuple[int, int]] = []
    while len(merges) < count and pairs:
        # Of equally frequent pairs the one with the lower tokens: the order of words does not matter.
        best = max(pairs, key=lambda pair: (pairs[pair], -pair[0], -pair[1]))
        for number in users.pop(best):
            note(number, -1)
            words[number] = _joined(words[number], best, len(ALPHABET) + len(merges))
            note(number, 1)
        del pairs[best]
        merges.append(best)
    return Tokenizer(np.array(merges, np.int32).reshape(-1, 2))


def _characters(word: str) -> list[int]:
    return [ALPHABET.index(each) for each in word if each in ALPHABET]


def _joined(tokens: list[int], pair: tuple[int, int], new: int) -> list[int]:
    found: list[int] = []
    for token in tokens:
        if found and (found[-1], token) == pair:
            found[-1] = new
        else:
            found.append(token)
    return found
