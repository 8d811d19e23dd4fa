"""The examples that talk: tokens, gradients, the float step against the whole sequence, and integers on targets."""

import dataclasses
import functools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "chat"))
import chat
import chat_float
import perplexity
from chat_float import Shape, initial_parameters
from chat_models import MODELS, Model, is_matrix
from chat_tokens import ALPHABET, Tokenizer, learn_pieces
from chat_tosa import build_graph
from quantize import calibration, file_of, make_model
from train import orthogonal

from tosaic import Session
from tosaic.driver.quantize import quantize_graph

TEXT = "The statement is"
SMALL = file_of("characters", "int8")


def test_pieces_are_the_most_frequent_pairs() -> None:
    tokenizer = learn_pieces("the cat then the other\n", 3)
    assert tokenizer.pieces[len(ALPHABET) :] == ["he", "the", " the"]
    assert [tokenizer.pieces[token] for token in tokenizer.encode("then the\u00e9 t")] == [
        "the",
        "n",
        " the",
        " ",
        "t",
    ]


def test_tokens_are_the_text_again() -> None:
    text = "Return the  value:\n\n    x = [1, 22]; it's `None`."
    for tokenizer in (Tokenizer(), learn_pieces(text * 2, 20)):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(text)) < len(text)


def test_gradients_are_those_of_small_steps() -> None:
    shape, random = Shape(30, 12, 3, 20, 2, 5), np.random.default_rng(0)
    parameters = {name: value.astype(np.float64) for name, value in initial_parameters(shape, random).items()}
    assert Shape.of(parameters) == shape
    read, wanted = (random.integers(0, shape.vocabulary, (2, 7)) for _ in range(2))
    _, found = chat_float.gradients(parameters, read, wanted)
    for name, values in parameters.items():
        # A row of the embedding that is read, a distance that there is.
        row = int(read[0, 0]) if name == "embedding" else 0
        place = (row, *(size - 1 for size in values.shape[1:])) if values.ndim > 1 else (3,)
        around = []
        for step in (1e-5, -2e-5):
            values[place] += step
            around.append(chat_float.gradients(parameters, read, wanted)[0])
        values[place] += 1e-5
        assert found[name][place] == pytest.approx((around[0] - around[1]) / 2e-5, rel=1e-3, abs=1e-7), name


def test_steps_of_muon_are_nearly_orthogonal() -> None:
    made = np.random.default_rng(0).normal(size=(24, 40)).astype(np.float32)
    sizes = np.linalg.svd(orthogonal(made), compute_uv=False)
    assert 0.6 < sizes.min() <= sizes.max() < 1.3


def test_step_by_step_is_the_whole_sequence() -> None:
    tokenizer, parameters = MODELS["characters"].load()
    tokens = tokenizer.encode(TEXT)
    wanted = chat_float.forward(parameters, tokens[None])[0]
    caches = chat_float.caches(parameters, tokens[None])
    session = Session(build_graph(parameters), "golden")
    for place, (token, logits) in enumerate(zip(tokens, wanted, strict=True)):
        for name, state in session.state.items():
            np.testing.assert_allclose(state, caches[name][0, place], atol=2e-3)
        got = session.run({"token": np.array([[token]], np.int32)})["logits"]
        np.testing.assert_allclose(got[0, 0], logits, atol=2e-3)


@pytest.mark.parametrize(
    "target, config",
    [
        ("emulator", "base"),
        ("emulator", "nano"),
        pytest.param("sim", "base", marks=pytest.mark.xdist_group("base")),
    ],
)
def test_every_tensor_of_every_step_is_golden_s(target: str, config: str) -> None:
    count = 6 if target == "emulator" else 2
    session = Session(SMALL, target, config, keep_layers=True)
    text = "".join(chat.steps(session, Tokenizer(), "a", count, check=True))
    assert len(text) == count and len(session.kept) > 40
    assert text == "".join(chat.steps(Session(SMALL, "golden"), Tokenizer(), "a", count))


def test_integers_know_the_text_nearly_as_well_as_floats() -> None:
    tokenizer, parameters = MODELS["characters"].load()
    tokens = MODELS["characters"].held_out(tokenizer)[1000:1120]
    floats, integers = (
        perplexity.losses(logits(tokens[:-1]), tokens[1:]).mean()
        for logits in (perplexity.of_floats(parameters), perplexity.of_integers(Session(SMALL, "golden")))
    )
    assert integers < floats + 0.1


@functools.cache
def small_pieces() -> tuple[Model, Tokenizer, chat_float.Parameters]:
    """A decoder of pieces that has learned nothing, as its file gives it back."""
    model = dataclasses.replace(MODELS["pieces"], merges=8, sizes=(64, 2, 128, 1, 9))
    tokenizer = learn_pieces("the other then there" * 2, model.merges)
    return model, tokenizer, initial_parameters(model.shape, np.random.default_rng(1))


def test_weights_come_back_from_their_file(tmp_path: Path) -> None:
    made, tokenizer, parameters = small_pieces()
    model = dataclasses.replace(made, weights=tmp_path / "pieces.nnr")
    model.save(model.weights, tokenizer, parameters)
    again, got = model.load()
    assert again.pieces == tokenizer.pieces and got.keys() == parameters.keys()
    for name, value in parameters.items():
        exact = not is_matrix(name, value)
        assert ((got[name] - value) ** 2).mean() < (1e-10 if exact else 2e-3 * (value**2).mean()), name


@pytest.mark.parametrize(
    "target, weights",
    [
        ("emulator", "int8"),
        ("emulator", "int4"),
        pytest.param("sim", "int4", marks=pytest.mark.xdist_group("base")),
    ],
)
def test_pieces_are_golden_s(target: str, weights: str) -> None:
    model, tokenizer, parameters = small_pieces()
    samples = calibration(parameters, np.random.default_rng(0).integers(0, model.shape.vocabulary, 2000))
    samples = {name: values[:64] for name, values in samples.items()}
    graph = quantize_graph(build_graph(parameters), samples, weights=weights).result.graph
    session = Session(graph, target, "base", keep_layers=True)
    random = np.random.default_rng(2)
    for token in random.integers(0, model.shape.vocabulary, 3):
        session.run({session.inputs[0].name: np.array([[token]], np.int32)}, check=True)
    assert len(session.kept) > 20


@pytest.mark.nightly
@pytest.mark.xdist_group("base")
def test_128_tokens_on_rtl_are_golden_s() -> None:
    path, (tokenizer, _) = make_model("pieces", "int4"), MODELS["pieces"].load()
    session = Session(path, "sim", "base", compress="fast")
    pieces = list(chat.steps(session, tokenizer, "Return the", 128, check=True))
    assert pieces == list(chat.steps(Session(path, "golden"), tokenizer, "Return the", 128))


@pytest.mark.nightly
@pytest.mark.parametrize("weights, most", [("int8", 1.01), ("int4", 1.025)])
def test_perplexity_stays(weights: str, most: float) -> None:
    model = MODELS["pieces"]
    tokenizer, parameters = model.load()
    tokens = model.held_out(tokenizer)[:1001]
    floats, integers = (
        perplexity.losses(logits(tokens[:-1]), tokens[1:]).mean()
        for logits in (
            perplexity.of_floats(parameters),
            perplexity.of_integers(Session(make_model("pieces", weights), "golden")),
        )
    )
    assert integers - floats < np.log(most)
