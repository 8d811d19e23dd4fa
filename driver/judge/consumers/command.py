"""`cmd:PROGRAM`: anybody's own program. docs/judge.md has the protocol."""

import hashlib
import pathlib
import shlex
import shutil

from tosaic.errors import InputError

from ..case import TOSA, JudgeCase
from ..outcome import Crash
from .consumer import Outputs, consumer, placed, scratch
from .programs import REFUSES, run_program


@consumer("cmd")
class UserProgram:
    """A program with its words; the folder of the case becomes its last one."""

    form = TOSA

    def __init__(self, text: str):
        self.name = f"cmd:{text}"
        try:
            first, *rest = shlex.split(text)
        except ValueError:
            raise InputError(
                f"{self.name}: names no program: write cmd:PROGRAM, or 'cmd:PROGRAM OPTIONS'"
            ) from None
        found = shutil.which(first)
        if found is None:
            raise InputError(
                f"{self.name}: there is no program {first!r}, or it may not be executed (chmod +x)"
            )
        self._words = [_whole(found), *(_whole(word) for word in rest)]

    def version(self) -> str:
        """A digest of the program and of files among its words: another program has other records."""
        digest = hashlib.sha256()
        for word in self._words:
            digest.update(pathlib.Path(word).read_bytes() if pathlib.Path(word).is_file() else word.encode())
        return f"{pathlib.Path(self._words[0]).name} ({digest.hexdigest()[:8]})"

    def run(self, case: JudgeCase, limit_seconds: float) -> Outputs:
        with scratch() as folder:
            place = placed(case, folder)
            run_program([*self._words, folder], place, limit_seconds, refuses=(REFUSES,))
            try:
                return case.outputs_in(place)
            except (OSError, ValueError) as error:
                raise Crash(
                    f"ended with exit code 0, but an output cannot be read: {error}".replace(f"{folder}/", "")
                ) from None


def _whole(word: str) -> str:
    """The word; a file's from the root: the program runs in the case's folder."""
    path = pathlib.Path(word)
    return str(path.resolve()) if path.is_file() else word
