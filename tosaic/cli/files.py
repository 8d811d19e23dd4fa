"""Where results are written: wrong places are told before the work, not after it."""

import contextlib
import pathlib
from collections.abc import Iterator

from tosaic.errors import InputError


def check_file(path: pathlib.Path | None) -> None:
    """InputError unless a file can be written there, as far as can be told without writing."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path}: cannot be written: it is a directory; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{path}: cannot be written: there is no directory {path.parent}; make it first")


def make_folder(path: pathlib.Path | None) -> None:
    """Makes the directory, with its parents, unless it is there; InputError when that is impossible."""
    if path is None:
        return
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def writing(path: pathlib.Path) -> Iterator[None]:
    """Turns what the operating system says against `path` into an InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; choose another place") from error
