"""What a job is by content: the files it reads, the code that does it, the machine it is for."""

import hashlib
import io
import json
import pathlib
import tarfile
from collections.abc import Sequence

from tosaic.driver.digests import CODE_SUFFIXES, KEY_DIGITS, code_digest, digest_of, files_below, tree_digest
from tosaic.errors import InputError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import ISA_HASH

from .job import Job, require_plain


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
        "code": [code_digest(), *(tree_digest(folder, CODE_SUFFIXES) for folder in job.work.folders)],
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
