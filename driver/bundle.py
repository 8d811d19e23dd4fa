"""A bundle: one file with all that a run was made of, so that a stranger can make it again.

A ZIP file without compression: bundle.json, the integer graph (graph.tosa) or the program (program.tsc), and the arrays
that went in and came out, an .npy file each.
"""

import dataclasses
import importlib.metadata
import io
import json
import pathlib
import platform
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.compiler.ir import Graph, read_tosa, write_tosa
from tosaic.compiler.program import Program
from tosaic.driver.session import Session
from tosaic.driver.targets import is_device
from tosaic.errors import InputError, MismatchError, ModelError, UnsupportedError, in_words
from tosaic.hw.config import Config

SUFFIX = ".zip"
FORMAT = 1
_JSON, _GRAPH, _PROGRAM = "bundle.json", "graph.tosa", "program.tsc"
_FREE_BYTES = 1 << 20
"""More than the file itself that its members may take."""
_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "optimize": bool,
    "drop_dead_channels": bool,
    "keep_layers": bool,
    "compress": (str, type(None)),
    "memory_bandwidth": (int, float, type(None)),
    "memory_latency": (int, type(None)),
    "max_cycles": (int, type(None)),
}
"""Options of `Session` that a bundle may hold, with the types that they may have."""


@dataclasses.dataclass(frozen=True)
class Bundle:
    """A run: what it was made of, and how it ended."""

    model: Graph | Program
    target: str
    config: Config
    options: dict[str, Any]
    """Arguments of `Session` besides, see `_OPTIONS`."""
    inputs: dict[str, np.ndarray]
    """Inputs, and states as they were before the run, by name."""
    outputs: dict[str, np.ndarray]
    """The outputs; None for a run that ended in an error."""
    ended: str
    """How the run ended: the error's line, or what its outputs were compared with."""
    made_by: dict[str, str]
    """Versions of the software that made it."""

    def session(self, target: str | None = None, **options: Any) -> Session:
        """A session that makes the run again, on the bundle's target or on another. InputError where the run was on a
        device and no target is given: a file does not choose whom this computer talks to."""
        if target is None and is_device(self.target):
            raise InputError(f"the run was on {self.target}: say where to make it again, as --on emulator")
        return Session(self.model, target or self.target, self.config, **{**self.options, **options})

    def run(self, session: Session) -> dict[str, np.ndarray]:
        """The outputs of the run made again, compared with golden where there is a graph. MismatchError names the first
        difference from golden, or from the bundle's own outputs."""
        given = dict(self.inputs)
        for name in given.keys() & session.state.keys():
            session.state[name] = given.pop(name)
        outputs = session.run(given, check=session.graph is not None)
        for name, before in self.outputs.items():
            now = outputs.get(name)
            if now is None or now.shape != before.shape or now.dtype != before.dtype:
                raise MismatchError(
                    f"output {name!r} of the bundle has another shape or type than that of this run"
                )
            different = np.argwhere(now != before)
            if len(different):
                first = tuple(int(index) for index in different[0])
                raise MismatchError(
                    f"output {name!r} differs from the bundle's in {len(different)} of {now.size} elements, first at "
                    f"{list(first)}: {now[first]}, in the bundle {before[first]}"
                )
        return outputs


def made_by() -> dict[str, str]:
    """Versions that a run may depend on."""
    return {
        "tosaic": importlib.metadata.version("tosaic"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }


def write_bundle(
    path: pathlib.Path,
    session: Session,
    options: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    ended: str,
) -> None:
    """Writes the run of `session` with these inputs and states."""
    model: tuple[str, bytes]
    if session.graph is not None:
        model = _GRAPH, write_tosa(session.graph)
    else:
        assert session.program is not None
        model = _PROGRAM, session.program.to_bytes()
    arrays: dict[str, np.ndarray] = {}
    places: dict[str, dict[str, str]] = {}
    for side, values in (("inputs", inputs), ("outputs", outputs)):
        places[side] = {name: f"{side}/{number}.npy" for number, name in enumerate(values)}
        arrays |= {places[side][name]: values[name] for name in values}
    text = {
        "format": FORMAT,
        "made_by": made_by(),
        "target": _named(session.target),
        "config": dataclasses.asdict(session.config),
        "options": {name: options[name] for name in _OPTIONS},
        **places,
        "ended": ended,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_JSON, json.dumps(text, indent=1))
        archive.writestr(*model)
        for place, array in arrays.items():
            stream = io.BytesIO()
            np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
            archive.writestr(place, stream.getvalue())


def read_bundle(path: str | pathlib.Path) -> Bundle:
    """The run in a bundle. ModelError for a file that is none, or damaged; UnsupportedError for a later format."""
    path = pathlib.Path(path)
    try:
        members = _members(path)
        text = json.loads(members[_JSON])
        if text["format"] != FORMAT:
            raise UnsupportedError(
                f"{path}: is a bundle of format {text['format']!r:.20}, this version reads {FORMAT}: update Tosaic"
            )
        model = Program.load(members[_PROGRAM]) if _PROGRAM in members else read_tosa(members[_GRAPH])
        sides = {
            side: {str(name): _array(members[place]) for name, place in text[side].items()}
            for side in ("inputs", "outputs")
        }
        options = {name: text["options"][name] for name in _OPTIONS}
        if not all(isinstance(options[name], types) for name, types in _OPTIONS.items()):
            raise ValueError("an option has another type")
        return Bundle(
            model,
            _printable(text["target"]),
            Config(**text["config"]),
            options,
            sides["inputs"],
            sides["outputs"],
            _printable(text["ended"]),
            {_printable(name): _printable(value) for name, value in text["made_by"].items()},
        )
    except (ModelError, UnsupportedError):
        raise
    except FileNotFoundError:
        raise ModelError(f"{path}: cannot be read: there is no such file") from None
    except Exception as error:  # a damaged archive, JSON or header raises what its parser raises
        raise ModelError(
            f"{path}: is no whole bundle of a run ({in_words(error)}): make it again by `tosaic run --bundle`"
        ) from None


def _members(path: pathlib.Path) -> dict[str, bytes]:
    """What is in the archive, by name."""
    with zipfile.ZipFile(path) as archive:
        whole = sum(info.file_size for info in archive.infolist())
        if whole > _FREE_BYTES + path.stat().st_size:
            raise ValueError(f"its members take {whole} bytes, more than the file")
        return {info.filename: archive.read(info) for info in archive.infolist()}


def _printable(value: Any) -> str:
    """The text without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))


def _array(data: bytes) -> np.ndarray:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def _named(target: str) -> str:
    """The target's name; a device's URI without what is secret in it."""
    if not is_device(target):
        return target
    from tosaic.driver.transports.uri import masked

    return masked(target)
