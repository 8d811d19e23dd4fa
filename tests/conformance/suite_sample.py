"""A small part of TOSA's conformance suite, made by its own generator in seconds: every operator and mode."""

import contextlib
import functools
import importlib.util
import io
import json
import pathlib
import sys
from typing import Any

from tosaic.compiler.ir.operators import OPERATORS

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import suite_extensions  # noqa: E402 (the path comes first)

INSTALLED = importlib.util.find_spec("generator") is not None
"""Whether tosa-tools, which brings the generator, is there."""

SEED = 42
MORE_MODES = ("arithmetic_right_shift", "cond_if", "mul", "rescale", "while_loop")
"""Operators with attributes that the generator draws: a second test of the same types is often one of another mode."""
_TYPES = ("bool", "int4", "int8", "int16", "int32", "int48")


@functools.cache
def _configuration() -> dict[str, Any]:
    from conformance import tosa_verif_conformance_generator as package

    text = (pathlib.Path(package.__file__).parent / "cts-config_v1.0.json").read_text()
    return {name: entry for name, entry in json.loads(text).items() if name != "$comment"}


def _argument_lists(name: str) -> list[list[str]]:
    """The generator's arguments for each of the suite's integer groups of an operator."""
    lists = []
    for group in _configuration()[name]["generation"].values():
        supports = {*group.get("supports_all", ()), *group.get("supports_any", ())}
        integer = supports & {"tosa-pro-int", "tosa-ext-int16", "tosa-ext-int4", "tosa-ext-controlflow"}
        if integer and group.get("from_version", "1.0") < "1.1" and "tosa-ext-int64" not in supports:
            lists += group["generator_args"]
    return lists


def sampled_operators() -> list[str]:
    """The integer operators that the suite has tests for, as it spells them."""
    if not INSTALLED:
        return []
    known = [name for name in _configuration() if name.upper() in OPERATORS]
    return [name for name in known if _argument_lists(name) and OPERATORS[name.upper()].is_integer]


def _values(arguments: list[str], option: str) -> list[str]:
    """What follows an option, up to the next one."""
    if option not in arguments:
        return []
    rest = arguments[arguments.index(option) + 1 :]
    end = next((i for i, word in enumerate(rest) if word.startswith("--")), len(rest))
    return rest[:end]


def generate(name: str, folder: pathlib.Path, per_mode: int) -> None:
    """Makes an operator's tests in a folder: one of every ERROR_IF, and on small tensors `per_mode` positive ones of
    each combination of types (and rounding, resize mode, accumulator)."""
    from generator.tosa_verif_build_tests import main

    lists = _argument_lists(name)
    ranks = {word for arguments in lists for word in _values(arguments, "--target-rank")}
    chosen = _configuration()[name]["selection"].get("default", {})
    permutes = [what for what in chosen.get("permutes", ["type"]) if what not in ("rank", "shape", "kernel")]
    criteria = {"permutes": [*dict.fromkeys(["type", *permutes])], "maximum": per_mode}
    folder.mkdir(parents=True, exist_ok=True)
    selection = folder / "selection.json"
    selection.write_text(json.dumps({name: {"selection": {"default": criteria}}}))
    types = {word for arguments in lists for word in _values(arguments, "--target-dtype")}
    command = ["--filter", f"^{name}$", "-o", str(folder), "--seed", str(SEED)]
    if "random_const_inputs" in _configuration()[name].get("support_for", ()):
        command.append("--random-const-inputs")
    command += ["--tosa-version", "1.0.2", "--test-selection-config", str(selection)]
    command += ["--profile", "tosa-pro-int", "--extension", *suite_extensions.options("int")]
    command += ["--target-dtype", *(word for word in _TYPES if word in types)]
    positive = ["--test-type", "positive", "--no-special-tests", "--tensor-dim-range", "1,7"]
    if ranks:
        positive += ["--target-rank", *sorted(ranks)]
    # As the suite's own script: negative tests have any rank.
    for more in (positive, ["--test-type", "negative", "--tensor-dim-range", "1,16"]):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = main([*command, *more])
        assert not code, said.getvalue()
