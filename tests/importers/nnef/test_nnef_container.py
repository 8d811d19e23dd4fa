"""Folders and tar archives of NNEF models."""

import io
import pathlib
import tarfile

import numpy as np
import pytest
from nnef_cases import flat

from tosaic.compiler.importers.nnef import container
from tosaic.compiler.importers.nnef.errors import NnefError
from tosaic.compiler.importers.nnef.model import NnefModel, load_model
from tosaic.compiler.importers.nnef.tensor_file import Algorithm, ItemEncoding, write_tensor

WEIGHTS = np.arange(4, dtype=np.float32).reshape(1, 4)
TEXT = flat(
    "v = variable(shape = [1,4], label = 'Layer/v'); w = variable(shape = [1,4], label = 'layer/V'); y = add(x, v);"
)
FILES = {
    "graph.nnef": TEXT.encode(),
    "graph.quant": b"'y': linear_quantize(min = 0.0, max = 1.0, bits = 8);",
    "Layer/v.dat": write_tensor(WEIGHTS, ItemEncoding(Algorithm.FLOAT, 32)),
    "vendor/anything.bin": b"\0" * 10,
}


def check(model: NnefModel) -> None:
    assert list(model.data) == ["layer/v"] and np.array_equal(model.data["layer/v"].values, WEIGHTS)
    assert model.quantization["y"].algorithm == "linear_quantize"
    assert len(model.graph.variables["layer/v"]) == 2


def archive(path: pathlib.Path, files: dict[str, bytes], mode: str = "w") -> pathlib.Path:
    with tarfile.open(path, mode) as out:  # type: ignore[call-overload]  # mode is a variable
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return path


def rule(path: pathlib.Path) -> str:
    with pytest.raises(NnefError) as error:
        load_model(path)
    return error.value.rule


def test_folder(tmp_path: pathlib.Path) -> None:
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    check(load_model(tmp_path))
    check(load_model(tmp_path / "graph.nnef"))


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_archive(tmp_path: pathlib.Path, mode: str) -> None:
    check(load_model(archive(tmp_path / "m.tgz", FILES, mode)))
    dotted = {f"./{name}": data for name, data in FILES.items()}
    check(load_model(archive(tmp_path / "dotted.tgz", dotted, mode)))


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "..\\evil", "C:/evil"])
def test_archives_that_lead_out_are_refused(tmp_path: pathlib.Path, name: str) -> None:
    assert rule(archive(tmp_path / "m.tar", {**FILES, name: b""})) == "container"


@pytest.mark.parametrize("label", ["../v", "a/../../v", "/v", "..\\\\v"])
def test_labels_that_lead_out_are_refused(tmp_path: pathlib.Path, label: str) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "v.dat").write_bytes(FILES["Layer/v.dat"])
    (tmp_path / "m" / "graph.nnef").write_text(
        flat(f"v = variable(shape = [1,4], label = '{label}'); y = add(x, v);")
    )
    assert rule(tmp_path / "m") == "container"


def test_links_that_lead_out_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m" / "Layer").mkdir(parents=True)
    (tmp_path / "v.dat").write_bytes(FILES["Layer/v.dat"])
    (tmp_path / "m" / "Layer" / "v.dat").symlink_to(tmp_path / "v.dat")
    (tmp_path / "m" / "graph.nnef").write_text(TEXT)
    assert rule(tmp_path / "m") == "container"


def test_links_in_archives_are_no_files(tmp_path: pathlib.Path) -> None:
    path = archive(tmp_path / "m.tar", {"graph.nnef": FILES["graph.nnef"]})
    with tarfile.open(path, "a") as out:
        link = tarfile.TarInfo("Layer/v.dat")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        out.addfile(link)
    assert rule(path) == "V110"


def test_archives_of_too_many_bytes_are_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "FILE_LIMIT_BYTES", 1 << 16)
    assert rule(archive(tmp_path / "m.tgz", {**FILES, "zeros": bytes(1 << 20)}, "w:gz")) == "limit"


def test_what_is_no_model(tmp_path: pathlib.Path) -> None:
    assert rule(tmp_path / "nothing") == "container"
    assert rule(tmp_path) == "V109"
    (tmp_path / "text.txt").write_text(TEXT)
    assert rule(tmp_path / "text.txt") == "V109"
    (tmp_path / "graph.nnef").write_bytes(b"version 1.0;\xff")
    assert rule(tmp_path) == "characters"
    whole = archive(tmp_path / "m.tgz", FILES, "w:gz").read_bytes()
    for length in range(20, len(whole), 37):
        (tmp_path / "cut.tgz").write_bytes(whole[:length])
        try:
            check(load_model(tmp_path / "cut.tgz"))  # Only the end mark of the archive is missing.
            assert length > len(whole) - 40
        except NnefError as error:
            assert error.rule in ("container", "V109", "V110")
