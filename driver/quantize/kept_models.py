"""ONNX models that were turned into integers before: kept in the cache by content, since reading them takes seconds."""

import contextlib
import hashlib
import importlib.metadata
import json
import pathlib
import re
import warnings

from tosaic import compiler
from tosaic.compiler.importers.bindings import Bindings, Bound
from tosaic.compiler.ir import Graph, read_tosa, write_tosa
from tosaic.driver.encodings import Encodings, read_encodings, write_encodings
from tosaic.driver.quantize.encoded_models import import_encoded
from tosaic.errors import Error
from tosaic.sim.cache import cached, kept

_KIND = "models"
_GRAPH, _ENCODINGS = ".tosa", ".quant.json"
_ELSEWHERE = b"location"
"""The key that says where a tensor's bytes are if they are not in the model's file."""


def open_encoded(path: pathlib.Path, bound: Bound = None) -> tuple[Graph, Encodings] | None:
    """Returns what `import_encoded` does: the graph, and the encodings of its inputs and outputs."""
    data = path.read_bytes()
    key = None if _ELSEWHERE in data else _key(data, bound)
    name = re.sub(r"\W", "_", path.stem)
    if key is not None:
        with contextlib.suppress(Error, OSError):
            graph, encodings = (kept(_KIND, name, key, suffix) for suffix in (_GRAPH, _ENCODINGS))
            if graph is not None and encodings is not None:
                return read_tosa(graph), read_encodings(encodings)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = import_encoded(path, bound)
    for each in told:
        warnings.warn(each.message, each.category, stacklevel=2)
    if found is None:
        return None
    # What warns does so each time.
    if key is not None and not told and not found.graph.labels:
        # A cache that cannot be written only costs time.
        with contextlib.suppress(Error, OSError):
            cached(_KIND, name, key, _GRAPH, lambda target: _write(found.graph, target))
            cached(
                _KIND,
                name,
                key,
                _ENCODINGS,
                lambda target: write_encodings(target, found.inputs, found.outputs),
            )
    return found.graph, {**found.inputs, **found.outputs}


def _write(graph: Graph, path: pathlib.Path) -> None:
    write_tosa(graph, path)


def _key(data: bytes, bound: Bound) -> str:
    """A hash of the model and of all that reads it."""
    found = hashlib.sha256(data)
    bindings = Bindings.of(bound)
    for each in (bindings.shapes, bindings.values):
        found.update(json.dumps(each, sort_keys=True, default=list).encode())
    for package in ("onnx", "numpy"):
        found.update(importlib.metadata.version(package).encode())
    root = pathlib.Path(compiler.__file__).parent
    for folder in ("importers/lowering", "importers/onnx_models", "ir", "quantizer"):
        for source in sorted((root / folder).rglob("*.py")):
            found.update(source.read_bytes())
    for source in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        found.update(source.read_bytes())
    return found.hexdigest()[:24]
