"""What a job is by content: the files it reads, the code that does it, the machine it is for."""

import functools
import hashlib
import io
import json
import os
import pathlib
import tarfile
from collections.abc import Iterator, Sequence

from tosaic.errors import InputError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import ISA_HASH

from .job import Job, require_plain

KEY_DIGITS = 32
CODE_SUFFIXES = frozenset({".py", ".c", ".h", ".cpp", ".v", ".csv", ".toml", ".proto", ".nnef"})
"""Files of the package, and of folders of code beside it, that decide what it computes."""


def key_of(job: Job) -> str:
    """Equal for jobs that have equal records: the same work by the same code, on files of the same content, for the
    same configuration and instruction set. InputError for a file that cannot be read, or an unknown configuration."""
    require_plain(job)
    try:
        config = get_config(job.config).hash
    except ValueError as error:
        raise InputError(str(error)) from None
    parts = {
        "work": job.work.function,
        "code": [code_digest(), *(_tree_digest(folder, CODE_SUFFIXES) for folder in job.work.folders)],
        "isa": ISA_HASH,
        "config": config,
        "files": [digest_of(path) for path in read_by(job)],
        "target": job.target,
        "seed": job.seed,
        "settings": dict(job.settings),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:KEY_DIGITS]


def read_by(job: Job) -> list[pathlib.Path]:
    """Files and folders that the job reads, the model first."""
    return [*((job.model,) if job.model else ()), *job.files]


@functools.cache
def code_digest() -> str:
    """Returns the digest of this package: a record belongs to the code that made it."""
    return _tree_digest(pathlib.Path(__file__).parents[2], CODE_SUFFIXES)


def digest_of(path: pathlib.Path) -> str:
    """Returns the digest of a file's bytes, or of the names and bytes of all that is in a folder."""
    if path.is_dir():
        return _tree_digest(path, None)
    try:
        known = path.stat()
        return _file_digest(path, known.st_mtime_ns, known.st_size)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


@functools.lru_cache(1 << 12)
def _file_digest(path: pathlib.Path, changed: int, size: int) -> str:
    """The time and the size are asked again for each job: a file that has changed is read again."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _tree_digest(folder: pathlib.Path, suffixes: frozenset[str] | None) -> str:
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


def pack(paths: Sequence[pathlib.Path], suffixes: frozenset[str] | None = None) -> bytes:
    """An archive of files and folders, equal for equal content; each lies in it below its name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in paths:
            inside = files_below(path, suffixes) if path.is_dir() else (path,)
            for file in inside:
                data = file.read_bytes()
                entry = tarfile.TarInfo(file.relative_to(path.parent).as_posix())
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def unpack(archive: bytes, folder: pathlib.Path) -> None:
    """Put the content of an archive of `pack` into a folder. InputError for what is no file below it: the filters of
    `tarfile` are not in every Python 3.11."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for entry in opened:
            target, data = (
                (folder / entry.name).resolve(),
                opened.extractfile(entry) if entry.isreg() else None,
            )
            if data is None or not target.is_relative_to(folder.resolve()):
                raise InputError(f"an archive of a job has {entry.name!r}, which is no file below its folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data.read())
