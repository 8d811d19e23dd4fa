"""Damaged files of every format that a command reads: each ends in a result, or in one line and an exit code.

A command runs in a fork of this process, in a folder of its own, with limits of memory and of the processor's time. A
traceback, a signal, a second line, too much memory or time, and a file outside its folder's are wrong.
"""

import contextlib
import dataclasses
import functools
import io
import json
import os
import pathlib
import random
import re
import resource
import signal
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from damages import Damage, bits, cut, json_header, leaves, members, npy_header, tokens, words
from failed_case import Case
from fuzz_runner import Tally, judged

from tosaic.cli import app
from tosaic.errors import Error

_HERE = pathlib.Path(__file__).resolve().parent
_TESTS = _HERE.parent
FOLDERS = tuple(
    str(place)
    for place in (
        _HERE,
        _TESTS / "ir",
        _TESTS / "importers",
        _TESTS / "importers" / "coreml",
        _TESTS / "importers" / "nnef",
    )
)
sys.path += [folder for folder in FOLDERS if folder not in sys.path]
DIGITS = _TESTS.parent / "examples" / "digits"
MEMORY_BYTES = 2 << 30
"""Bytes of address space that a case may take beyond those of this process."""
SECONDS = 30
"""Processor time that a case may take, in seconds."""
WALL_SECONDS = 300
"""Time that a case may take on a computer that is busy with others, in seconds."""

GENERAL: tuple[Damage, ...] = (bits, cut, words)


def _tosa() -> list[bytes]:
    from one_operator_graphs import GRAPHS

    from tosaic.compiler.ir import write_tosa
    from tosaic.errors import UnsupportedError

    found = [(DIGITS / "digits_tiny.tosa").read_bytes()]
    for make in GRAPHS.values():
        found.append(write_tosa(make()))
        with contextlib.suppress(UnsupportedError):
            found.append(write_tosa(make(), version=(0, 30)))
    return found


def _onnx() -> list[bytes]:
    import onnx_mutations

    return [data for _, data in onnx_mutations.seeds(40, 5)]


def _onnx_fields(data: bytes, chance: random.Random) -> bytes:
    import onnx_mutations

    return onnx_mutations.mutated(data, chance)


def _coreml() -> list[bytes]:
    import coreml_mutations

    return coreml_mutations.samples()


def _coreml_fields(data: bytes, chance: random.Random) -> bytes:
    import coreml_mutations

    return coreml_mutations.mutated(data, chance)


def _tflite() -> list[bytes]:
    import tflite_models

    return [tflite_models.dense_model(), tflite_models.streaming_model(), tflite_models.tiled_model([2, 3])]


def _nnef() -> list[bytes]:
    import nnef_mutations

    return [nnef_mutations.packed(files, "w") for files in nnef_mutations.make_samples()]


def _nnef_members(data: bytes, chance: random.Random) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        held = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    name = chance.choice(list(held))
    held[name] = chance.choice((tokens,) if name.startswith("graph.") else GENERAL)(held[name], chance)
    import nnef_mutations

    return nnef_mutations.packed(held, "w")


def _nnef_text() -> list[bytes]:
    import nnef_mutations

    return [files["graph.nnef"] for files in nnef_mutations.make_samples() if len(files) == 1]


def _made(*commands: Sequence[str]) -> bytes:
    """What a command writes to the file `made`; a module of its own makes what torch has to."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "m.tosa").write_bytes((DIGITS / "digits_tiny.tosa").read_bytes())
        for command in commands:
            code, said = in_fork(folder, lambda command=command: _command(command), float("inf"))
            assert code == 0, said
        return next(pathlib.Path(folder).glob("made*")).read_bytes()


def _command(arguments: Sequence[str]) -> None:
    sys.argv = ["tosaic", *arguments]
    app.main()


def _pt2() -> list[bytes]:
    def export() -> None:
        import torch

        torch.manual_seed(0)
        layers = torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3)
        torch.export.save(
            torch.export.export(torch.nn.Sequential(*layers), (torch.zeros(1, 1, 4, 4),)), "made.pt2"
        )

    with tempfile.TemporaryDirectory() as folder:
        code, said = in_fork(folder, export, float("inf"))
        assert code == 0, said
        return [(pathlib.Path(folder) / "made.pt2").read_bytes()]


def _state_dict() -> list[bytes]:
    import torch

    buffer = io.BytesIO()
    torch.save({"a": torch.ones(3, 4), "b": torch.arange(5)}, buffer)
    return [buffer.getvalue()]


def _npy() -> list[bytes]:
    out = io.BytesIO()
    np.save(out, np.zeros((1, 8, 8, 1), np.int8))
    return [out.getvalue()]


def _npz() -> list[bytes]:
    found = []
    for save in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        save(out, image=np.zeros((4, 8, 8, 1), np.int8), labels=np.arange(4))
        found.append(out.getvalue())
    return found


def _safetensors() -> list[bytes]:
    header = {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
        "__metadata__": {"format": "pt"},
    }
    text = json.dumps(header).encode()
    return [len(text).to_bytes(8, "little") + text + bytes(range(32))]


def _configuration() -> list[bytes]:
    return [b'# mine\nbase = "nano"\nrows = 4\nam_bytes = "64K"\n', b"rows = 16\ncolumns = 16 # wide\n"]


def _encodings() -> list[bytes]:
    sides = {"inputs": {"image": 0}, "outputs": {"scores": 1}}
    made = {
        side: {name: {"dtype": "int8", "scale": 0.5, "zero_point": 3} for name in names}
        for side, names in sides.items()
    }
    return [json.dumps(made).encode()]


@dataclasses.dataclass(frozen=True)
class Format:
    """A kind of file: how undamaged ones are made, what damages them, and the command that reads FILE."""

    suffix: str
    samples: Callable[[], list[bytes]]
    damages: tuple[Damage, ...]
    command: tuple[str, ...] = ("check", "FILE")


_ON = ("--on", "golden", "--random", "1")
FORMATS: dict[str, Format] = {
    "tosa": Format(".tosa", _tosa, GENERAL),
    "onnx": Format(".onnx", _onnx, (*GENERAL, _onnx_fields, _onnx_fields, _onnx_fields)),
    "tflite": Format(".tflite", _tflite, GENERAL),
    "pt2": Format(".pt2", _pt2, (*GENERAL, members, members, members)),
    "nnef": Format(".tar", _nnef, (*GENERAL, _nnef_members, _nnef_members)),
    "nnef-text": Format(".nnef", _nnef_text, (*GENERAL, tokens, tokens)),
    "mlmodel": Format(".mlmodel", _coreml, (*GENERAL, _coreml_fields, _coreml_fields)),
    "nnr": Format(
        ".nnr",
        lambda: [_made(("nnr", "encode", "m.tosa", "-o", "made.nnr"))],
        GENERAL,
        ("nnr", "decode", "FILE", "-o", "x.npz"),
    ),
    "tsc": Format(
        ".tsc",
        lambda: [_made(("compile", "m.tosa", "-o", "made.tsc", "--config", "nano"))],
        (*GENERAL, json_header(8, 4, True), json_header(8, 4, True)),
        ("run", "FILE", "--on", "emulator", "--random", "1"),
    ),
    "npy": Format(
        ".npy",
        _npy,
        (*GENERAL, npy_header, npy_header),
        ("run", "m.tosa", "--on", "golden", "-i", "image=FILE"),
    ),
    "npz": Format(".npz", _npz, (*GENERAL, members, members), ("nnr", "encode", "FILE", "-o", "x.nnr")),
    "npz-data": Format(".npz", _npz, (*GENERAL, members, members), ("evaluate", "m.tosa", "--data", "FILE")),
    "safetensors": Format(
        ".safetensors",
        _safetensors,
        (*GENERAL, json_header(0, 8, False)),
        ("nnr", "encode", "FILE", "-o", "x.nnr"),
    ),
    "pt": Format(".pt", _state_dict, (*GENERAL, members, members), ("nnr", "encode", "FILE", "-o", "x.nnr")),
    "toml": Format(
        ".toml",
        _configuration,
        (bits, cut, tokens, tokens),
        ("compile", "m.tosa", "-o", "x.tsc", "--config", "FILE"),
    ),
    "stats": Format(
        ".json",
        lambda: [
            _made(
                (
                    "run",
                    "m.tosa",
                    "--random",
                    "1",
                    "--on",
                    "emulator",
                    "--config",
                    "nano",
                    "--stats",
                    "made.json",
                )
            )
        ],
        (bits, cut, tokens, leaves, leaves),
        ("report", "FILE", "-o", "x.html"),
    ),
    "quant.json": Format(
        ".quant.json", _encodings, (bits, cut, tokens, leaves, leaves), ("run", "damaged.tosa", *_ON)
    ),
}


@functools.cache
def samples(name: str) -> list[bytes]:
    """Undamaged files of a format. Their command runs here once: what it imports and compiles is in the forks, too."""
    made = FORMATS[name].samples()
    arguments, said = sys.argv, io.StringIO()
    with _folder(name, made[0]) as (folder, command), contextlib.chdir(folder):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            with contextlib.suppress(SystemExit):
                _command(command)
    sys.argv = arguments
    assert "error" not in said.getvalue(), said.getvalue()
    return made


@contextlib.contextmanager
def _folder(name: str, data: bytes) -> Iterator[tuple[pathlib.Path, list[str]]]:
    """A folder with a model and the file, and the command that reads it there."""
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        for model in ("m.tosa", "damaged.tosa"):
            (folder / model).write_bytes((DIGITS / "digits_tiny.tosa").read_bytes())
        file = folder / ("graph.nnef" if name == "nnef-text" else f"damaged{FORMATS[name].suffix}")
        file.write_bytes(data)
        words_of = FORMATS[name].command
        yield (
            folder,
            [file.name if word == "FILE" else word.replace("=FILE", f"={file.name}") for word in words_of],
        )


def in_fork(
    folder: str | pathlib.Path, work: Callable[[], object], memory_bytes: float = MEMORY_BYTES
) -> tuple[int, str]:
    """The exit code of `work` in a fork of this process (negative: the signal that ended it), and its stderr."""
    with tempfile.TemporaryFile() as said:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os._exit(_child(folder, work, memory_bytes, said.fileno()))
        deadline = time.monotonic() + WALL_SECONDS
        done, status = 0, 0
        while not done:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.003)
            done, status = os.waitpid(child, os.WNOHANG)
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read().decode("utf-8", "replace")


def _child(folder: str | pathlib.Path, work: Callable[[], object], memory_bytes: float, said: int) -> int:
    """Runs in the fork and returns the exit code that the command would have."""
    try:
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        if memory_bytes < float("inf"):
            held = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + int(memory_bytes),) * 2)
            used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            resource.setrlimit(resource.RLIMIT_CPU, (int(used) + SECONDS, int(used) + SECONDS + 5))
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 99
    sys.stderr.flush()
    return code


def _attempt(name: str, data: bytes) -> None:
    """Error for a file that was refused as it should be; AssertionError for what is wrong."""
    with _folder(name, data) as (folder, command):
        before = {each.name for each in folder.iterdir()}
        code, said = in_fork(folder, lambda: _command(command))
        strange = {each.name for each in folder.iterdir()} - before - {"x.npz", "x.nnr", "x.html", "x.tsc"}
        assert not strange, f"it made {strange}"
    lines = [line for line in said.splitlines() if not line.startswith("tosaic: warning: ")]
    told = " / ".join(lines)[-400:]
    # 4: a program that is no model any more ends in a fault of the machine.
    assert code in (0, 1) or (code == 4 and name == "tsc"), f"exit code {code}: {told}"
    assert "too little memory" not in told, told
    assert len(lines) <= 1, f"{len(lines)} lines: {told}"
    if code == 0:
        assert not lines, told
        return
    # `check` tells what is wrong with a model that it could read on stdout.
    assert lines or command[0] == "check", "exit code 1 without a line"
    assert all(line.startswith("tosaic: error: ") for line in lines), told
    assert not re.search(r"0x[0-9a-f]{9,}|Traceback|\.cc:|\.cpp:|frame #", told), told
    raise Error(told or "refused")


def run_mutations(count: int, seed: int, names: Sequence[str] = tuple(FORMATS)) -> Tally:
    """`count` damaged files of the formats in turn."""
    chance, tally = random.Random(seed), Tally()
    for number in range(count):
        name = names[number % len(names)]
        original = chance.choice(samples(name))
        data = chance.choice(FORMATS[name].damages)(original, chance)
        before = len(tally.wrong)
        tally.attempt(name, f"{number}: {name}", functools.partial(_attempt, name, data))
        tally.note(before, Case("every_format:judge", FOLDERS, data, {"format": name}), original)
    return tally


def judge(data: bytes, settings: dict[str, Any]) -> str:
    """What is wrong with one damaged file."""
    return judged(functools.partial(_attempt, settings["format"], data))
