"""Whatever is read: a graph, a tensor, or an NnefError."""

import contextlib
import pathlib
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from nnef_cases import CASES, QUANTIZATION, operators

from tosaic.compiler.importers.nnef.document import expand_document
from tosaic.compiler.importers.nnef.errors import NnefError
from tosaic.compiler.importers.nnef.flat_text import flat_text
from tosaic.compiler.importers.nnef.lexer import KEYWORDS, tokenize
from tosaic.compiler.importers.nnef.quantization_file import parse_quantization
from tosaic.compiler.importers.nnef.standard_library import standard_operations
from tosaic.compiler.importers.nnef.tensor_file import Algorithm, ItemEncoding, read_tensor, write_tensor

TEXTS = [text for _, text, _ in CASES]
TEXTS += [p.read_text() for p in sorted((pathlib.Path(__file__).parent / "documents").glob("*.nnef"))]
WORDS = sorted(KEYWORDS) + sorted(standard_operations())
WORDS += [
    *"+-*/^<>!(){}[]:=,;?",
    "&&",
    "==",
    "<=",
    "->",
    "0",
    "-1",
    "1.5",
    "9999999999",
    "'a'",
    "[]",
    "x",
    "y",
    "true",
]


def attempt(text: str) -> None:
    """A text that is accepted flattens to one that is accepted."""
    try:
        graph = expand_document(text)
    except NnefError as error:
        assert str(error).startswith("graph.nnef")
        return
    with contextlib.suppress(NnefError):
        flat_text(graph)


def test_documents_with_changed_tokens() -> None:
    chance = random.Random(20)
    for _ in range(500):
        text = chance.choice(TEXTS)
        if len(text) > 3000 and chance.random() < 0.9:
            continue
        with contextlib.suppress(NnefError):
            words = [token.text for token in tokenize(text, "graph.nnef")[:-1]]
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(words))
                kind = chance.randrange(4)
                if kind == 0:
                    words[at] = chance.choice(WORDS)
                elif kind == 1:
                    del words[at]
                elif kind == 2:
                    words.insert(at, chance.choice(WORDS))
                else:
                    other = chance.randrange(len(words))
                    words[at], words[other] = words[other], words[at]
            attempt(" ".join(words))


def test_documents_with_changed_characters() -> None:
    chance = random.Random(21)
    for _ in range(300):
        text = list(chance.choice(TEXTS[: len(CASES)]))
        for _ in range(chance.randint(1, 4)):
            text[chance.randrange(len(text))] = chr(chance.choice([*range(32, 127), 0, 10, 12, 233, 0x660]))
        attempt("".join(text))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_random_bodies(words: list[str]) -> None:
    attempt(operators(f"y = {' '.join(words)};"))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_random_texts(text: str) -> None:
    attempt(text)
    with contextlib.suppress(NnefError):
        parse_quantization(text, {"x"})
    with contextlib.suppress(NnefError):
        parse_quantization(QUANTIZATION[7][1][:20] + text, {"x"})


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([*Algorithm]),
    st.lists(st.tuples(st.integers(0, 135), st.integers(0, 255)), max_size=4),
    st.integers(0, 140),
)
def test_tensor_files(algorithm: Algorithm, changes: list[tuple[int, int]], cut: int) -> None:
    bits = 32 if algorithm is Algorithm.FLOAT else 5
    values = np.ones(8, np.int8 if algorithm is Algorithm.INTEGER else np.float32)
    data = bytearray(write_tensor(values, ItemEncoding(algorithm, bits, minimum=0.0, maximum=2.0)))
    for at, value in changes:
        data[at % len(data)] = value
    with contextlib.suppress(NnefError):
        read_tensor(bytes(data[: max(len(data) - cut, 0)] if cut % 3 == 0 else data), "v.dat")
