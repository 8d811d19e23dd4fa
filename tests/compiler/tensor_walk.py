"""The files that a tensor visits from `tosaic run` to the first command, found by tracing a real run.

A file is visited when it is on the call stack as the tensor passes one of the DOORS: the functions by which a stage is
entered. What a door's file calls for help, and where the values that it returns are defined, is not on the way.
`python tests/compiler/tensor_walk.py [MODEL]` prints the files in the order of their first visit. Behind each: how many
other files enter it until the program is there, and how many of its functions they call. Then the helpers that most
files enter, and how many files run any function before the first command.
"""

import collections
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

    def __init__(self, model: pathlib.Path) -> None:
        self.model = model
        self.visited: list[str] = []
        self.running: list[str] = []
        """Files whose functions run before the first command."""
        self.enters: dict[str, set[str]] = collections.defaultdict(set)
        """The other files that call functions of a file, until the program is there."""
        self.doors: dict[str, set[str]] = collections.defaultdict(set)
        """The functions that they call."""
        self._names: dict[str, str | None] = {}
        self._passed: set[str] = set()

    def run(self) -> None:
        """Runs the model on the emulator."""
        # Imported first, so that running the modules' own code is not taken for a visit.
        import tosaic.cli.run
        import tosaic.sim.emulator.machine
        from tosaic.cli import app

        assert tosaic.cli.run and tosaic.sim.emulator.machine
        arguments, sys.argv = (
            sys.argv,
            ["tosaic", "run", str(self.model), "--random", "1", "--on", "emulator"],
        )
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
        code = frame.f_code
        name = self._file(code.co_filename)
        if event == "return" and code.co_qualname == "compile_graph":
            sys.setprofile(None)
        if event != "call" or name is None or code.co_name == "<module>":
            return
        caller = self._caller(frame)
        if caller != name:
            self.enters[name].add(caller)
            self.doors[name].add(code.co_qualname)
        if "command" in self._passed:
            return
        if name not in self.running:
            self.running.append(name)
        if code.co_qualname in DOORS and code.co_qualname not in self._passed:
            self._passed.add(code.co_qualname)
            stack, above = [], frame
            while above is not None:
                stack.append(self._file(above.f_code.co_filename))
                above = above.f_back
            new = [found for found in reversed(stack) if found is not None and found not in self.visited]
            self.visited += dict.fromkeys(new)

    def _caller(self, frame: FrameType) -> str:
        """The file that calls, through libraries or not; the shell if there is none."""
        above = frame.f_back
        while above is not None:
            found = self._file(above.f_code.co_filename)
            if found is not None:
                return found
            above = above.f_back
        return "the shell"

    def _file(self, path: str) -> str | None:
        """The file's path in the repository; None for libraries and for this file."""
        if path not in self._names:
            file = pathlib.Path(path).resolve()
            ours = path != __file__ and file.is_relative_to(ROOT) and ".venv" not in file.parts
            self._names[path] = str(file.relative_to(ROOT)) if ours and file.is_file() else None
        return self._names[path]


def main() -> None:
    walk = Walk(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else MODEL)
    walk.run()
    for name in walk.visited:
        print(f"{name} {len(walk.enters[name])} {len(walk.doors[name])}")
    most = sorted(walk.enters.keys() - set(walk.visited), key=lambda name: -len(walk.enters[name]))
    print("helpers:", *(f"{name} {len(walk.enters[name])}" for name in most[:5]))
    print(f"{len(walk.visited)} files on the way; functions of {len(walk.running)} files run")


if __name__ == "__main__":
    main()
