"""The example that talks: gradients, the float step against the whole sequence, and integers on the accelerator."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "chat"))
import chat
import chat_float
from chat_text import encode, split
from chat_tosa import build_graph
from quantize import load_parameters

from tosaic import Session

TEXT = "The statement is"


def test_gradients_are_those_of_small_steps() -> None:
    random = np.random.default_rng(0)
    parameters = {
        name: value.astype(np.float64) for name, value in chat_float.initial_parameters(random).items()
    }
    read, wanted = (random.integers(0, chat_float.VOCABULARY, (2, 7)) for _ in range(2))
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


def test_step_by_step_is_the_whole_sequence() -> None:
    parameters, tokens = load_parameters(), encode(TEXT)
    wanted = chat_float.forward(parameters, tokens[None])[0]
    session = Session(build_graph(parameters), "golden")
    for token, logits in zip(tokens, wanted, strict=True):
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
    session = Session(chat.MODEL, target, config, keep_layers=True)
    text = "".join(chat.steps(session, "a", count, 0.0, 1, check=True))
    assert len(text) == count and len(session.kept) > 40
    assert text == "".join(chat.steps(Session(chat.MODEL, "golden"), "a", count, 0.0, 1, check=False))


def test_integers_know_the_text_nearly_as_well_as_floats() -> None:
    tokens = split()[1][1000:1120]
    wanted = chat_float.loss_of(chat_float.forward(load_parameters(), tokens[None, :-1]), tokens[None, 1:])[0]
    session = Session(chat.MODEL, "golden")
    encoding = session.outputs[0].encoding
    assert encoding is not None
    logits = [
        encoding.dequantize(session.run({session.inputs[0].name: np.array([[token]], np.int32)})["logits"])[
            0, 0
        ]
        for token in tokens[:-1]
    ]
    assert chat_float.loss_of(np.array(logits), tokens[1:])[0] < wanted + 0.1
