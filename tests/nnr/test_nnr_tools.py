"""Encoder-side tools (clauses 8 to 10): quantizers, sparsification, low rank, whole tensors."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_nnr_payload import reachable

from tosaic.nnr import NnrError, decode_tensor, encode_float_tensor, encode_tensor, read_bitstream
from tosaic.nnr.displacement import displacement, reconstruct_displacement
from tosaic.nnr.encoder import METHODS, Settings, encode_model, encode_unit
from tosaic.nnr.payload import step_size
from tosaic.nnr.quantize import qp_for_step, quantize_codebook, quantize_dependent, quantize_uniform
from tosaic.nnr.reduce import (
    kernel_of,
    low_rank,
    matrix_of,
    rank_for,
    reconstruct_low_rank,
    sparsify,
    threshold_for,
)
from tosaic.nnr.units import ModelParameterSet, StorageFormat, TopologyUnit

WEIGHTS = np.random.default_rng(11).laplace(0, 1, 4000).astype(np.float32)


def error(levels: np.ndarray, qp: int) -> float:
    mul, exponent = step_size(qp, 2)
    return float(np.mean((levels * (mul * 2.0**exponent) - WEIGHTS) ** 2))


@given(st.floats(1e-9, 1e9), st.integers(0, 7))
def test_qp_for_step_is_the_largest_step_not_above(step: float, density: int) -> None:
    def value(qp: int) -> float:
        mul, exponent = step_size(qp, density)
        return mul * 2.0**exponent

    qp = qp_for_step(step, density)
    assert value(qp) <= step < value(qp + 1)


@pytest.mark.parametrize("step", [0.0, -1.0, float("nan"), float("inf")])
def test_qp_for_step_refuses(step: float) -> None:
    with pytest.raises(NnrError, match="must be positive and finite"):
        qp_for_step(step)


def test_uniform_is_the_nearest_multiple() -> None:
    assert quantize_uniform(np.array([0.24, 0.26, -0.74, -0.76, 0.0]), -4).tolist() == [0, 1, -1, -2, 0]
    with pytest.raises(NnrError, match="too fine"):
        quantize_uniform(np.array([1e9]), -100)
    with pytest.raises(NnrError, match="NaN or infinity"):
        quantize_uniform(np.array([np.nan]), 0)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-6, 6, width=16), min_size=1, max_size=5))
def test_the_trellis_finds_the_best_path(values: list[float]) -> None:
    """Against every sequence of levels -4..4."""
    found = quantize_dependent(np.array(values), 0)
    best = min(
        sum((v - q) ** 2 for v, q in zip(values, reachable(list(levels)), strict=True))
        for levels in itertools.product(range(-4, 5), repeat=len(values))
    )
    assert sum((v - q) ** 2 for v, q in zip(values, found.tolist(), strict=True)) == pytest.approx(best)
    assert encode_tensor(found, dq=True)


def test_dependent_beats_uniform_at_fewer_bytes() -> None:
    uniform, dependent = quantize_uniform(WEIGHTS, -4), quantize_dependent(WEIGHTS, -9)
    assert len(encode_float_tensor(dependent, -9, dq=True)) < 1.12 * len(encode_float_tensor(uniform, -4))
    assert error(dependent, -9) < 0.63 * error(uniform, -4)


def test_rate_weight_trades_error_for_bytes() -> None:
    exact, cheap = quantize_dependent(WEIGHTS, -8), quantize_dependent(WEIGHTS, -8, rate_weight=1.0)
    assert error(cheap, -8) > error(exact, -8)
    assert len(encode_float_tensor(cheap, -8, dq=True)) < len(encode_float_tensor(exact, -8, dq=True))


def test_codebook_is_exact_for_few_values() -> None:
    values = np.array([[0.5, -2.0, 0.0], [0.5, 7.0, 0.0]], np.float32)
    indices, codebook, offset = quantize_codebook(values, 4)
    assert codebook.tolist() == [-2.0, 0.0, 0.5, 7.0]
    assert (indices.tolist(), offset) == ([[2, 0, 1], [2, 3, 1]], 1)


def test_codebook_error_falls_with_its_size() -> None:
    errors = []
    for size in (2, 4, 16, 64):
        indices, codebook, offset = quantize_codebook(WEIGHTS, size)
        assert codebook.size <= size
        assert offset == int(np.argmin(np.abs(codebook)))
        errors.append(float(np.mean((codebook[indices] - WEIGHTS) ** 2)))
    assert errors == sorted(errors, reverse=True)
    assert quantize_codebook(np.empty((0, 2), np.float32), 3)[0].shape == (0, 2)
    with pytest.raises(NnrError, match="must be 1..65535, not 0"):
        quantize_codebook(WEIGHTS, 0)


def test_sparsify() -> None:
    assert sparsify(np.array([-128, 3, -2, 0, 5], np.int8), 3).tolist() == [-128, 3, 0, 0, 5]
    for ratio in (0.0, 0.5, 0.8, 1.0):
        zeros = np.mean(sparsify(WEIGHTS, threshold_for(WEIGHTS, ratio)) == 0)
        assert ratio <= zeros < ratio + 1 / 1000
    with pytest.raises(NnrError, match="0..1, not 2"):
        threshold_for(WEIGHTS, 2)


def test_low_rank() -> None:
    exact = np.outer([1.0, 2.0, 3.0], [4.0, 5.0]) + np.outer([1.0, 0.0, -1.0], [5.0, -4.0])
    left, right = low_rank(exact, 2)
    assert (left.shape, right.shape, left.dtype) == ((3, 2), (2, 2), np.float32)
    assert np.allclose(left @ right, exact, atol=1e-5)
    assert np.linalg.norm(np.matmul(*low_rank(exact, 1)) - exact) == pytest.approx(
        np.linalg.svd(exact)[1][1], rel=1e-5
    )
    with pytest.raises(NnrError, match=r"rank must be 1..2 for a matrix of shape \(3, 2\), not 3"):
        low_rank(exact, 3)


def test_reshaping_modes() -> None:
    kernel = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    shapes = [matrix_of(kernel, mode).shape for mode in (1, 2, 3, 4)]
    assert shapes == [(60, 2), (30, 4), (24, 5), (5, 24)]
    assert np.array_equal(matrix_of(kernel, 4)[2], kernel[..., 2].reshape(-1))
    for wrong in (0, 5):
        with pytest.raises(NnrError, match=f"must be 1..4, not {wrong}"):
            matrix_of(kernel, wrong)
    with pytest.raises(NnrError, match="rank 4, not 2"):
        matrix_of(np.zeros((2, 2)), 1)


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_by_every_method(method: str) -> None:
    values = WEIGHTS.reshape(40, 100)
    data = encode_model({"w": values, "i": np.arange(-5, 5, dtype=np.int8)}, Settings(method, 4))
    found = {tensor.name: tensor.decode() for tensor in read_bitstream(data).tensors}
    assert found["i"].tolist() == list(range(-5, 5))
    limit = {"lossless": 0.0, "uniform": 0.05, "dependent": 0.2, "codebook": 1.0}[method]
    largest = float(np.abs(values).max())
    assert np.abs(found["w"] - values).max() <= limit * largest
    assert found["w"].shape == (40, 100)


def test_float_extremes_are_coded() -> None:
    assert encode_unit("zeros", np.zeros(3, np.float32), Settings("uniform")).payload_type == 1
    odd = np.array([np.nan, np.inf, 1], np.float32)
    unit = encode_unit("odd", odd, Settings("uniform"))
    assert np.array_equal(decode_tensor(unit.payload, (3,), payload_type="raw_float32"), odd, equal_nan=True)
    # iae(8) has no step this small.
    tiny = np.array([1e-30, -1e-30], np.float32)
    unit = encode_unit("tiny", tiny, Settings("dependent"))
    assert np.array_equal(decode_tensor(unit.payload, (2,), payload_type="raw_float32"), tiny)


def test_what_no_data_unit_holds() -> None:
    with pytest.raises(NnrError, match=r"tensor 'd' of float64\[2\] does not fit an NNR data unit"):
        encode_unit("d", np.zeros(2))
    with pytest.raises(NnrError, match="'best' is not one of lossless, uniform"):
        Settings("best")


@pytest.mark.parametrize("mode", [1, 2, 3, 4])
def test_kernel_of_undoes_matrix_of(mode: int) -> None:
    kernel = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    assert np.array_equal(kernel_of(matrix_of(kernel, mode), kernel.shape, mode), kernel)


@pytest.mark.parametrize("mode", [1, 2, 3, 4])
def test_low_rank_reconstruction_keeps_the_shape(mode: int) -> None:
    kernel = WEIGHTS[:360].reshape(3, 4, 5, 6)
    full = min(matrix_of(kernel, mode).shape)
    assert np.abs(reconstruct_low_rank(kernel, full, mode) - kernel).max() < 1e-5
    errors = [np.square(reconstruct_low_rank(kernel, r, mode) - kernel).sum() for r in range(1, full + 1)]
    assert errors == sorted(errors, reverse=True)
    near = reconstruct_low_rank(kernel, 1, mode)
    assert (near.shape, near.dtype) == (kernel.shape, np.float32)
    assert np.linalg.matrix_rank(matrix_of(near, mode), tol=1e-4) == 1


def test_rank_for_keeps_the_energy() -> None:
    matrix = np.diag([4.0, 2.0, 1.0, 0.0])
    assert [rank_for(matrix, share) for share in (0.5, 16 / 21, 0.77, 20 / 21, 0.96, 1)] == [1, 1, 2, 2, 3, 3]
    assert rank_for(np.zeros((3, 2)), 0.9) == 1
    with pytest.raises(NnrError, match="above 0 and at most 1, not 0"):
        rank_for(matrix, 0)


@pytest.mark.parametrize("shape", [(6, 6), (4, 2), (2, 4), (5, 7), (8, 12), (1, 3), (3, 1), (16, 16)])
def test_displacement_gives_the_matrix_back(shape: tuple[int, int]) -> None:
    matrix = WEIGHTS[: shape[0] * shape[1]].reshape(shape)
    found = reconstruct_displacement(matrix, min(shape))
    assert (found.shape, found.dtype) == (shape, np.float32)
    assert np.abs(found - matrix).max() < 1e-5 * np.abs(matrix).max()


def test_a_toeplitz_matrix_has_displacement_rank_two() -> None:
    toeplitz = np.array([[WEIGHTS[5 + i - j] for j in range(6)] for i in range(9)])
    assert np.linalg.matrix_rank(displacement(toeplitz), tol=1e-5) == 2
    assert np.abs(reconstruct_displacement(toeplitz, 2) - toeplitz).max() < 1e-5
    near = reconstruct_displacement(WEIGHTS[:54].reshape(9, 6), 3)
    assert np.linalg.matrix_rank(displacement(near), tol=1e-4) == 3
    for wrong, message in (
        (np.zeros(3), r"not of shape \[3\]"),
        (np.zeros((2, 0)), r"not of shape \[2, 0\]"),
    ):
        with pytest.raises(NnrError, match=message):
            displacement(wrong)
    with pytest.raises(NnrError, match="must be 1..2, not 3"):
        reconstruct_displacement(np.zeros((2, 5)), 3)


def test_weights_are_made_sparse_before_coding() -> None:
    tensors = {
        "w": WEIGHTS.reshape(40, 100),
        "bias": WEIGHTS[:40],
        "q": np.arange(-50, 50, dtype=np.int8)[None],
    }
    data = encode_model(tensors, Settings(sparsity=0.75))
    found = read_bitstream(data)
    values = {tensor.name: tensor.decode() for tensor in found.tensors}
    assert np.count_nonzero(values["w"]) == 1000
    kept = np.abs(tensors["w"]) > np.quantile(np.abs(WEIGHTS), 0.75)
    assert np.array_equal(values["w"], np.where(kept, tensors["w"], 0))
    assert np.array_equal(values["bias"], tensors["bias"])
    assert np.count_nonzero(values["q"]) <= 25
    parameters = next(p.unit for p in found.units if isinstance(p.unit, ModelParameterSet))
    assert parameters.sparsification == ()


@pytest.mark.parametrize("method", ["uniform", "dependent"])
def test_integers_are_quantized_on_demand(method: str) -> None:
    values = np.random.default_rng(4).integers(-128, 128, (30, 40), dtype=np.int8)
    exact = encode_model({"w": values, "b": values[0]}, Settings(method))
    coarse = encode_model({"w": values, "b": values[0]}, Settings(method, integer_step=4))
    found = {tensor.name: tensor.decode() for tensor in read_bitstream(coarse).tensors}
    assert np.abs(found["w"] - values).max() <= (2 if method == "uniform" else 8)
    assert np.array_equal(found["b"], values[0])
    assert len(coarse) < 0.8 * len(exact)


def test_settings_are_checked() -> None:
    for arguments, message in (
        ({"relative_step": 0}, "must be a positive fraction, not 0"),
        ({"sparsity": 1.5}, "must be 0..1, not 1.5"),
        ({"rate_weight": -1}, "must not be negative"),
        ({"integer_step": 2}, "'lossless' keeps integers exactly"),
        ({"method": "uniform", "integer_step": 0.5}, "must be 1..128, not 0.5"),
    ):
        with pytest.raises(NnrError, match=message):
            Settings(**arguments)


def test_biases_and_scales_of_a_network_are_kept() -> None:
    """With a topology; tensors that come without one may be of any shape."""
    tensors = {"w": WEIGHTS.reshape(40, 100), "bias": WEIGHTS[:40], "scale": WEIGHTS[:1].reshape(())}
    topology = TopologyUnit(StorageFormat.NNEF, b"graph")
    for unit, expected in ((topology, [1, 3, 3]), (None, [1, 1, 1])):
        data = encode_model(tensors, Settings("uniform"), topology=unit)
        assert [tensor.unit.payload_type for tensor in read_bitstream(data).tensors] == expected
