"""NNEF containers: folders, and tar archives with any compression that Python reads (5.1)."""

import contextlib
import pathlib
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator

from tosaic.compiler.importers.nnef.errors import NnefError, Position

GRAPH_FILE, QUANTIZATION_FILE = "graph.nnef", "graph.quant"
FILE_LIMIT_BYTES = 1 << 31
MEMBER_LIMIT = 100_000


class Container(ABC):
    """Files of a model by name, such as `conv1/filter.dat`. Raises NnefError."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The content of a file, or None if there is none."""

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


class Folder(Container):
    """A folder on disk; links that lead out of it are refused."""

    def read(self, name: str) -> bytes | None:
        path = self.path.joinpath(*_parts(name, self.path))
        try:
            if not path.is_file():
                return None
            if not path.resolve().is_relative_to(self.path.resolve()):
                raise NnefError("container", Position(str(path)), "the file lies outside the model's folder")
            if path.stat().st_size > FILE_LIMIT_BYTES:
                raise NnefError(
                    "limit", Position(str(path)), f"the file has more than {FILE_LIMIT_BYTES} bytes"
                )
            return path.read_bytes()
        except (OSError, ValueError) as error:
            raise NnefError("container", Position(str(path)), f"cannot be read: {error}") from None


class Archive(Container):
    """A tar archive, held in memory without being unpacked to disk."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(path)
        self.files: dict[str, bytes] = {}
        with _archive_errors(path), tarfile.open(path) as archive:
            total = members = 0
            while (member := archive.next()) is not None:
                members += 1
                total += member.size
                if members > MEMBER_LIMIT or total > FILE_LIMIT_BYTES:
                    raise NnefError(
                        "limit",
                        Position(str(path)),
                        f"more than {MEMBER_LIMIT} files or {FILE_LIMIT_BYTES} bytes",
                        "unpack it to a folder",
                    )
                name = "/".join(_parts(member.name, path))
                # What vendors add is not even read (5.1).
                wanted = name in (GRAPH_FILE, QUANTIZATION_FILE) or ".dat" in name
                content = archive.extractfile(member) if wanted and member.isreg() else None
                if content is not None:
                    self.files[name] = content.read()

    def read(self, name: str) -> bytes | None:
        return self.files.get("/".join(_parts(name, self.path)))


def open_container(path: pathlib.Path) -> Container:
    """The container at a path: a folder, the graph.nnef inside one, or a tar archive."""
    try:
        if path.is_dir():
            return Folder(path)
        if path.name == GRAPH_FILE and path.is_file():
            return Folder(path.parent)
        if not path.is_file():
            raise NnefError("container", Position(str(path)), "there is no such file or folder")
        is_archive = tarfile.is_tarfile(path)
    except (OSError, ValueError, EOFError, zlib.error) as error:
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
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
        raise NnefError("container", Position(str(path)), f"is no readable tar archive: {error}") from None
