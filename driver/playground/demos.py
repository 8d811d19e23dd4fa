"""The networks that a page can show: the examples of this package, and any model."""

import importlib.resources
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.program import Program
from tosaic.driver.loading import CompileOptions, Loaded, load
from tosaic.driver.models import open_with_encodings
from tosaic.errors import InputError
from tosaic.hw.config import Config

from .catalog import Demo

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
"""The characters of examples/chat, by token."""
CHARACTERS = 400
MOST_SAMPLES = 8


def digits_demo(configs: Sequence[Config]) -> Demo:
    """Digits, drawn or of the test set: one example of each."""
    with importlib.resources.as_file(importlib.resources.files("tosaic.examples") / "digits") as folder:
        data = np.load(folder / "images.npz")
        labels, pixels = data["labels"], data["pixels"]
        first = [int(np.flatnonzero(labels == digit)[0]) for digit in range(10)]
        examples = [
            {"label": str(labels[place]), "pixels": pixels[place].ravel().tolist()} for place in first
        ]
        programs = _programs(_loaded(folder / "digits.tosa", configs))
    return Demo("digits", "Digits: draw one", programs, {"kind": "digits", "examples": examples})


def chat_demo(configs: Sequence[Config]) -> Demo:
    """A small decoder that writes, a character at a time."""
    with importlib.resources.as_file(importlib.resources.files("tosaic.examples") / "chat") as folder:
        loaded = _loaded(folder / "chat.tosa", configs)
    encoding = next(iter(loaded.values())).outputs[0].encoding
    assert encoding is not None
    scale = float(encoding.scale)
    shown = {
        "kind": "chat",
        "alphabet": ALPHABET,
        "characters": CHARACTERS,
        "prompt": "The class ",
        "scale": scale,
    }
    return Demo("chat", "Chat: a decoder that writes", _programs(loaded), shown)


def model_demo(
    model: pathlib.Path,
    configs: Sequence[Config],
    samples: pathlib.Path | None = None,
    labels: pathlib.Path | None = None,
) -> Demo:
    """A model of integers, or a program (.tsc), with random inputs and those of `samples`, an .npz of arrays by input's
    name with a leading axis of samples. labels: a text file with a line for each number of the first output."""
    programs = _programs(_loaded(model, configs))
    shown: dict[str, Any] = {"kind": "tensor", "samples": []}
    if samples is not None:
        shown["samples"] = _samples(next(iter(programs.values())), samples)
    if labels is not None:
        shown["labels"] = labels.read_text().splitlines()
    name = re.sub(r"\W+", "_", model.parent.name if model.stem == "model" else model.stem)
    return Demo(name, name.replace("_", " "), programs, shown)


def _loaded(model: pathlib.Path, configs: Sequence[Config]) -> dict[str, Loaded]:
    """The model for each configuration; a program for its own."""
    opened, encodings = open_with_encodings(model)
    if not isinstance(opened, Program):
        return {config.name: load(opened, encodings, config, False, CompileOptions()) for config in configs}
    name = opened.config.name
    if name not in [config.name for config in configs]:
        raise InputError(f"{model}: this program is for {name}: add --config {name}")
    return {name: load(opened, encodings, opened.config, False, CompileOptions())}


def _programs(loaded: dict[str, Loaded]) -> dict[str, Program]:
    return {name: each.program for name, each in loaded.items() if each.program is not None}


def _samples(program: Program, path: pathlib.Path) -> list[dict[str, list[int]]]:
    found = np.load(path)
    made: list[dict[str, list[int]]] = []
    for port in program.inputs:
        if port.name not in found:
            raise InputError(f"{path}: it has no array {port.name!r}; it has {', '.join(map(repr, found))}")
        values = found[port.name].astype(np.int64)
        if values.shape[1:] != port.shape:
            values = values.reshape(-1, *port.shape)
        for number, sample in enumerate(values[:MOST_SAMPLES]):
            if number == len(made):
                made.append({})
            made[number][port.name] = sample.ravel().tolist()
    return made
