"""Progress on long work, for people: a bar on stderr when it is a terminal."""

import contextlib
import sys
from collections.abc import Callable, Iterator

Report = Callable[[str, int, int], None]
"""Told (what, done, total) while long work goes on."""


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """A function (what, done, total) that moves a bar; silent when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report
