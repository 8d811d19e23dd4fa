"""How much memory decoding takes: a named error above 64 MiB and 8 times the input, unless more is allowed."""

import tracemalloc

import numpy as np
import pytest
from nnr_mutations import make_samples, run_mutations
from onnx import TensorProto, helper, numpy_helper
from test_nnr_cli import run

from tosaic import nnr
from tosaic.compiler.importers.nnr_tosa import carried_graph, encode_tosa
from tosaic.compiler.ir import DType, Graph, Tensor
from tosaic.nnr import NnrError, PayloadType, Settings, decode_tensor, encode_tensor, onnx_carriage
from tosaic.nnr.memory import default_limit_bytes
from tosaic.nnr.units import DataUnit, ModelParameterSet, StartUnit

# 24 M levels take 96 MB, and a few kB as a payload of zeros.
ZEROS = np.zeros((6000, 4000), np.int8)
ABOVE = "memory limit"


@pytest.fixture(scope="module")
def bomb() -> bytes:
    payload = encode_tensor(ZEROS)
    assert 64 * len(payload) < ZEROS.size
    return payload


def peak_bytes(work) -> int:
    tracemalloc.start()
    try:
        work()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def test_a_payload_of_many_zeros_is_refused_before_memory_is_taken(bomb) -> None:
    for kind in PayloadType:
        if kind is PayloadType.RAW_FLOAT32:
            continue

        def attempt(kind=kind) -> None:
            with pytest.raises(
                NnrError, match=r"payload of \d+ bytes holds 24000000 levels, which take 91 MiB; the "
            ):
                decode_tensor(bomb, ZEROS.shape, payload_type=kind, codebook=[0.0])

        assert peak_bytes(attempt) < 1 << 20
    assert not decode_tensor(bomb, ZEROS.shape, limit_bytes=100 << 20).any()
    assert peak_bytes(lambda: decode_tensor(bomb, ZEROS.shape, limit_bytes=100 << 20)) < 100 << 20


def test_values_are_made_where_the_levels_were() -> None:
    """A tensor takes four bytes per value while it is decoded, whatever its payload type."""
    count = 1 << 20
    levels = np.zeros(count, np.int8)
    floats = nnr.encode_float_tensor(levels, -9)
    entries = nnr.encode_codebook_tensor(levels)
    for payload, kind in ((encode_tensor(levels), "int32"), (floats, "float32"), (entries, "cb_float32")):
        peak = peak_bytes(
            lambda p=payload, k=kind: decode_tensor(p, (count,), payload_type=k, codebook=[1.5])
        )
        assert 4 * count <= peak < 4 * count + (4 << 20), kind


def test_tensors_together_are_bounded(bomb) -> None:
    """Each below the limit, all of them above it: in dictionaries, ONNX models and TOSA graphs."""
    part = np.zeros((1125, 4000), np.int8)
    payload = encode_tensor(part)
    names = ("a", "b", "c")
    unit = DataUnit(0, names, payload, part.shape)
    data = nnr.write_units([StartUnit(), ModelParameterSet(), unit])
    found = nnr.read_bitstream(data)
    assert not found.tensors[0].decode().any()
    with pytest.raises(
        NnrError, match="'a' of 4500000 values is above the memory limit: with what is decoded before"
    ):
        nnr.decode(data)
    assert list(nnr.decode(data, limit_bytes=256 << 20)) == list(names)
    initializers = [numpy_helper.from_array(part, name) for name in names]
    model = helper.make_model(helper.make_graph([], "g", [], [], initializers))
    coded = onnx_carriage.encode_onnx(model, Settings())

    def read() -> None:
        with pytest.raises(NnrError, match=ABOVE):
            onnx_carriage.decode_onnx(coded)

    assert peak_bytes(read) < default_limit_bytes(len(coded))
    assert onnx_carriage.carried_model(nnr.read_bitstream(coded, limit_bytes=256 << 20)) == model
    graph = Graph("main", [], [], {name: Tensor(name, part.shape, DType.INT8, part) for name in names}, [])
    with pytest.raises(NnrError, match=ABOVE):
        carried_graph(nnr.read_bitstream(encode_tosa(graph, Settings())))


def test_units_in_onnx_tensors_are_bounded_together() -> None:
    values = np.zeros((875, 4000), np.float32)
    initializers = [numpy_helper.from_array(values, name) for name in "ab"]
    model = helper.make_model(helper.make_graph([], "g", [], [], initializers))
    carried = onnx_carriage.carry(model, Settings("uniform"))
    with pytest.raises(NnrError, match=ABOVE):
        onnx_carriage.uncarry(carried)
    plain = onnx_carriage.uncarry(carried, limit_bytes=256 << 20)
    assert [tensor.data_type for tensor in plain.graph.initializer] == [TensorProto.FLOAT] * 2


def test_the_limit_on_the_command_line(tmp_path, monkeypatch, capsys, bomb) -> None:
    stream = tmp_path / "zeros.nnr"
    stream.write_bytes(
        nnr.write_units([StartUnit(), ModelParameterSet(), DataUnit(0, ("w",), bomb, ZEROS.shape)])
    )
    assert run(monkeypatch, "decode", stream, "-o", tmp_path / "w.npz") == 1
    assert "`tosaic nnr decode --memory-limit`, limit_bytes in Python, allows more" in capsys.readouterr().err
    assert run(monkeypatch, "inspect", stream) == 1
    assert run(monkeypatch, "inspect", stream, "--memory-limit", 400) == 0
    assert run(monkeypatch, "decode", stream, "-o", tmp_path / "w.npz", "--memory-limit", 400) == 0
    with np.load(tmp_path / "w.npz") as arrays:
        assert arrays["w"].shape == ZEROS.shape


def test_many_units_are_refused() -> None:
    with pytest.raises(NnrError, match="the NNR bitstream has more than 65536 units"):
        nnr.read_bitstream(nnr.write_units([StartUnit()]) * 65_537)


def test_mutations_stay_within_the_limit() -> None:
    tally = run_mutations(600, 3, make_samples(3), traced=True)
    assert tally.wrong == []
    assert tally.inputs == 600


def test_raw_floats_are_never_rounded() -> None:
    for values in (np.array([1e300]), np.array([0.1]), np.array([2**24 + 1]), np.array([1e-300])):
        with pytest.raises(
            NnrError, match=f"raw_float32 would round values of {values.dtype}; narrow them yourself"
        ):
            nnr.encode_raw_tensor(values)
    with pytest.raises(NnrError, match="holds numbers, not <U1"):
        nnr.encode_raw_tensor(np.array(["a"]))
    exact = np.array([0.5, -np.inf, np.nan, 2**24])
    assert nnr.encode_raw_tensor(exact) == exact.astype(np.float32).tobytes()


def test_payload_types_are_taken_as_they_are() -> None:
    levels = np.array([3, 0, -1])
    payload = nnr.encode_float_tensor(levels, 0)
    assert decode_tensor(payload, (3,), payload_type=PayloadType.FLOAT32).tolist() == [3.0, 0.0, -1.0]
    raw = nnr.encode_raw_tensor(levels)
    assert decode_tensor(raw, (3,), payload_type=PayloadType.RAW_FLOAT32).tolist() == [3.0, 0.0, -1.0]


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -1.0])
def test_the_weight_of_the_rate_is_a_number(weight: float) -> None:
    with pytest.raises(NnrError, match=f"the weight of the rate must not be negative, not {weight}"):
        nnr.quantize_dependent(np.ones(3), 0, rate_weight=weight)
