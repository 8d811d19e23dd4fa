"""NNEF containers: folders, and tar archives with any compression that Python reads (5.1)."""

import contextlib
import lzma
import pathlib
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from tosaic.compiler.importers.nnef.errors import NnefError, Position

GRAPH_FILE, QUANTIZATION_FILE = "graph.nnef", "graph.quant"
FILE_LIMIT_BYTES = 1 << 31
TEXT_LIMIT_BYTES = 1 << 26
UNPACKED_FREE_BYTES, UNPACKED_FACTOR = 16 << 20, 16
"""An archive unpacks to no more than 16 MiB and sixteen times its size."""
START_BYTES = 256
Check = Callable[[bytes, int], None]
"""Gets the first START_BYTES of a file and its size, and raises NnefError to refuse the rest."""

MEMBER_LIMIT = 100_000


class NnefContainer(ABC):
    """Files of a model by name, such as `conv1/filter.dat`. Raises NnefError."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.read_bytes = 0
        """Bytes of all files that were read."""

    @abstractmethod
    def read(self, name: str, check: Check | None = None) -> bytes | None:
        """The content of a file, or None if there is none. `check` sees its start and its size first."""

    def in_order(self, names: Iterable[str]) -> list[str]:
        """The names in the order in which reading them is quick."""
        return list(names)

    def graph(self) -> bytes:
        """The content of graph.nnef."""
        found = self.read(GRAPH_FILE)
        if found is None:
            raise NnefError(
                "V109",
                Position(str(self.path)),
                f"there is no {GRAPH_FILE}",
                "it stands at the top of the model",
            )
        return found


class Folder(NnefContainer):
    """A folder on disk; links that lead out of it are refused."""

    def read(self, name: str, check: Check | None = None) -> bytes | None:
        path = self.path.joinpath(*_parts(name, self.path))
        try:
            if not path.is_file():
                return None
            if not path.resolve().is_relative_to(self.path.resolve()):
                raise NnefError("container", Position(str(path)), "the file lies outside the model's folder")
            size = path.stat().st_size
            _check_size(path, name, size)
            with path.open("rb") as stream:
                content = _content(stream, size, check)
                self.read_bytes += len(content)
                return content
        except (OSError, ValueError) as error:
            raise NnefError("container", Position(str(path)), f"cannot be read: {error}") from None


class Archive(NnefContainer):
    """A tar archive, read without being unpacked to disk; only what is asked for is held in memory."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(path)
        self._members: dict[str, tarfile.TarInfo] = {}
        self._texts: dict[str, bytes] = {}
        with _archive_errors(path):
            self._archive = tarfile.open(path)
            limit = min(FILE_LIMIT_BYTES, UNPACKED_FREE_BYTES + UNPACKED_FACTOR * path.stat().st_size)
            total = members = 0
            while (member := self._archive.next()) is not None:
                members += 1
                total += member.size
                if members > MEMBER_LIMIT or total > limit:
                    raise NnefError(
                        "limit",
                        Position(str(path)),
                        f"more than {MEMBER_LIMIT} files or {limit} bytes",
                        "unpack it to a folder",
                    )
                name = "/".join(_parts(member.name, path))
                # What vendors add is not even read (5.1), nor are links and files with holes.
                if member.isreg() and not member.issparse():
                    self._members[name] = member
                if name in (GRAPH_FILE, QUANTIZATION_FILE):
                    # Read in passing: going back in a compressed archive means starting again.
                    self._texts[name] = self._read(name, None) or b""

    @property
    def files(self) -> dict[str, bytes]:
        """Every file of a model by name."""
        names = [name for name in self._members if name in self._texts or ".dat" in name]
        return {name: self.read(name) or b"" for name in self.in_order(names)}

    def read(self, name: str, check: Check | None = None) -> bytes | None:
        name = "/".join(_parts(name, self.path))
        if name in self._texts:
            return self._texts[name]
        with _archive_errors(self.path):
            return self._read(name, check)

    def _read(self, name: str, check: Check | None) -> bytes | None:
        member = self._members.get(name)
        stream = self._archive.extractfile(member) if member else None
        if member is None or stream is None:
            return None
        _check_size(self.path, name, member.size)
        content = _content(stream, member.size, check)
        if len(content) != member.size:
            raise EOFError(f"{name} ends after {len(content)} of {member.size} bytes")
        self.read_bytes += len(content)
        return content

    def in_order(self, names: Iterable[str]) -> list[str]:
        def place(name: str) -> int:
            member = self._members.get("/".join(_parts(name, self.path)))
            return member.offset if member else 0

        return sorted(names, key=place)


def _check_size(path: pathlib.Path, name: str, size: int) -> None:
    limit = TEXT_LIMIT_BYTES if name in (GRAPH_FILE, QUANTIZATION_FILE) else FILE_LIMIT_BYTES
    if size > limit:
        raise NnefError("limit", Position(str(path)), f"{name} has {size} bytes, at most {limit} are read")


def _content(stream: IO[bytes], size: int, check: Check | None) -> bytes:
    if check is None:
        return stream.read(size)
    start = stream.read(START_BYTES)
    check(start, size)
    return start + stream.read(size - len(start))


def open_container(path: pathlib.Path) -> NnefContainer:
    """The container at a path: a folder, the graph.nnef inside one, or a tar archive."""
    try:
        if path.is_dir():
            return Folder(path)
        if path.name == GRAPH_FILE and path.is_file():
            return Folder(path.parent)
        if not path.is_file():
            raise NnefError("container", Position(str(path)), "there is no such file or folder")
        is_archive = tarfile.is_tarfile(path)
    except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise NnefError("container", Position(str(path)), f"cannot be read: {error}") from None
    if not is_archive:
        raise NnefError(
            "V109",
            Position(str(path)),
            "the file is no tar archive",
            f"name the folder, its {GRAPH_FILE}, or a tar archive",
        )
    return Archive(path)


def _parts(name: str, path: pathlib.Path) -> list[str]:
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts or name.startswith(("/", "\\")) or "\0" in name or (parts and ":" in parts[0]):
        raise NnefError(
            "container",
            Position(str(path)),
            f"the name {name!r} leads out of the model",
            "use names below the model",
        )
    return parts


@contextlib.contextmanager
def _archive_errors(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise NnefError("container", Position(str(path)), f"is no readable tar archive: {error}") from None
