"""What `tosaic quantize` writes into OUT.quant.json of the network it quantized, beside the encodings."""

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.compiler.importers.bindings import Bindings
from tosaic.driver.digests import digest_of
from tosaic.driver.runnable import plain
from tosaic.errors import InputError

KEY = "source"
EXACT = "exact"
"""An SQNR without noise, in JSON."""


@dataclasses.dataclass(frozen=True)
class OutputNote:
    """How near an output was to the network's."""

    sqnr_db: float
    """Decibels on all samples."""
    lowest_db: float
    """Decibels on the sample where they are lowest."""


@dataclasses.dataclass(frozen=True)
class LayerNote:
    """The integers that stand for a tensor of the network: real = scale * (q - zero_point), between two bounds."""

    tensor: str
    """The tensor's name in the integer graph."""
    shown: str
    """What people are shown: the operator of the network."""
    scale: tuple[float, ...]
    """One, or one for each element of the last axis."""
    zero_point: int = 0
    low: float = -math.inf
    high: float = math.inf

    def reals(self, values: np.ndarray) -> np.ndarray:
        """The reals that a tensor's integers stand for."""
        wide = (values.astype(np.float64) - self.zero_point) * np.array(self.scale)
        return np.clip(wide, self.low, self.high)


@dataclasses.dataclass(frozen=True)
class SourceNote:
    """The network that integers were made of, and how near to it they were."""

    path: pathlib.Path | None = None
    """The model's path; None for a graph that has no file."""
    digest: str | None = None
    bound: Bindings = dataclasses.field(default_factory=Bindings)
    samples: str = ""
    """The samples that it was measured on, in words."""
    outputs: Mapping[str, OutputNote] = dataclasses.field(default_factory=dict)
    layers: Mapping[str, LayerNote] = dataclasses.field(default_factory=dict)
    """Notes by the network's own names of tensors."""

    def found(self, model: str) -> pathlib.Path:
        """The network's file; InputError where it is not there any more, or another one is."""
        way_out = "give the float model: --source MODEL, in Python Session(..., source=MODEL)"
        if self.path is None:
            raise InputError(f"{model} was made of a graph that has no file: {way_out}")
        if not self.path.exists():
            raise InputError(f"{model} was made of {self.path}, which is not there: {way_out}")
        if digest_of(self.path) != self.digest:
            raise InputError(
                f"{model} was made of {self.path}, which has changed since: quantize it again, or {way_out}"
            )
        return self.path

    def as_json(self, folder: pathlib.Path) -> dict[str, Any]:
        """Plain values; the path is told from `folder`, so that both may be moved together."""
        return {
            "path": os.path.relpath(self.path, folder) if self.path else None,
            "sha256": self.digest,
            **plain(self.bound),
            "samples": self.samples,
            "outputs": {
                name: {field: _plain(value) for field, value in dataclasses.asdict(each).items()}
                for name, each in self.outputs.items()
            },
            "layers": {name: _layer(each) for name, each in self.layers.items()},
        }


def read_note(path: pathlib.Path) -> SourceNote | None:
    """The note in a file of encodings; None if there is no such file, or none in it. InputError for a damaged one."""
    if not path.is_file():
        return None
    try:
        said = json.loads(path.read_text()).get(KEY)
        return None if said is None else _note(said, path.parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path}: its {KEY!r} cannot be read ({type(error).__name__}: {error}); write it again by tosaic quantize"
        ) from None


def _note(said: Mapping[str, Any], folder: pathlib.Path) -> SourceNote:
    return SourceNote(
        None if said["path"] is None else pathlib.Path(os.path.normpath(folder / said["path"])),
        said["sha256"],
        Bindings(dict(said["shapes"]), dict(said["values"])),
        str(said["samples"]),
        {
            name: OutputNote(_real(each["sqnr_db"]), _real(each["lowest_db"]))
            for name, each in said["outputs"].items()
        },
        {name: _of_layer(each) for name, each in said["layers"].items()},
    )


def _layer(note: LayerNote) -> dict[str, Any]:
    bounds = {name: getattr(note, name) for name in ("low", "high") if math.isfinite(getattr(note, name))}
    return {
        "tensor": note.tensor,
        "shown": note.shown,
        "scale": list(note.scale),
        "zero_point": note.zero_point,
    } | bounds


def _of_layer(said: Mapping[str, Any]) -> LayerNote:
    return LayerNote(
        str(said["tensor"]),
        str(said["shown"]),
        tuple(map(float, said["scale"])),
        int(said["zero_point"]),
        float(said.get("low", -math.inf)),
        float(said.get("high", math.inf)),
    )


def _plain(decibels: float) -> float | str | None:
    """JSON has no infinities."""
    return round(decibels, 3) if math.isfinite(decibels) else EXACT if decibels > 0 else None


def _real(said: float | str | None) -> float:
    return math.inf if said == EXACT else -math.inf if said is None else float(said)
