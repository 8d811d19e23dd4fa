"""Results that are expensive to make, kept between runs and shared by parallel ones."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator

from tosaic.errors import Error, InputError

VARIABLE = "TOSAIC_CACHE"
"""The environment variable that names the cache's directory."""
KEPT = 6
"""Files of one kind and configuration that stay; older ones belong to hardware that was changed since."""
MOST_NAME = 120
"""Letters of a configuration's name in the name of a file."""
ADMINISTRATOR = 0
"""The user who may put code anywhere."""
DIGEST = ".sha256"
"""The end of the name of the file beside each, that holds its digest."""
STALE_SECONDS = 3600
"""Nothing takes so long to make."""


def progress(text: str) -> contextlib.AbstractContextManager[object]:
    """Say on stderr what takes so long: a spinner in a terminal, a line in a log."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(text, soft_wrap=True, highlight=False)
    return console.status(text)


def cache_directory() -> pathlib.Path:
    """Returns TOSAIC_CACHE, or `tosaic` in XDG_CACHE_HOME (default ~/.cache)."""
    if own := os.environ.get(VARIABLE):
        return pathlib.Path(own)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(base) / "tosaic"
    try:
        return pathlib.Path.home() / ".cache" / "tosaic"
    except RuntimeError:
        raise Error(
            f"there is no home directory to keep simulators and Verilog in; set {VARIABLE} to a directory with room "
            "that you may write to"
        ) from None


def cached(kind: str, name: str, key: str, suffix: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """The file `kind`/`name`-`key``suffix` of the cache, made by `make(path)` when it is not there, or not whole.

    `key` is a hash of everything the content depends on. `make` writes to a temporary path that is renamed when it
    returns, so nobody ever sees half a file; a lock keeps two processes from making the same one. A digest beside the
    file tells one that was damaged since, which is made again. Error when the cache cannot be written.
    """
    name = _short(name)
    path = _path(kind, name, key, suffix)
    with _named_errors():
        if _used(path):
            return path
    folder = path.parent
    make_cache_directory()
    with _named_errors():
        folder.mkdir(mode=0o700, exist_ok=True)
    with _named_errors(), _locked(folder / f"{name}-{key}.lock"):
        if not _is_whole(path):
            path.unlink(missing_ok=True)
            with tempfile.TemporaryDirectory(dir=folder, prefix=f"{name}-") as scratch:
                made = pathlib.Path(scratch) / f"made{suffix}"
                make(made)
                # Whoever sees the file finds its digest beside it.
                told = pathlib.Path(scratch) / f"made{DIGEST}"
                told.write_text(_digest(made))
                os.replace(told, _digest_file(path))
                os.replace(made, path)
            _prune(folder, name, suffix)
    return path


def kept(kind: str, name: str, key: str, suffix: str) -> pathlib.Path | None:
    """The file that `cached` made, None when it is not there, or not as it was made. Writes nothing."""
    path = _path(kind, _short(name), key, suffix)
    return path if _used(path) else None


def _short(name: str) -> str:
    """A name that a file can have: that of a configuration with all its settings is longer."""
    if len(name) <= MOST_NAME:
        return name
    return f"{name[:MOST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _path(kind: str, name: str, key: str, suffix: str) -> pathlib.Path:
    folder = cache_directory() / kind
    for place in (folder.parent, folder):
        _refuse_foreign(place)
    return folder / f"{name}-{key}{suffix}"


def _used(path: pathlib.Path) -> bool:
    """Whether it is there and whole; the time of the last use decides what stays."""
    if not _is_whole(path):
        return False
    with contextlib.suppress(OSError):
        os.utime(path)
    return True


def _is_whole(path: pathlib.Path) -> bool:
    """Whether the file is there, as it was made."""
    try:
        return _digest_file(path).read_text() == _digest(path)
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return False


def _digest_file(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(path.name + DIGEST)


def _digest(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_cache_directory() -> pathlib.Path:
    """The cache's directory, made if it is not there; Error when that is impossible."""
    with _named_errors():
        cache_directory().mkdir(mode=0o700, parents=True, exist_ok=True)
    return cache_directory()


@contextlib.contextmanager
def _named_errors() -> Iterator[None]:
    """Turns the operating system's errors about a file of the cache, or about one that it does not name, into an
    Error."""
    try:
        yield
    except OSError as error:
        folder, named = cache_directory(), error.filename and pathlib.Path(os.fsdecode(error.filename))
        # An error of opening names its file, or a folder above that cannot be made; an error of writing does not.
        if named and not (named.is_relative_to(folder) or folder.is_relative_to(named)):
            raise
        raise Error(
            f"the cache of simulators and Verilog in {folder} cannot be written: {error.strerror or error}; set "
            f"{VARIABLE} to a directory with room that you may write to"
        ) from error


def _refuse_foreign(folder: pathlib.Path) -> None:
    """Libraries are loaded from the cache: whoever may write there would run code as this user."""
    try:
        found = folder.stat()
    except OSError:
        return  # There is none yet, or the attempt to use it says more.
    if found.st_uid not in (os.getuid(), ADMINISTRATOR):
        raise InputError(
            f"{folder}: this cache folder belongs to another user, who could put code into it: "
            "set TOSAIC_CACHE to a folder of your own"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(
            f"{folder}: other users may write to this cache folder, and so put code into it: "
            f"chmod go-w {folder}, or set TOSAIC_CACHE to a folder of your own"
        )


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    path.unlink(missing_ok=True)


def _prune(folder: pathlib.Path, name: str, suffix: str) -> None:
    files = sorted(folder.glob(f"{name}-*{suffix}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[KEPT:]:
        path.unlink(missing_ok=True)
        _digest_file(path).unlink(missing_ok=True)
    for scratch in folder.glob(f"{name}-*/"):
        # A process that was killed leaves its directory behind.
        if scratch.is_dir() and scratch.stat().st_mtime < time.time() - STALE_SECONDS:
            shutil.rmtree(scratch, ignore_errors=True)
