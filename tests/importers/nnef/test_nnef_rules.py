"""Every validity rule of NNEF 1.0.3: what must be refused is, by name, and what must be accepted is."""

import pathlib

import numpy as np
import pytest
from nnef_cases import CASES, QUANTIZATION, flat

from tosaic.compiler.importers.nnef.document import expand_document
from tosaic.compiler.importers.nnef.errors import NnefError
from tosaic.compiler.importers.nnef.model import load_model
from tosaic.compiler.importers.nnef.quantization_file import parse_quantization
from tosaic.compiler.importers.nnef.rules import RULES
from tosaic.compiler.importers.nnef.tensor_file import Algorithm, ItemEncoding, read_tensor, write_tensor

FLOAT32 = ItemEncoding(Algorithm.FLOAT, 32)


@pytest.mark.parametrize(("identifier", "text", "rule"), CASES, ids=[case[0] for case in CASES])
def test_document(identifier: str, text: str, rule: str | None) -> None:
    if rule is None:
        expand_document(text)
        return
    with pytest.raises(NnefError) as error:
        expand_document(text, "model/graph.nnef")
    assert error.value.rule == rule, error.value
    assert str(error.value).startswith(f"model/graph.nnef:{error.value.position.line}:")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("identifier", "text", "rule"), QUANTIZATION, ids=[case[0] for case in QUANTIZATION])
def test_quantization_file(identifier: str, text: str, rule: str | None) -> None:
    if rule is None:
        found = parse_quantization(text, {"x"})
        assert found["x"].parameters == {"min": -1.0, "max": 8.0, "bits": 8}
        return
    with pytest.raises(NnefError) as error:
        parse_quantization(text, {"x"})
    assert error.value.rule == rule, error.value


def header(**changes: bytes) -> bytes:
    """The file of a float32 tensor [2,3] with some bytes changed, by offset."""
    data = bytearray(write_tensor(np.ones((2, 3), np.float32), FLOAT32))
    for key, value in changes.items():
        at = int(key.removeprefix("at"))
        data[at : at + len(value)] = value
    return bytes(data)


def quantized(algorithm: Algorithm, low: float, high: float) -> bytes:
    data = bytearray(write_tensor(np.ones((4,), np.float32), ItemEncoding(algorithm, 8, False, 0.0, 2.0)))
    data[52:60] = np.array([low, high], "<f4").tobytes()
    return bytes(data)


FIVE_BITS = ItemEncoding(Algorithm.INTEGER, 5)
DATA = [
    ("V112", header(at0=b"\x4e\xee")),
    ("V112", b""),
    ("V113", header(at2=b"\x02")),
    ("V113", header(at3=b"\x01")),
    ("V114", header(at4=b"\x17")),
    ("V114", header() + b"\0"),
    ("V114", header()[:-1]),
    ("V114", header()[:100]),
    ("V114", header(at12=b"\xff\xff\xff\x7f")),
    ("V115", header(at8=b"\x09")),
    ("V116", header(at20=b"\x01")),
    ("V117", header(at44=b"\x08")),
    ("V117", header(at44=b"\x41", at48=b"\x01")),
    ("V117", header(at44=b"\x00", at48=b"\x01")),
    ("V119", header(at48=b"\x02")),
    ("V119", header(at48=b"\x01\x00\x01\x00")),
    ("V120", quantized(Algorithm.LINEAR, 2.0, -2.0)),
    ("V120", quantized(Algorithm.LINEAR, 0.0, np.inf)),
    ("V121", quantized(Algorithm.LOGARITHMIC, -1.0, 2.0)),
    ("V121", quantized(Algorithm.LOGARITHMIC, 0.0, 0.0)),
    ("V122", write_tensor(np.array([1, 2, 3]), FIVE_BITS)[:-1] + b"\x87"),
    ("V123", header(at127=b"\x01")),
    ("V054", header(at12=b"\x00")),
]


@pytest.mark.parametrize(("rule", "data"), DATA, ids=[case[0] for case in DATA])
def test_tensor_file(rule: str, data: bytes) -> None:
    with pytest.raises(NnefError) as error:
        read_tensor(data, "model/v.dat")
    assert error.value.rule == rule, error.value
    assert str(error.value).startswith("model/v.dat: ")


def test_v118_v119_codes_in_either_half() -> None:
    """The text has the vendor first, Khronos' tools the algorithm."""
    signed = ItemEncoding(Algorithm.INTEGER, 8, signed=True)
    data = bytearray(write_tensor(np.array([-3, 4], np.int8), signed))
    data[48:52] = data[50:52] + data[48:50]
    values, encoding = read_tensor(bytes(data), "v.dat")
    assert values.tolist() == [-3, 4] and values.dtype == np.int8 and encoding == signed


def model(folder: pathlib.Path, **files: bytes) -> pathlib.Path:
    text = flat("v = variable(shape = [1,4], label = 'a/v'); y = add(x, v);")
    (folder / "a").mkdir()
    (folder / "graph.nnef").write_text(text)
    (folder / "a" / "v.dat").write_bytes(write_tensor(np.ones((1, 4), np.float32), FLOAT32))
    for name, data in files.items():
        (folder / name.replace("__", "/").replace("_", ".")).write_bytes(data)
    return folder


def refused(path: pathlib.Path) -> NnefError:
    with pytest.raises(NnefError) as error:
        load_model(path)
    return error.value


def test_v109_graph_file(tmp_path: pathlib.Path) -> None:
    model(tmp_path)
    (tmp_path / "graph.nnef").rename(tmp_path / "model.nnef")
    assert refused(tmp_path).rule == "V109"
    assert refused(tmp_path / "model.nnef").rule == "V109"


def test_v110_data_of_every_variable(tmp_path: pathlib.Path) -> None:
    model(tmp_path)
    (tmp_path / "a" / "v.dat").unlink()
    error = refused(tmp_path)
    assert error.rule == "V110" and error.position.line == 5


def test_v111_other_versions_of_data(tmp_path: pathlib.Path) -> None:
    other = write_tensor(np.full((1, 4), 2.0, np.float32), FLOAT32)
    model(tmp_path, a__v_dat_q8=other)
    assert load_model(tmp_path).data["a/v"].values.tolist() == [[1.0] * 4]
    assert load_model(tmp_path, data_version="q8").data["a/v"].values.tolist() == [[2.0] * 4]


def test_v124_stored_extents(tmp_path: pathlib.Path) -> None:
    model(tmp_path, a__v_dat=write_tensor(np.ones((4,), np.float32), FLOAT32))
    error = refused(tmp_path)
    assert error.rule == "V124" and "[4]" in str(error) and "[1, 4]" in str(error)


def test_data_type_of_a_variable(tmp_path: pathlib.Path) -> None:
    model(tmp_path)
    (tmp_path / "graph.nnef").write_text(
        flat("v = variable<integer>(shape = [1,4], label = 'a/v'); y = relu(x);")
    )
    assert refused(tmp_path).rule == "data-type"


def test_every_numbered_rule_is_tested() -> None:
    """All 124 rules, those that only errors of documents name and those that features must pass."""
    tested = {case[0] for case in (*CASES, *QUANTIZATION)} | {rule for rule, _ in DATA}
    tested |= {"V109", "V110", "V111", "V118", "V119", "V124"}
    assert {f"V{number:03}" for number in range(1, 125)} - tested == set()
    assert {rule for rule in RULES if rule[0] == "V"} <= tested
