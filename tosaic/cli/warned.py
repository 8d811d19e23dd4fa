"""Warnings as lines on stderr, like errors."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Shows every warning for users once, as `tosaic: warning: text`."""
    shown = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, UserWarning):
            return  # for developers: of hardware that an earlier error has left unused, say
        text = f"tosaic: warning: {message}"
        if text not in shown:
            shown.add(text)
            print(text, file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
