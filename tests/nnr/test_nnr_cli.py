"""`tosaic nnr encode`, `decode`, `inspect`: through the entry point, with its exit codes."""

import os
import pathlib
import zlib

import numpy as np
import pytest

from tosaic.cli import app
from tosaic.nnr import read_bitstream, write_units
from tosaic.nnr.units import DataUnit, StartUnit

SHARED = pathlib.Path(os.environ.get("TOSAIC_SHARED", pathlib.Path(__file__).parents[3] / "shared"))
MODELS = sorted(SHARED.glob("models/*/model.tosa"))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["tosaic", "nnr", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        app.main()
    return int(stop.value.code or 0)


def test_npz_round_trip(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    weights = {
        "a": np.arange(-50, 50, dtype=np.int8).reshape(4, 25),
        "f": np.linspace(-1, 1, 9, dtype=np.float32),
    }
    np.savez(tmp_path / "w.npz", **weights)
    assert (
        run(monkeypatch, "encode", tmp_path / "w.npz", "-o", tmp_path / "w.nnr", "--cabac-unary-length", 1)
        == 0
    )
    assert "2 tensors" in capsys.readouterr().out
    assert run(monkeypatch, "inspect", tmp_path / "w.nnr") == 0
    listed = capsys.readouterr().out
    assert "NNR_NDU" in listed
    assert "a [4, 25]" in listed
    assert run(monkeypatch, "decode", tmp_path / "w.nnr", "-o", tmp_path / "v.npz") == 0
    with np.load(tmp_path / "v.npz") as found:
        assert np.array_equal(found["a"], weights["a"])
        assert np.array_equal(found["f"], weights["f"])


def test_errors_are_one_line(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    np.savez(tmp_path / "w.npz", a=np.zeros(3, np.int8))
    (tmp_path / "bad.nnr").write_bytes(b"abc")
    (tmp_path / "cut.nnr").write_bytes(write_units([StartUnit(), DataUnit(0, ("w",), b"\x01", (9,))]))
    for arguments, message in (
        (("encode", tmp_path / "w.txt", "-o", tmp_path / "x.nnr"), "not a .onnx, .tosa or .npz file"),
        (
            ("encode", tmp_path / "w.npz", "-o", tmp_path / "x.nnr", "--method", "best"),
            "is not one of lossless",
        ),
        (("encode", tmp_path / "no.npz", "-o", tmp_path / "x.nnr"), "cannot read"),
        (("inspect", tmp_path / "bad.nnr"), "NNR unit at byte 0"),
        (("inspect", tmp_path / "cut.nnr"), "1 of 1 tensors: NNR tensor 'w'"),
        (("inspect", tmp_path / "no.nnr"), "cannot read"),
        (("decode", tmp_path / "cut.nnr", "-o", tmp_path / "folder"), "carries no NNEF topology"),
    ):
        assert run(monkeypatch, *arguments) == 1
        errors = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
        assert len(errors) == 1
        assert message in errors[0]


@pytest.mark.parametrize("model", MODELS[:2], ids=lambda path: path.parent.name)
def test_shared_models(model: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The constants of a real network come back exactly, in no more bytes than zlib needs and a tenth."""
    from tosaic.compiler.ir.tosa_file import read_tosa

    assert run(monkeypatch, "encode", model, "-o", tmp_path / "m.nnr", "--cabac-unary-length", 1) == 0
    graph = read_tosa(model)
    raw, coded = b"", 0
    for tensor in read_bitstream((tmp_path / "m.nnr").read_bytes()).tensors:
        expected = graph.tensors[tensor.name].data
        assert expected is not None
        assert np.array_equal(tensor.decode(), expected)
        raw += expected.tobytes()
        coded += len(tensor.unit.payload)
    assert coded < 1.1 * len(zlib.compress(raw, 9))
