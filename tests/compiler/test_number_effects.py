"""`bench/number_effects.py` compiles with other numbers than those of `compiler/machine_numbers.py`."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / "bench/number_effects.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_another_number_makes_other_programs():
    done = run("--rows", "pool", "POOL_START_CYCLES", "RESIDENCY_SHARES")
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head == "7 rows; changed, not compiled, cycles in per mille, least and most of a row"
    fields = [line.split() for line in lines]
    assert [each[:2] for each in fields] == [
        ["POOL_START_CYCLES", "half"],
        ["POOL_START_CYCLES", "twice"],
        ["RESIDENCY_SHARES", "others"],
        ["RESIDENCY_SHARES", "rest"],
    ]
    assert any(int(changed) for _, _, changed, *_ in fields)
    for _, _, changed, lost, mille, *rows in fields:
        assert int(changed) or (float(mille) == 0 and (not rows or int(lost)))


def test_names_that_do_not_exist_are_refused():
    for arguments, message in (
        (("NO_NUMBER",), "no such number: NO_NUMBER"),
        (("--rows", "pool,nothing"), "no such rows: nothing"),
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1] == f"number_effects.py: error: {message}"
