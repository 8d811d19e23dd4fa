"""Waveforms of runs on the RTL, read back by another reader of VCD and FST: layers, marks and events are those of the
run."""

import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import pywellen

import tosaic
from tosaic.errors import Error
from tosaic.hw.csr_map import EVENT_COUNTERS

DIGITS = pathlib.Path(tosaic.__path__[0]) / "examples/digits/digits_tiny.tosa"
CYCLE_TICKS = 10
FOLLOW_CYCLES = 4
"""Largest number of cycles from a unit's taking an instruction to its name in the waveform."""

pytestmark = pytest.mark.nightly


def has_fst() -> bool:
    """Whether the compiler finds the headers that FST needs."""
    return all(
        subprocess.run(
            [shutil.which("c++") or "c++", "-fsyntax-only", "-include", header, "-x", "c++", "/dev/null"],
            capture_output=True,
            check=False,
        ).returncode
        == 0
        for header in ("lz4.h", "zlib.h")
    )


def image() -> np.ndarray:
    return np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)


def recorded(wave: object) -> tuple[tosaic.Session, dict[str, list[tuple[int, object]]]]:
    """A session after a run that wrote `wave`, and of each signal in `network` its changes: (cycle, value)."""
    session = tosaic.Session(DIGITS, "sim", "nano", wave=wave)
    session.run({session.inputs[0].name: image()}, check=True)
    path = wave.path if isinstance(wave, tosaic.Wave) else wave
    changes = {}
    for variable in pywellen.Waveform(str(path)).all_vars():
        scope, _, name = variable.full_name.rpartition(".")
        if scope == "network":
            names = dict(variable.enum_type[1]) if variable.enum_type else {}
            changes[name] = [
                (time / CYCLE_TICKS, names.get(f"{value:016b}", value) if names else value)
                for time, value in variable.tv
            ]
    return session, changes


def cycles_high(changes: list[tuple[int, object]]) -> int:
    """Cycles in which a signal of one bit, low at the end, is high."""
    ends = [cycle for cycle, _ in changes[1:]]
    return sum(int(end - start) for (start, value), end in zip(changes, ends, strict=False) if int(value))


@pytest.mark.parametrize("suffix", [".vcd", ".fst"])
def test_a_waveform_tells_what_the_machine_counted(suffix: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"digits{suffix}"
    if suffix == ".fst" and not has_fst():
        with pytest.raises(Error, match=r"FST need the headers lz4\.h and zlib\.h .*\.vcd needs nothing"):
            recorded(path)
        return
    session, changes = recorded(path)
    result, names = session.result, [layer.name for layer in session.program.layers]
    assert result is not None
    # The sums of the events are what the machine's counters say.
    assert {name: cycles_high(changes[name]) for name in EVENT_COUNTERS} == result.counters
    # Layers end where the machine's marks are.
    ended = [(name, cycle) for cycle, name in changes["ended_layer"] if name != "-"]
    assert ended == [(names[number], cycle) for number, cycle in result.marks]
    assert [name for _, name in changes["VECTOR_layer"] if name != "-"] == [
        names[number] for number, _ in result.marks
    ]
    assert {name for _, name in changes["ARRAY_state"]} >= {"idle", "multiplies", "waits_for_semaphore"}


def test_a_window_has_its_cycles_only(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "window.vcd"
    recorded(tosaic.Wave(path, 400, 410))
    times = [
        int(line[1:]) for line in path.read_text().splitlines() if line.startswith("#") and line[1:].isdigit()
    ]
    assert (min(times), max(times)) == (400 * CYCLE_TICKS, 410 * CYCLE_TICKS - CYCLE_TICKS // 2)


def test_a_layer_has_the_cycles_in_which_a_unit_works_on_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "layer.vcd"
    session, changes = recorded(
        tosaic.Wave(path, layer=tosaic.Session(DIGITS, "sim", "nano").program.layers[1].name)
    )
    name = session.program.layers[1].name
    whole = recorded(tmp_path / "whole.vcd")[1]
    ends = dict(session.result.marks)
    vector = [cycle for cycle, shown in changes["VECTOR_layer"] if shown == name]
    assert vector == [cycle for cycle, shown in whole["VECTOR_layer"] if shown == name]
    assert path.stat().st_size < (tmp_path / "whole.vcd").stat().st_size
    assert ends[0] < max(cycle for cycle, _ in changes["VECTOR_state"]) <= ends[1] + FOLLOW_CYCLES


def test_a_run_without_the_cycles_leaves_no_file_of_an_earlier_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "late.vcd"
    path.write_text("an earlier run's")
    session = tosaic.Session(DIGITS, "sim", "nano", wave=tosaic.Wave(path, 1_000_000))
    session.run({session.inputs[0].name: image()})
    assert not path.exists()
