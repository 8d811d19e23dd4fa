"""The command line's frame: verbs, version, and errors as one line with an exit code."""

import atexit
import errno
import os
import signal
import sys
import traceback
from typing import Annotated, Any, NoReturn

import typer

from tosaic.cli.verbs import LazyVerbs
from tosaic.cli.warned import warnings_as_lines

app = typer.Typer(cls=LazyVerbs, pretty_exceptions_enable=False, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"tosaic {version('tosaic')}")
        raise typer.Exit


@app.callback()
def _frame(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run neural networks on the Tosaic NPU: golden, emulator, RTL, boards."""


def main() -> None:
    """Entry point: exit codes 0 ok, 1 user error, 2 usage, 3 mismatch, 4 device fault."""
    from tosaic.errors import Error

    if len(sys.argv) == 1:
        sys.argv.append("--help")
    # When Python ends, all is done and written, and its own handler is gone: an interrupt then would kill the process.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        # Not standalone: typer would spread a usage error over several lines.
        with warnings_as_lines():
            code = app(prog_name="tosaic", standalone_mode=False) or 0
        # Here, and not when Python exits, a reader who has gone away is noticed.
        sys.stdout.flush()
        sys.exit(code)
    except Error as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader (head, less) has seen enough; Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # What nobody expected: a full disk for temporary files, say.
        room = "; free some, or set TMPDIR to a directory with room" if error.errno == errno.ENOSPC else ""
        _fail(f"{error.filename or 'the operating system'}: {error.strerror or error}{room}", 1)
    except MemoryError:
        _fail("this machine has too little memory for the run; use a smaller model or a machine with more", 1)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except Exception as error:
        # Usage errors are click's, or those of the copy of click in newer typers.
        if not hasattr(error, "format_message"):
            raise
        _fail(_usage(error), 2)


def _fail(message: str, exit_code: int) -> NoReturn:
    if "--verbose" in sys.argv:
        traceback.print_exc()
    print(f"tosaic: error: {message}", file=sys.stderr)
    sys.exit(exit_code)


def _usage(error: Any) -> str:
    """What is wrong with the command line, in one line that says where its help is."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "tosaic"
    return f"{error.format_message().rstrip('.')}; see `{command} --help`"
