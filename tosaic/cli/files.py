"""Where results are written: wrong places are told before the work, not after it."""

import contextlib
import pathlib
from collections.abc import Iterator

from tosaic.driver.replacing import replacing
from tosaic.errors import InputError


def check_file(path: pathlib.Path | None, suffix: str | None = None) -> None:
    """Raises InputError unless a file can be written there, as far as can be told without writing.

    `suffix`: what the file's name must end in, if it has a suffix, because of what is written.
    """
    if path is None:
        return
    if suffix is not None and path.suffix not in ("", suffix):
        raise InputError(
            f"{path}: cannot be written: this verb writes {suffix} files, not {path.suffix}; "
            f"name it {path.with_suffix(suffix)}"
        )
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
def writing_whole(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A path to write to, which becomes `path` at the end; when that fails, InputError, and no part of a file stays."""
    with writing(path), replacing(path) as scratch:
        yield scratch


@contextlib.contextmanager
def writing(path: pathlib.Path) -> Iterator[None]:
    """Turns what the operating system says against `path` into an InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; choose another place") from error
