"""The exceptions users meet; everything Tosaic raises on purpose derives from `Error`."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator


class Error(Exception):
    """Base of every error that Tosaic raises on purpose.

    The message is one line: line breaks and other unprintable characters, of names in a file, are escaped.
    """

    exit_code = 1

    def __init__(self, message: str = ""):
        escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
        super().__init__("".join(escaped))


class ModelError(Error):
    """The graph or its file is illegal: a malformed file, or one of TOSA's ERROR_IF conditions."""


class ModelWarning(UserWarning):
    """A model's file breaks a rule of its format in a way that leaves its meaning clear."""


class UnsupportedError(Error):
    """The graph is legal, but this accelerator (or this version of Tosaic) does not run it."""


class TraceError(UnsupportedError):
    """A NumPy function cannot become a graph: the message begins with its file and line, and ends with a way out."""


class InputError(Error):
    """A run was given wrong inputs: a missing name, a wrong shape or a wrong dtype."""


class UnpredictableError(Error):
    """The inputs break one of TOSA's REQUIRE conditions: the specification leaves the outputs open."""


class UnsafeProgramError(Error):
    """A program may do wrong on some path or with some timing: `tosaic verify` names the instruction."""


class MismatchError(Error):
    """Two targets computed different integers for the same tensor."""

    exit_code = 3


@dataclasses.dataclass(frozen=True)
class MachineFault:
    """Why a machine stopped: the names of its isa.Error and isa.Unit, and the byte offset in the program of the
    instruction at fault. The emulator's code is PROGRAM where a program only runs, if at all, when its units run side
    by side."""

    code: str
    unit: str
    program_counter: int
    core: int = 0


class DeviceError(Error):
    """The accelerator stopped with a fault or did not finish in time. `tensor_number`: of the compressed weights that
    are damaged, in the program's list. `fault`: None if the machine named none."""

    def __init__(self, message: str, *, tensor_number: int | None = None, fault: MachineFault | None = None):
        super().__init__(message)
        self.tensor_number = tensor_number
        self.fault = fault

    exit_code = 4


@contextlib.contextmanager
def reading(source: object, way_out: str, kind: type[Error] = ModelError) -> Iterator[None]:
    """Around what reads a file: the last resort turns whatever is raised there into one line that names the file.

    Errors on purpose, and those of the operating system, pass. Work on what has been read belongs outside.
    """
    try:
        yield
    except (Error, OSError, MemoryError):
        raise
    except Exception as error:
        raise kind(f"{source}: cannot be read ({in_words(error)}); it is damaged: {way_out}") from error


def in_words(error: BaseException) -> str:
    """The type of a package's exception and the first line that it says, without places and addresses of its code."""
    line = next((each for each in str(error).splitlines() if each.strip()), "")
    said = " ".join(_PLACES.sub("", line).split())[:200]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


_PLACES = re.compile(
    r"\[enforce fail at [^\]]*\] ?\. ?|:? ?<[^<>]* at 0x[0-9a-f]+>|\s*\(?0x[0-9a-f]{8,}.*|Exception raised from.*"
    r"|\S+\.(cc|cpp|h):\d+\S*"
)
