"""Progress on long work, for people: a bar on stderr when it is a terminal."""

import contextlib
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tosaic.driver.session import Progress as Report


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """A function (what, done, total) that moves a bar; silent when stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report
