"""The example that reads: tokens, the float network against NumPy, and integers of a small one on the accelerator."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "read"))
from read_quantize import quantize
from read_text import Reader, load_sentences
from read_tokens import Tokenizer, words
from read_tosa import HEADS, LENGTH, WIDTH, build_graph

from tosaic import Session
from tosaic.driver.quantize import measure
from tosaic.sim.golden import evaluate

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    ".",
    "the",
    "list",
    "##s",
    "state",
    "##ment",
    "un",
    "##list",
    "is",
]
HIDDEN = 64


def parameters() -> dict[str, np.ndarray]:
    """One layer of random weights under the names of the model."""
    random = np.random.default_rng(2)

    def normal(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * shape[-1] ** -0.5).astype(np.float32)

    kinds = {"word": len(PIECES), "position": LENGTH, "token_type": 2}
    made = {f"embeddings.{kind}_embeddings.weight": normal(rows, WIDTH) for kind, rows in kinds.items()}
    layer = "encoder.layer.0."
    sizes = {
        **dict.fromkeys(["attention.self." + name for name in ("query", "key", "value")], (WIDTH, WIDTH)),
        "attention.output.dense": (WIDTH, WIDTH),
        "intermediate.dense": (HIDDEN, WIDTH),
        "output.dense": (WIDTH, HIDDEN),
    }
    for name, shape in sizes.items():
        made[f"{layer}{name}.weight"], made[f"{layer}{name}.bias"] = normal(*shape), normal(shape[0])
    for name in ("embeddings.", f"{layer}attention.output.", f"{layer}output."):
        made[f"{name}LayerNorm.weight"] = 1 + normal(WIDTH)
        made[f"{name}LayerNorm.bias"] = normal(WIDTH)
    return made


def vector(own: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """The network in NumPy, on the tokens alone."""

    def normed(x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
        return x * own[f"{name}LayerNorm.weight"] + own[f"{name}LayerNorm.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ own[f"encoder.layer.0.{name}.weight"].T + own[f"encoder.layer.0.{name}.bias"]

    table, places, kinds = (
        own[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    x = normed(table[tokens] + places[: len(tokens)] + kinds[0], "embeddings.")
    q, k, v = (
        linear(x, f"attention.self.{name}").reshape(len(tokens), HEADS, -1).transpose(1, 0, 2)
        for name in ("query", "key", "value")
    )
    scores = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(WIDTH / HEADS))
    mixed = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(tokens), WIDTH)
    x = normed(x + linear(mixed, "attention.output.dense"), "encoder.layer.0.attention.output.")
    hidden = linear(x, "intermediate.dense")
    hidden = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
    x = normed(x + linear(hidden, "output.dense"), "encoder.layer.0.output.")
    return x.mean(0) / np.linalg.norm(x.mean(0))


@pytest.mark.parametrize(
    "text, pieces",
    [
        ("The lists.", [5, 6, 7, 4]),
        ("  STATEMENT\tis unlist ", [8, 9, 12, 10, 11]),
        ("thé li\u0301st is\u00a0the", [5, 6, 12, 5]),
        ("list\u0000s \u4e2d is", [6, 7, 1, 12]),
        ("unlisted", [1]),
        ("is" * 60, [1]),
        ("", []),
    ],
)
def test_tokens(text: str, pieces: list[int]) -> None:
    assert Tokenizer(PIECES)(text, LENGTH).tolist() == [[2, *pieces, 3]]


def test_a_long_sentence_is_cut_before_its_end() -> None:
    assert Tokenizer(PIECES)("is the list " * 20, 8).tolist() == [[2, 12, 5, 6, 12, 5, 6, 3]]
    assert words("don't (f(x))!") == ["don", "'", "t", "(", "f", "(", "x", ")", ")", "!"]


def test_the_float_network_is_numpy_s() -> None:
    own = parameters()
    graph, reader = build_graph(own), Reader(own, Tokenizer(PIECES))
    for text in ("the list is un.", "statements", "is the list " * 20):
        tokens = Tokenizer(PIECES)(text, LENGTH)[0].tolist()
        got = evaluate(graph, reader(text))["embedding"].reshape(-1)
        np.testing.assert_allclose(got, vector(own, tokens), atol=1e-5)


def test_integers_are_exact_on_the_emulator_and_near_the_floats() -> None:
    own = parameters()
    sentences = ["the " * (1 + n % 7) + "list is statement un . " * (n % 4) for n in range(16)]
    found = quantize(own, PIECES, sentences)
    assert measure(found).outputs[0].sqnr_db > 35
    assert {name: each.dtype.name for name, each in found.result.inputs.items()} == {"rows": "INT16"}
    session = Session(found.graph, "emulator", keep_layers=True)
    feed = Reader(own, Tokenizer(PIECES))("the lists.")
    session.run(
        {"rows": found.result.inputs["rows"].quantize(feed["rows"]), "count": feed["count"]}, check=True
    )
    assert len(session.kept) > 20


def test_sentences_are_those_of_the_reference_and_apart() -> None:
    searched, others = load_sentences()
    assert len(searched) == 200 and len(others) > 100 and not set(searched) & set(others)
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in searched)
