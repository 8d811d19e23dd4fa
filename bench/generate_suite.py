"""TOSA's own generator of conformance tests, without starting Python for each of its hundreds of batches.

`python bench/generate_suite.py OPTIONS` takes the options of `tosa_verif_conformance_generator` and writes the same
files: its builder of tests runs in a fork of this process, which has imported what takes half a second.
"""

import os
import sys
import tempfile
import traceback

import conformance.tosa_verif_conformance_generator as generator
from generator import tosa_verif_build_tests as builder

BUILDER = "tosa_verif_build_tests"


def run_forked(folder: os.PathLike[str], command: list[str]) -> tuple[list[str], int, str, str]:
    """The generator's way to run a command in a folder: the command, its exit code and what it wrote."""
    if command[0] != BUILDER:
        return RUN_STARTED(folder, command)
    with tempfile.TemporaryFile() as written, tempfile.TemporaryFile() as said:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os.dup2(written.fileno(), 1)
            os.dup2(said.fileno(), 2)
            os._exit(_build(folder, command[1:]))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (written, said):
            file.seek(0)
            texts.append(file.read().decode())
    return command, code, *texts


def _build(folder: os.PathLike[str], options: list[str]) -> int:
    """The builder's exit code; what it raises is its standard error's, as in a process of its own."""
    os.chdir(folder)
    try:
        return int(builder.main(options) or 0)
    except SystemExit as stop:
        return int(stop.code or 0)
    except Exception:  # noqa: BLE001 (the generator reads it as text)
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


RUN_STARTED = generator._run_sh_command_mp

if __name__ == "__main__":
    generator._run_sh_command_mp = run_forked
    sys.exit(generator.main())
