"""Digests of files, of folders and of this package: what is kept or recorded belongs to what made it."""

import functools
import hashlib
import os
import pathlib
from collections.abc import Iterator, Mapping

from tosaic.errors import InputError

KEY_DIGITS = 32
CODE_SUFFIXES = frozenset({".py", ".c", ".h", ".cpp", ".v", ".csv", ".toml", ".proto", ".nnef"})
"""Files of the package, and of folders of code beside it, that decide what it computes."""


@functools.cache
def code_digest() -> str:
    """Returns the digest of this package: a record belongs to the code that made it."""
    return tree_digest(pathlib.Path(__file__).parents[1], CODE_SUFFIXES)


def digest_of(path: pathlib.Path) -> str:
    """Returns the digest of a file's bytes, or of the names and bytes of all that is in a folder."""
    if path.is_dir():
        return tree_digest(path, None)
    try:
        known = path.stat()
        return _file_digest(path, known.st_mtime_ns, known.st_size)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def file_digests(files: Mapping[str, str | pathlib.Path]) -> dict[str, str]:
    """Returns the digests of those that are files or folders, by the same names; models may be no files."""
    return {
        name: digest_of(pathlib.Path(path)) for name, path in files.items() if pathlib.Path(path).exists()
    }


@functools.lru_cache(1 << 12)
def _file_digest(path: pathlib.Path, changed: int, size: int) -> str:
    """The time and the size are asked again for each job: a file that has changed is read again."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tree_digest(folder: pathlib.Path, suffixes: frozenset[str] | None) -> str:
    """Returns the digest of the names and bytes of files below a folder, of some suffixes (None: of all)."""
    found = hashlib.sha256()
    for path in files_below(folder, suffixes):
        found.update(f"{path.relative_to(folder).as_posix()}\0{digest_of(path)}\0".encode())
    return found.hexdigest()


def files_below(folder: pathlib.Path, suffixes: frozenset[str] | None = None) -> Iterator[pathlib.Path]:
    """Regular files below a folder, in the order of their paths, of some suffixes (None: of all). The package's parts
    are links to folders, so links are followed."""
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = pathlib.Path(place, name)
            if (suffixes is None or path.suffix in suffixes) and path.is_file():
                yield path
