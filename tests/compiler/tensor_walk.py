"""The files that a tensor visits from `tosaic run` to the first command, found by tracing a real run.

A file is visited when it is on the call stack as the tensor passes one of the DOORS: the functions by which a stage is
entered. What a door's file calls for help, and where the values that it returns are defined, is not on the way.
`python tests/compiler/tensor_walk.py` prints the files in the order of their first visit, and how many files run any
function at all.
"""

import io
import pathlib
import sys
from contextlib import redirect_stdout
from types import FrameType

ROOT = pathlib.Path(__file__).parents[2]
MODEL = ROOT / "examples" / "digits" / "digits_tiny.tosa"
DOORS = {
    "read_tosa": "a file becomes a graph",
    "legalize": "stage 1",
    "Fuser.layers": "stage 2",
    "Placer.place_output": "stage 3",
    "LayerPlanner.plan": "stage 4",
    "emit": "stage 5",
    "command": "the first command is made",
}
"""Comments on the functions of the walk, by qualified name. `command` comes last: at its first call the walk ends."""


class Walk:
    """What a run of the program visits; the run itself goes on."""

    def __init__(self) -> None:
        self.visited: list[str] = []
        self.entered: list[str] = []
        self._names: dict[str, str | None] = {}
        self._passed: set[str] = set()

    def run(self) -> None:
        """Runs the small digits network on the emulator."""
        # Imported first, so that running the modules' own code is not taken for a visit.
        import tosaic.cli.run
        import tosaic.sim.emulator.machine
        from tosaic.cli import app

        assert tosaic.cli.run and tosaic.sim.emulator.machine
        arguments, sys.argv = sys.argv, ["tosaic", "run", str(MODEL), "--random", "1", "--on", "emulator"]
        sys.setprofile(self._event)
        try:
            with redirect_stdout(io.StringIO()):
                app.main()
        except SystemExit as end:
            assert not end.code
        finally:
            sys.setprofile(None)
            sys.argv = arguments

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or "command" in self._passed:
            return
        code = frame.f_code
        name = self._file(code.co_filename)
        if name is None or code.co_name == "<module>":
            return
        if name not in self.entered:
            self.entered.append(name)
        if code.co_qualname in DOORS and code.co_qualname not in self._passed:
            self._passed.add(code.co_qualname)
            stack, above = [], frame
            while above is not None:
                stack.append(self._file(above.f_code.co_filename))
                above = above.f_back
            new = [found for found in reversed(stack) if found is not None and found not in self.visited]
            self.visited += dict.fromkeys(new)

    def _file(self, path: str) -> str | None:
        """The file's path in the repository; None for libraries and for this file."""
        if path not in self._names:
            file = pathlib.Path(path).resolve()
            ours = path != __file__ and file.is_relative_to(ROOT) and ".venv" not in file.parts
            self._names[path] = str(file.relative_to(ROOT)) if ours and file.is_file() else None
        return self._names[path]


if __name__ == "__main__":
    walk = Walk()
    walk.run()
    print("\n".join(walk.visited))
    print(f"{len(walk.visited)} files on the way; functions of {len(walk.entered)} files run")
