"""The digits example's arithmetic: gradients against finite differences, scales against RESCALE's rules."""

import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "digits"))
data, floating, network, quantization = map(
    import_module, ("digits_data", "digits_float", "digits_network", "digits_quantization")
)


@pytest.mark.parametrize("name", ["digits", "digits_tiny"])
def test_gradients_match_finite_differences(name):
    layers, rng = network.NETWORKS[name], np.random.default_rng(7)
    parameters = {
        key: value.astype(np.float64) for key, value in floating.initial_parameters(layers, rng).items()
    }
    for key, value in parameters.items():
        if key.endswith(".bias"):  # a zero bias under dead inputs sits exactly on ReLU's corner
            value += rng.normal(0, 0.1, value.shape)
    images, labels = rng.random((3, 8, 8, 1)), np.array([1, 5, 9])

    def loss():
        return floating.cross_entropy(floating.forward(layers, parameters, images)["logits"][:, 0, 0], labels)

    _, grad_logits = loss()
    grads = floating.backward(layers, parameters, floating.forward(layers, parameters, images), grad_logits)
    assert grads.keys() == parameters.keys()
    for key, value in parameters.items():
        # Along the gradient itself, so that no component can hide; small enough to cross no ReLU's corner.
        direction = grads[key] / np.linalg.norm(grads[key])
        saved, step = value.copy(), 1e-7
        value[...] = saved + step * direction
        above = loss()[0]
        value[...] = saved - step * direction
        below = loss()[0]
        value[...] = saved
        assert (above - below) / (2 * step) == pytest.approx(np.linalg.norm(grads[key]), rel=1e-4), key


def test_convolution_equals_its_definition():
    rng = np.random.default_rng(3)
    layer = network.Conv("c", 3, stride=2, pad=network.HALVING, relu=False)
    x, weight, bias = rng.random((2, 8, 8, 2)), rng.random((3, 3, 3, 2)), rng.random(3)
    expected = np.zeros((2, 4, 4, 3)) + bias
    for n, oy, ox, oc, ky, kx, ic in np.ndindex(2, 4, 4, 3, 3, 3, 2):
        iy, ix = oy * 2 + ky, ox * 2 + kx  # HALVING pads below and to the right only
        if iy < 8 and ix < 8:
            expected[n, oy, ox, oc] += x[n, iy, ix, ic] * weight[oc, ky, kx, ic]
    parameters = {"c.weight": weight, "c.bias": bias}
    np.testing.assert_allclose(floating.forward((layer,), parameters, x)["c"], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "macs", "weights"), [("digits", 314_944, 12_640), ("digits_tiny", 6_400, 1_864)]
)
def test_network_sizes(name, macs, weights):
    layers = network.NETWORKS[name]
    assert network.multiply_accumulates(layers) == macs
    assert sum(int(np.prod(shape)) for shape in network.weight_shapes(layers).values()) == weights


def test_pixels_become_int8_by_integers():
    pixels = np.arange(17, dtype=np.uint8).reshape(1, 1, 17)
    expected = [-128, -112, -96, -80, -64, -48, -32, -16, 0, 15, 31, 47, 63, 79, 95, 111, 127]
    assert data.to_int8(pixels).ravel().tolist() == expected
    assert data.to_int8(pixels).shape == (1, 1, 17, 1)


@given(st.floats(min_value=2.0**-31, max_value=2.0**28, allow_nan=False))
def test_fixed_point_is_normalised_and_nearest(scale):
    multiplier, shift = quantization.fixed_point(scale)
    assert 2**30 <= multiplier < 2**31
    assert 2 <= shift <= 62
    assert abs(Fraction(multiplier, 2**shift) / Fraction(scale) - 1) <= Fraction(1, 2**31)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (1.0, (2**30, 30)),
        (0.75, (3 * 2**29, 31)),
        (2.0**-32, (2**30, 62)),
        (2.0**28, (2**30, 2)),
        (1 - 2.0**-40, (2**30, 30)),
    ],
)
def test_fixed_point_values(scale, expected):
    assert quantization.fixed_point(scale) == expected


@pytest.mark.parametrize("scale", [0.0, 2.0**-33, 2.0**29])
def test_fixed_point_refuses_what_rescale_cannot_hold(scale):
    with pytest.raises(
        ValueError, match=rf"^scale {scale} has no RESCALE form: its shift is not in 2\.\.62; "
    ):
        quantization.fixed_point(scale)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_activation_quantization_holds_its_range_and_zero(a, b):
    low, high = min(a, b), max(a, b)
    mapping = quantization.activation_quantization(low, high)
    assert -128 <= mapping.zero_point <= 127
    for value in (low, high):
        # Half a step of zero-point rounding and half a step of value rounding, so at most one step outside.
        assert -129 <= value / mapping.scale + mapping.zero_point <= 128


def test_activation_quantization_ignores_the_last_bits_of_its_range():
    exact = quantization.activation_quantization(-0.3, 2.7)
    assert quantization.activation_quantization(-0.3 * (1 + 1e-14), 2.7 * (1 - 1e-14)) == exact


def test_committed_images_are_the_held_out_split():
    split = data.load_split()
    images = np.load(Path(data.__file__).parent / "images.npz")
    np.testing.assert_array_equal(images["pixels"], split.test_pixels)
    np.testing.assert_array_equal(images["labels"], split.test_labels)
    np.testing.assert_array_equal(images["inputs"], data.to_int8(split.test_pixels))
    np.testing.assert_array_equal(images["calibration"], split.train_pixels[:256])
