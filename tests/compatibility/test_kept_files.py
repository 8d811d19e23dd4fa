"""Files that 0.2 wrote open in this version with the same integers, or are refused by a message that names the way out
(docs/compatibility.md)."""

import json
import pathlib
import shutil
import sys
import zipfile
import zlib

import numpy as np
import pytest

import tosaic
from tosaic.cli import app
from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import ISA_HASH

FILES = pathlib.Path(__file__).parent / "files_0_2"
HEADER_AT = 12
"""Where a program file's header begins: behind eight bytes of magic and its length."""


@pytest.fixture
def tosaic_in_a_folder(monkeypatch, capsys, tmp_path):
    """Calls the command line in a folder with copies of the files."""
    folder = tmp_path / "files"
    shutil.copytree(FILES, folder)
    monkeypatch.chdir(folder)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["tosaic", *arguments])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return ended.value.code, *capsys.readouterr()

    return call


def header_of(data):
    """A program file's header, and what follows it up to the check sum."""
    end = HEADER_AT + int.from_bytes(data[8:HEADER_AT], "little")
    return json.loads(data[HEADER_AT:end]), data[end:-4]


def written(magic, header, image):
    text = json.dumps(header).encode()
    body = magic + len(text).to_bytes(4, "little") + text + image
    return body + zlib.crc32(body).to_bytes(4, "little")


def kept_run():
    """Inputs and outputs of the run that the bundle holds."""
    with zipfile.ZipFile(FILES / "digits_tiny.zip") as archive:
        places = json.loads(archive.read("bundle.json"))
        return [
            {name: np.load(archive.open(place)) for name, place in places[side].items()}
            for side in ("inputs", "outputs")
        ]


def test_a_program_opens_or_is_refused_by_name(tosaic_in_a_folder):
    header, _ = header_of((FILES / "digits_tiny.tsc").read_bytes())
    inputs, outputs = kept_run()
    np.save("image.npy", inputs["image"])
    code, out, error = tosaic_in_a_folder("run", "digits_tiny.tsc", "-i", "image=image.npy", "-o", "out")
    if (header["isa_hash"], header["config_hash"]) == (ISA_HASH, CONFIGS["nano"].hash):
        assert code == 0, error
        np.testing.assert_array_equal(np.load("out/scores.npy"), outputs["scores"])
    else:
        assert (code, out) == (1, "") and error.endswith("; compile the model again\n")


@pytest.mark.parametrize(
    ("field", "of"), [("isa_hash", "the instruction set"), ("config_hash", "the configurations")]
)
def test_a_program_of_another_machine_is_refused_by_name(field, of, tosaic_in_a_folder):
    path = pathlib.Path("digits_tiny.tsc")
    header, image = header_of(path.read_bytes())
    header |= {"isa_hash": ISA_HASH}
    path.write_bytes(written(path.read_bytes()[:8], header | {field: header[field] ^ 1}, image))
    code, out, error = tosaic_in_a_folder("run", "digits_tiny.tsc", "--random", "1")
    assert (code, out, error.count("\n")) == (1, "", 1)
    assert f"was compiled for another version of {of}" in error
    assert error.endswith("; compile the model again\n")
    # The advice works.
    assert (
        tosaic_in_a_folder("compile", "digits_tiny.tosa", "--config", "nano", "-o", "digits_tiny.tsc")[0] == 0
    )
    assert tosaic_in_a_folder("run", "digits_tiny.tsc", "--random", "1")[0] == 0


def test_a_bundle_makes_its_run_again(tosaic_in_a_folder):
    code, out, error = tosaic_in_a_folder("run", "digits_tiny.zip")
    assert code == 0, error
    assert "scores int8[1, 10]: 22 -12 -54 -29 -11 -33 -19 3 9 17\n" in out


def test_a_bundle_of_a_later_format_is_refused_by_name(tosaic_in_a_folder):
    with zipfile.ZipFile(FILES / "digits_tiny.zip") as old, zipfile.ZipFile("later.zip", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(
                name, data.replace(b'"format": 1', b'"format": 9') if name == "bundle.json" else data
            )
    said = "tosaic: error: later.zip: is a bundle of format 9, this version reads 1: update Tosaic\n"
    assert tosaic_in_a_folder("run", "later.zip") == (1, "", said)


def test_a_model_and_its_encodings():
    session = tosaic.Session(FILES / "digits_tiny.tosa", "golden")
    inputs, outputs = kept_run()
    np.testing.assert_array_equal(session.run(inputs)["scores"], outputs["scores"])
    kept = json.loads((FILES / "digits_tiny.quant.json").read_text())
    for port, said in (
        (session.inputs[0], kept["inputs"]["image"]),
        (session.outputs[0], kept["outputs"]["scores"]),
    ):
        assert (port.encoding.scale, port.encoding.zero_point) == (said["scale"], said["zero_point"])


def test_encodings_that_name_their_source(tosaic_in_a_folder):
    pytest.importorskip("onnxruntime")
    code, out, error = tosaic_in_a_folder("run", "net.tosa", "--random", "1", "--check-source")
    assert code == 0, error
    assert "net.onnx" in out


def shape_of(value):
    """A JSON value's keys and kinds; of a list those of its first element."""
    if isinstance(value, dict):
        return {name: shape_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape_of(each) for each in value[:1]]
    return "number" if isinstance(value, int | float) else type(value).__name__


def lost(old, new, place=""):
    """What `old` has and `new` has not, or has as another kind; measurements may differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            each
            for name in old
            for each in (
                lost(old[name], new[name], f"{place}/{name}") if name in new else [f"{place}/{name}"]
            )
        ]
    if isinstance(old, list) and isinstance(new, list) and old and new:
        return lost(old[0], new[0], f"{place}[]")
    return [] if old == new else [place]


def test_measurements_keep_their_names_and_kinds(tosaic_in_a_folder):
    old = json.loads((FILES / "stats.json").read_text())
    command = (
        "run",
        "digits_tiny.tosa",
        "--config",
        "nano",
        "--random",
        "1",
        "--check",
        "--stats",
        "new.json",
    )
    assert tosaic_in_a_folder(*command)[0] == 0
    new = json.loads(pathlib.Path("new.json").read_text())
    assert lost(shape_of(old), shape_of(new)) == []
    assert [layer["name"] for layer in new["layers"]] == [layer["name"] for layer in old["layers"]]
    assert lost(shape_of({"a": 1, "b": [{"c": "x"}]}), shape_of({"a": "1", "b": [{}]})) == ["/a", "/b[]/c"]


def test_public_names_stay():
    """A name goes only with a line in the changelog, one minor version after a warning: then it goes from this file."""
    assert [name for name in (FILES / "names.txt").read_text().split() if not hasattr(tosaic, name)] == []
