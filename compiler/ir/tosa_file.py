"""`.tosa` files: tells the versions apart and hands over to the reader or writer of each."""

import contextlib
import os
from pathlib import Path

from tosaic.compiler.ir import schema_0_30, schema_1_0
from tosaic.compiler.ir.file_builder import IDENTIFIER
from tosaic.compiler.ir.flatbuffer import FlatTable, Reader
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.mapped_file import MAPPED_BYTES, contents, let_go
from tosaic.errors import ModelError, UnsupportedError

_GRAPH_VERSION = 0
_UNSET = -1
_NEWEST_MINOR = 1
_VERSION_FIELDS = 4
_SMALLEST_BYTES = 12


def read_tosa(source: str | os.PathLike[str] | bytes | memoryview) -> Graph:
    """Reads a `.tosa` file (a path, or its bytes) of version 0.30, 1.0 or 1.1.

    The graph has the 1.0 meaning whatever the file's version. ModelError for a malformed file, a broken
    name or one of 0.30's own rules; UnsupportedError for another version or an operator outside the table.
    The graph is not validated: call `validate`.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        whole = memoryview(source)
        return _read(whole if whole.readonly else bytes(whole), "the .tosa data")
    path = Path(source)
    try:
        data = contents(path)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from None
    try:
        return _read(data, str(path))
    except (ModelError, UnsupportedError) as error:
        raise type(error)(f"{path}: {error}") from None


def write_tosa(
    graph: Graph, path: str | os.PathLike[str] | None = None, version: tuple[int, ...] = (1, 0)
) -> bytes:
    """The bytes of the graph's `.tosa` file, also stored at `path` if given.

    `version` is (1, 0), (1, 1) or (0, 30); UnsupportedError if the graph cannot be expressed in 0.30.
    """
    if version[:2] in ((1, 0), (1, 1)):
        data = schema_1_0.write(graph, version)
    elif version[:2] == (0, 30):
        data = schema_0_30.write(graph)
    else:
        raise UnsupportedError(
            f"cannot write TOSA {'.'.join(map(str, version))}; 0.30, 1.0 and 1.1 can be written"
        )
    if path is not None:
        _store(Path(path), data)
    return data


def _store(path: Path, data: bytes) -> None:
    """Writes a file. One that may be mapped into memory is not changed: whoever has it keeps it as it was."""
    place = path.resolve()
    if place.is_file() and place.stat().st_size >= MAPPED_BYTES:
        with contextlib.suppress(OSError):
            place.unlink()
    path.write_bytes(data)


def _read(data: bytes | memoryview, what: str) -> Graph:
    reader = Reader(data)
    if len(data) < _SMALLEST_BYTES or reader.identifier != IDENTIFIER:
        raise ModelError(f"{what} is not a TOSA flatbuffer: bytes 4 to 7 must be 'TOSA'")
    root = reader.root()
    version = _version(root.table(_GRAPH_VERSION, "the version"))
    # A 0.30 writer leaves out numbers that equal its schema's defaults (0.30.0); 1.x has no such defaults.
    graph: Graph | None = None
    if version[0] in (_UNSET, 0) and version[1] in (_UNSET, 30):
        graph = schema_0_30.read(root)
    if version[0] == 1 and 0 <= version[1] <= _NEWEST_MINOR:
        graph = schema_1_0.read(root, version)
    if graph is not None:
        let_go(memoryview(data))
        return graph
    raise UnsupportedError(
        f"{what} is TOSA version {'.'.join(map(str, version))}; 0.30, 1.0 and 1.1 can be read, export the model as one "
        "of these"
    )


def _version(table: FlatTable | None) -> tuple[int, int, int]:
    if table is None:
        return (_UNSET, _UNSET, _UNSET)
    table.only(_VERSION_FIELDS)
    return (table.int32(0, _UNSET), table.int32(1, _UNSET), table.int32(2, _UNSET))
