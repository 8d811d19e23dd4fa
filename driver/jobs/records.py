"""Records in a file: lines of JSON, each complete or not there, so that a run that was killed goes on."""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Iterator, Sequence

from tosaic.driver.replacing import replacing
from tosaic.errors import InputError

from .job import Record


class RecordFile:
    """The records that are known, by key, and a file that holds them; only in memory without a path."""

    def __init__(self, path: pathlib.Path | None = None):
        self._path = path
        self._known: dict[str, Record] = {}

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Read what is there, and keep other runs from writing meanwhile. InputError where that is impossible."""
        if self._path is None:
            yield
            return
        try:
            lock = os.open(self._path.with_name(f".{self._path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o644)
        except OSError as error:
            raise InputError(f"{self._path}: records cannot be kept there: {error.strerror}") from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    f"{self._path}: another run writes its records there: wait for it, or name another file"
                ) from None
            self._read()
            yield
        finally:
            os.close(lock)

    def find(self, key: str) -> Record | None:
        """The record of a job that has a result."""
        found = self._known.get(key)
        return None if found is None or found.failure is not None else found

    @property
    def records(self) -> list[Record]:
        """All that are known; those of the last run first, in its order."""
        return list(self._known.values())

    def add(self, record: Record) -> None:
        """Keep a record, from now on also if this process is killed."""
        self._known[record.key] = record
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(record.line())

    def settle(self, keys: Sequence[str]) -> None:
        """Order the file: the records of `keys` in that order, others behind them; equal whoever came first."""
        order = dict.fromkeys([*(key for key in keys if key in self._known), *self._known])
        self._known = {key: self._known[key] for key in order}
        if self._path is not None:
            with replacing(self._path) as scratch:
                scratch.write_text("".join(record.line() for record in self.records))

    def _read(self) -> None:
        assert self._path is not None
        self._known.clear()
        if not self._path.is_file():
            return
        text = self._path.read_text(errors="replace")
        whole, _, torn = text.rpartition("\n")
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                record = Record.of_line(line)
                self._known[record.key] = record
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
                raise InputError(
                    f"{self._path}: line {number} is no record of a job: name another file, or delete this one"
                ) from None
        if torn:
            # A run was killed while it wrote this line: its job is done again.
            os.truncate(self._path, len(f"{whole}\n".encode()) if whole else 0)
