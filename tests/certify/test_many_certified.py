"""bench/certify_graphs.py: many graphs, and a run that goes on where another one was killed."""

import json
import pathlib
import subprocess
import sys

from tosaic.compiler.ir import DType, Graph, Operator, Tensor, write_tosa

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _write(path: pathlib.Path, pixels: int) -> None:
    tensors = {name: Tensor(name, (1, pixels), DType.INT8) for name in ("x", "y")}
    clamp = Operator("CLAMP", ["x"], ["y"], {"min_val": -1, "max_val": 9, "nan_mode": "PROPAGATE"})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tosa(Graph("clamped", ["x"], ["y"], tensors, [clamp]), path)


def _run(folder: pathlib.Path, records: pathlib.Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench" / "certify_graphs.py"), str(folder)]
    return subprocess.run([*command, "--records", str(records)], capture_output=True, text=True, check=False)


def test_a_killed_run_goes_on(tmp_path: pathlib.Path) -> None:
    """The smallest graph comes first; a line that was half written is no result, and its graph is done again."""
    _write(tmp_path / "graphs" / "large" / "test.tosa", 500)
    _write(tmp_path / "graphs" / "few.tosa", 5)
    records = tmp_path / "records.jsonl"
    done = _run(tmp_path / "graphs", records)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["2 graphs, 2 to certify", "base: EQUAL 2"]
    lines = records.read_text().splitlines()
    assert {json.loads(line)["graph"] for line in lines} == {"base large", "base few.tosa"}
    records.write_text(lines[0] + "\n" + lines[1][:30])
    again = _run(tmp_path / "graphs", records)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[:2] == ["2 graphs, 1 to certify", "base: EQUAL 2"]
    verdicts = [json.loads(line)["verdict"] for line in records.read_text().splitlines()]
    assert verdicts == ["EQUAL", "EQUAL"]
