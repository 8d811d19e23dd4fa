"""Weights without their network, and back into the model that a receiver has."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from test_nnr_cli import run
from test_nnr_quality import DENSE, FILTER, IMAGES, network, sqnr_decibels
from test_nnr_real_files import branching

from tosaic.nnr import NnrError, Settings, onnx_carriage, read_bitstream
from tosaic.nnr.onnx_calibration import CodingTarget, encode_for_quality
from tosaic.nnr.onnx_tensors import model_tensors
from tosaic.nnr.onnx_weights import encode_weights, with_weights


def values(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {name: numpy_helper.to_array(tensor) for name, tensor in model_tensors(model).items()}


def test_weights_go_without_the_network_and_into_it_again() -> None:
    model = branching()
    found = read_bitstream(encode_weights(model, Settings()))
    assert found.topology is None
    # The shape of a Reshape, of 64 bits, is the network's.
    assert [tensor.name for tensor in found.tensors] == ["filter", "w", "w#2", "s"]
    emptied = onnx.ModelProto.FromString(model.SerializeToString())
    for name in ("filter", "w", "w#2", "s"):
        tensor = model_tensors(emptied)[name]
        tensor.CopyFrom(numpy_helper.from_array(np.zeros((4, 4), np.float32), tensor.name))
    filled = values(with_weights(emptied, found))
    for name, wanted in values(model).items():
        assert np.array_equal(filled[name], wanted)
    assert not values(emptied)["filter"].any()


def test_types_are_the_models_own() -> None:
    model = network()
    half = numpy_helper.from_array(DENSE.astype(np.float16), "dense")
    model_tensors(model)["dense"].CopyFrom(half)
    back = values(with_weights(model, read_bitstream(encode_weights(model, Settings()))))
    assert back["dense"].dtype == np.float16
    assert np.array_equal(back["dense"], DENSE.astype(np.float16))


def test_a_quality_without_the_network() -> None:
    asked = CodingTarget(sqnr_decibels=40.0)
    whole = encode_for_quality(network(), {"image": IMAGES}, asked)
    alone = encode_for_quality(network(), {"image": IMAGES}, asked, weights_only=True)
    assert len(alone.data) < len(whole.data)
    assert alone.output_decibels == whole.output_decibels
    found = read_bitstream(alone.data)
    # The product of the scaled filter and its scales is the filter again.
    assert {"filter/scaled", "filter/channel_scales"} <= {tensor.name for tensor in found.tensors}
    filled = with_weights(network(), found)
    assert set(model_tensors(filled)) == {"filter", "gain", "dense"}
    assert 40.0 <= sqnr_decibels(filled) < 48.0


def test_weights_of_another_model_are_refused() -> None:
    found = read_bitstream(encode_weights(network(), Settings()))
    with pytest.raises(NnrError, match="'gain' is none of the ONNX model's: the weights are of another one"):
        with_weights(branching(), found)
    other = network()
    model_tensors(other)["filter"].CopyFrom(numpy_helper.from_array(FILTER[:4], "filter"))
    with pytest.raises(NnrError, match="'filter' has shape"):
        with_weights(other, found)


def test_on_the_command_line(tmp_path: pathlib.Path, monkeypatch, capsys) -> None:
    model, stream, output = tmp_path / "m.onnx", tmp_path / "m.nnr", tmp_path / "back.onnx"
    onnx.save(network(), model)
    assert run(monkeypatch, "encode", model, "-o", stream, "--weights-only") == 0
    assert stream.read_bytes() == encode_weights(network(), Settings())
    assert run(monkeypatch, "decode", stream, "-o", output, "--onto", model) == 0
    assert all(
        np.array_equal(each, values(network())[name]) for name, each in values(onnx.load(output)).items()
    )
    samples = tmp_path / "x.npz"
    np.savez(samples, image=IMAGES)
    asked = ("encode", model, "-o", stream, "--weights-only", "--calib", samples, "--target-sqnr", 30)
    assert run(monkeypatch, *asked) == 0
    assert run(monkeypatch, "decode", stream, "-o", output, "--onto", model) == 0
    assert sqnr_decibels(onnx_carriage.load(output)) >= 30
    capsys.readouterr()
    for arguments, message in (
        (("encode", model, "-o", tmp_path / "o.onnx", "--weights-only"), "out of a .nnr file"),
        (("encode", model, "-o", stream, "--weights-only", "--low-rank", 0.9), "goes without --low-rank"),
        (("decode", stream, "-o", tmp_path / "o.npz", "--onto", model), "name that, and an .onnx file to"),
    ):
        assert run(monkeypatch, *arguments) == 1
        assert message in capsys.readouterr().err
