"""Files that appear whole or not at all."""

import contextlib
import os
import pathlib
from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A path beside `path` to write to; it becomes `path` at the end, and is removed when writing fails.

    What is not a regular file (/dev/stdout, a pipe), or is in a directory that takes no new file, is written in place.
    Raises OSError.
    """
    # A link stays a link: what it points to is replaced.
    real = path.resolve()
    if real.exists() and not (real.is_file() and os.access(real.parent, os.W_OK)):
        yield real
        return
    scratch = real.with_name(f".{os.getpid()}-{real.name}")
    try:
        yield scratch
        os.replace(scratch, real)
    finally:
        scratch.unlink(missing_ok=True)
