"""Models of several that are bound and refused before any work begins."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.bindings import Bindings, Bound
from tosaic.errors import InputError

from .float_graphs import refuse_floats
from .models import open_model


def fitting(source: Any, bound: Bound) -> tuple[Bindings, InputError | None]:
    """What is bound of a model that is one of several: the sizes, or the values, that mean nothing to it are left out,
    and why they do is said."""
    whole = Bindings.of(bound)
    if not (whole.shapes or whole.values) or callable(source):
        return whole, None
    choices = (whole, Bindings({}, whole.values), Bindings(whole.shapes, {}), Bindings())
    first: InputError | None = None
    for choice in choices:
        try:
            open_model(source, choice)
        except InputError as error:
            first = first or error
            continue
        return choice, first
    assert first is not None
    raise first


def runnable(models: Sequence[pathlib.Path], bound: Bound) -> list[Bindings]:
    """What is bound of each model. UnsupportedError for a float model, with the command that makes integers of it;
    InputError for one whose shapes are open, and for what is bound of none."""
    found = [fitting(model, bound) for model in models]
    unfit = [error for _, error in found]
    if unfit and all(error is not None for error in unfit):
        assert unfit[0] is not None
        raise unfit[0]
    for model, (own, _) in zip(models, found, strict=True):
        refuse_floats(open_model(model, own), str(model), "emulator", own)
    return [own for own, _ in found]


def plain(bound: Bindings) -> dict[str, Any]:
    """Bindings as values that JSON has."""
    return {
        "shapes": {name: np.asarray(size).tolist() for name, size in bound.shapes.items()},
        "values": {name: np.asarray(value).tolist() for name, value in bound.values.items()},
    }
