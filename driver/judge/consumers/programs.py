"""Runs another program under a time limit, with all that it starts."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from ..outcome import Crash, OutOfTime, Refusal

REFUSES = 77
"""The exit code by which a `cmd:` program refuses a graph, as automake's tests say that they cannot run."""
_END_SECONDS = 5.0


def run_program(
    command: Sequence[str],
    folder: pathlib.Path,
    limit_seconds: float,
    refuses: Sequence[int],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a program in a folder. Refusal for the exit codes `refuses`, with all its words as a note; Crash for any
    other, OutOfTime.

    `environment` has variables that it gets beside or instead of ours."""
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                # Its own group: what it starts ends with it.
                start_new_session=True,
            )
        except OSError as error:
            raise Crash(f"{command[0]} cannot be started: {error.strerror}") from None
        try:
            code = process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            raise OutOfTime(f"not finished after {limit_seconds:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(_END_SECONDS)
        said.seek(0)
        words = said.read().decode(errors="replace").replace(f"{folder}/", "")
    if code in refuses:
        refusal = Refusal(first_words(words) or f"exit code {code}")
        refusal.add_note(words)
        raise refusal
    if code:
        ended = f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise Crash(f"{ended}: {first_words(words)}" if words.strip() else ended)


def first_words(said: str) -> str:
    """The line of a program's output that tells most: the first with the word error and what follows its colon, else
    the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first = next(
        (number for number, line in enumerate(lines) if re.search(r"\berror\b", line, re.I)), len(lines) - 1
    )
    return " ".join(lines[first : first + 1 + lines[first].endswith(":")]) if lines else ""
