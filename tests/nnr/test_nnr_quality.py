"""Step sizes and scales chosen by what they do to a model's outputs."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from test_nnr_cli import run

from tosaic import nnr
from tosaic.nnr import NnrError, Settings, onnx_carriage, read_bitstream
from tosaic.nnr.onnx_calibration import Calibrated, CodingTarget, encode_for_quality
from tosaic.nnr.onnx_runs import OnnxRuns
from tosaic.nnr.onnx_scaling import channel_axes, power_of_two_scales, scale_channels
from tosaic.nnr.onnx_tensors import model_tensors
from tosaic.nnr.rate_distortion import choose, curve, exact_point, with_sensitivity

RNG = np.random.default_rng(40)
# Channels of very different sizes, as folded batch normalizations leave them.
SIZES = np.exp2(np.arange(-6, 2)).astype(np.float32)
FILTER = (RNG.normal(size=(8, 3, 3, 3)) * SIZES[:, None, None, None]).astype(np.float32)
DENSE = RNG.normal(size=(8, 5)).astype(np.float32)
IMAGES = RNG.normal(size=(4, 3, 6, 6)).astype(np.float32)


def network() -> onnx.ModelProto:
    """Convolution, normalization of each channel, mean, product: the filter in a Constant node."""
    nodes = [
        helper.make_node("Constant", [], ["filter"], value=numpy_helper.from_array(FILTER)),
        helper.make_node("Conv", ["image", "filter"], ["c"]),
        helper.make_node("Mul", ["c", "gain"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("ReduceMean", ["r"], ["m"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["m", "dense"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        [
            numpy_helper.from_array((1 / SIZES)[:, None, None], "gain"),
            numpy_helper.from_array(DENSE, "dense"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def sqnr_decibels(model: onnx.ModelProto) -> float:
    """Returns the signal-to-noise ratio in decibels, by another evaluator than the search's."""
    wanted, found = (ReferenceEvaluator(each).run(None, {"image": IMAGES})[0] for each in (network(), model))
    return float(10 * np.log10(np.mean(wanted**2.0) / np.mean((found - wanted) ** 2.0)))


@pytest.fixture(scope="module")
def at_40_decibels() -> Calibrated:
    return encode_for_quality(network(), {"image": IMAGES}, CodingTarget(sqnr_decibels=40.0))


def test_the_asked_quality_is_reached_in_fewer_bytes_than_one_rule_for_all(at_40_decibels) -> None:
    decoded = onnx_carriage.decode_onnx(at_40_decibels.data)
    measured = sqnr_decibels(decoded)
    assert 40.0 <= measured < 48.0
    assert at_40_decibels.output_decibels["y"] == pytest.approx(measured, abs=0.1)
    fixed = min(
        len(data)
        for step in 2.0 ** np.arange(-16, 0, 0.5)
        for data in [onnx_carriage.encode_onnx(network(), Settings("dependent", relative_step=step))]
        if sqnr_decibels(onnx_carriage.decode_onnx(data)) >= 40.0
    )
    assert len(at_40_decibels.data) < fixed


def test_rows_say_what_each_tensor_does_alone(at_40_decibels) -> None:
    rows = {row.name: row for row in at_40_decibels.rows}
    assert set(rows) == {"filter", "gain", "dense"}
    # Its channels need steps as different as their sizes.
    assert rows["filter"].scaled
    found = read_bitstream(at_40_decibels.data)
    names = [tensor.name for tensor in found.tensors]
    assert {"filter/scaled", "filter/channel_scales", "dense"} <= set(names)
    assert "filter" not in names
    noise = sum(10 ** (-row.output_decibels / 10) for row in rows.values())
    # Errors of different tensors add up, more or less.
    assert -10 * np.log10(noise) == pytest.approx(at_40_decibels.output_decibels["y"], abs=3)


def test_the_asked_size_is_kept() -> None:
    found = [
        encode_for_quality(network(), {"image": IMAGES}, CodingTarget(size_bytes=size))
        for size in (900, 1100, 1400)
    ]
    for each, size in zip(found, (900, 1100, 1400), strict=True):
        assert 0.8 * size < len(each.data) <= size
    ratios = [each.output_decibels["y"] for each in found]
    assert ratios == sorted(ratios)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (CodingTarget(size_bytes=100), "the target of 100 bytes is out of reach"),
        (CodingTarget(sqnr_decibels=float("nan")), "the target of nan dB is out of reach"),
    ],
)
def test_targets_out_of_reach(target: CodingTarget, message: str) -> None:
    with pytest.raises(NnrError, match=message):
        encode_for_quality(network(), {"image": IMAGES}, target)


def test_scaling_by_powers_of_two_changes_nothing() -> None:
    model = network()
    assert channel_axes(model) == {"filter": 0, "dense": 1}
    scales = {"filter": power_of_two_scales(FILTER, 0), "dense": power_of_two_scales(DENSE, 1)}
    assert scales["filter"].shape == (8, 1, 1, 1)
    assert np.abs(np.log2(scales["filter"].ravel()) - np.log2(SIZES)).max() <= 1
    scaled = scale_channels(model, scales)
    onnx.checker.check_model(scaled, full_check=True)
    assert set(model_tensors(scaled)) == {
        *("filter/scaled", "filter/channel_scales", "dense/scaled", "dense/channel_scales", "gain")
    }
    runs = [ReferenceEvaluator(each).run(None, {"image": IMAGES})[0] for each in (model, scaled)]
    assert np.array_equal(*runs)
    assert model == network()


def test_a_channel_of_zeros_has_a_scale() -> None:
    values = np.array([[0.0, 0.0], [8.0, -8.0]], np.float32)
    assert power_of_two_scales(values, 0).tolist() == [[8 * 2.0**-12], [8.0]]


def test_curves_and_choices() -> None:
    values = RNG.normal(size=2000).astype(np.float32)
    points = curve(values)
    bits, errors = ([getattr(point, name) for point in points] for name in ("bits", "squared_error"))
    assert bits == sorted(bits, reverse=True)
    assert errors[0] < 1e-6 < 0.1 < errors[-1]
    assert curve(np.zeros(9, np.float32)) == []
    probed = points[40]
    measured = with_sensitivity(points, [probed], [0.5])
    assert measured[40].output_error == pytest.approx(0.5)
    assert with_sensitivity(points, [probed], [np.inf]) == []
    exact = exact_point(values)
    assert exact.bits == 64_000
    curves = {"w": [exact, *measured]}
    assert choose(curves, 0.0)["w"].bits == min(bits)
    assert choose(curves, 1e60)["w"] == exact
    middle = [choose(curves, 10.0**rate)["w"].output_error for rate in range(0, 20, 2)]
    assert middle == sorted(middle, reverse=True)


def test_samples_must_fit_the_inputs() -> None:
    model = network()
    assert np.array_equal(
        OnnxRuns(model, {"": IMAGES}).expected["y"], OnnxRuns(model, {"image": IMAGES}).expected["y"]
    )
    # One more dimension counts the samples.
    five = OnnxRuns(model, {"image": IMAGES[:, None]})
    assert five.expected["y"].size == 4 * 5
    for samples, message in (
        ({"x": IMAGES}, "samples are for the inputs 'x'; the model has 'image'"),
        (
            {"image": IMAGES[0, 0]},
            r"samples of input 'image' have the shape \[6, 6\]; the input has 4 dimensions",
        ),
        ({"image": IMAGES[:0]}, r"the same number of samples along its first axis, not \[0\]"),
    ):
        with pytest.raises(NnrError, match=message):
            OnnxRuns(model, samples)
    broken = network()
    broken.graph.node[1].op_type = "NoSuchOperator"
    with pytest.raises(NnrError, match="ONNX Runtime cannot run the model"):
        OnnxRuns(broken, {"image": IMAGES})


def test_values_that_stop_the_model_are_kept_exactly() -> None:
    """The scales of a Resize are floats, but with other ones the sizes do not fit."""
    scales = np.array([1, 1, 2, 2], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "filter"], ["c"]),
            helper.make_node("Resize", ["c", "", "scales"], ["r"], mode="nearest"),
            helper.make_node("Add", ["r", "map"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])],
        [
            numpy_helper.from_array(FILTER, "filter"),
            numpy_helper.from_array(scales, "scales"),
            numpy_helper.from_array(RNG.normal(size=(8, 8, 8)).astype(np.float32), "map"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    runs = OnnxRuns(model, {"image": IMAGES})
    assert runs.error({"scales": scales}) == {"y": 0.0}
    assert runs.error({"scales": scales * 0.75}) == {"y": np.inf}
    found = encode_for_quality(model, {"image": IMAGES}, CodingTarget(sqnr_decibels=30.0))
    assert found.output_decibels["y"] >= 30
    back = {
        name: numpy_helper.to_array(t)
        for name, t in model_tensors(onnx_carriage.decode_onnx(found.data)).items()
    }
    assert np.array_equal(back["scales"], scales)


def test_on_the_command_line(tmp_path: pathlib.Path, monkeypatch, capsys) -> None:
    model, stream, samples = tmp_path / "m.onnx", tmp_path / "m.nnr", tmp_path / "x.npz"
    onnx.save(network(), model)
    np.savez(samples, image=IMAGES)
    asked = ("encode", model, "-o", stream, "--calib", samples)
    assert run(monkeypatch, *asked, "--target-sqnr", 30) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["payload", "qp", "alone", "tensor"]
    assert any(line.endswith("filter, scaled per output channel") for line in lines)
    assert any(line.startswith("output 'y': 3") and line.endswith(" dB") for line in lines)
    assert sqnr_decibels(onnx_carriage.decode_onnx(stream.read_bytes())) >= 30
    np.savez(tmp_path / "t.npz", w=DENSE)
    for arguments, message in (
        (asked, "--calib needs one target: --target-sqnr DECIBELS or --target-bytes N"),
        ((*asked, "--target-sqnr", 30, "--target-bytes", 900), "--calib needs one target"),
        (("encode", model, "-o", stream, "--target-sqnr", 30), "need samples to measure with: --calib"),
        (
            ("encode", tmp_path / "t.npz", "-o", stream, "--calib", samples, "--target-sqnr", 30),
            "t.npz: --calib measures the outputs of .onnx models only",
        ),
    ):
        assert run(monkeypatch, *arguments) == 1
        assert message in capsys.readouterr().err


def test_unary_lengths_are_searched(tmp_path, monkeypatch) -> None:
    weights = {
        "dense": np.rint(RNG.laplace(0, 20, (50, 40))).astype(np.int8),
        "sparse": np.rint(RNG.laplace(0, 0.4, (50, 40))).astype(np.int8),
        "float": FILTER,
    }
    for method in ("lossless", "dependent", "codebook"):
        best = read_bitstream(nnr.encode(weights, Settings(method, cabac_unary_length=None))).tensors
        for length in (0, 1, 4, 10, 20):
            other = read_bitstream(nnr.encode(weights, Settings(method, cabac_unary_length=length))).tensors
            for found, fixed in zip(best, other, strict=True):
                assert len(found.unit.payload) <= len(fixed.unit.payload)
                assert np.array_equal(found.decode(), fixed.decode())
        assert best[0].cabac_unary_length != best[1].cabac_unary_length
    np.savez(tmp_path / "w.npz", **weights)
    assert run(monkeypatch, "encode", tmp_path / "w.npz", "-o", tmp_path / "w.nnr", "--search-lengths") == 0
    lossless = nnr.encode(weights, Settings(cabac_unary_length=None))
    assert (tmp_path / "w.nnr").read_bytes() == lossless
