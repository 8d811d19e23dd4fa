"""Channels that are told to be constant are, whatever the input is, and those that must be are told."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.constant_channels import absorbed, added, constant_channels, fits, padded
from tosaic.sim.golden import evaluate

IMAGE = (1, 5, 4, 3)


def convolved(
    build: LayerBuilder,
    x: str,
    dead: list[int],
    *,
    pad: int = 0,
    input_zp: int = 0,
    weight_zp: int = 0,
    depthwise: bool = False,
    kernel: int = 2,
) -> str:
    """Four output channels of three (or two of each), of which some have weights of nothing."""
    ic = build.graph.tensors[x].shape[3]
    shape = (kernel, kernel, ic, 2) if depthwise else (4, kernel, kernel, ic)
    weights = build.random.integers(-20, 21, shape)
    weights[weights == weight_zp] += 1
    for channel in dead:
        weights[(..., *divmod(channel, 2)) if depthwise else channel] = weight_zp
    count = 2 * ic if depthwise else 4
    return build.add(
        "DEPTHWISE_CONV2D" if depthwise else "CONV2D",
        [
            x,
            build.constant(weights, DType.INT8),
            build.random_constant((count,), DType.INT32, -5000, 5000),
            build.zero_point(DType.INT8, input_zp),
            build.zero_point(DType.INT8, weight_zp),
        ],
        pad=[pad] * 4,
        stride=[1, 1],
        dilation=[1, 1],
        acc_type=DType.INT32,
        local_bound=False,
    )


def told(build: LayerBuilder, output: str) -> dict[str, list[int | None]]:
    """Returns the constant channels of every tensor, which golden must find for several inputs."""
    build.output(output)
    graph = build.finish()
    found = constant_channels(graph)
    for seed in range(3):
        values = evaluate(graph, feeds(graph, seed), keep=True)
        for name, channels in found.items():
            mask = np.ma.getmaskarray(channels)
            seen = values[name].reshape(-1, len(mask))[:, ~mask]
            np.testing.assert_array_equal(seen, np.broadcast_to(np.ma.getdata(channels)[~mask], seen.shape))
    return {
        name: [None if number is np.ma.masked else int(number) for number in channels]
        for name, channels in found.items()
    }


def constant(channels: list[int | None]) -> list[int]:
    return [number for number, value in enumerate(channels) if value is not None]


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("weight_zp", [0, 3])
def test_channels_without_weights(depthwise: bool, weight_zp: int) -> None:
    build = LayerBuilder(3)
    y = convolved(
        build, build.input("x", IMAGE, DType.INT8), [1, 3], weight_zp=weight_zp, depthwise=depthwise
    )
    assert constant(told(build, y)[y]) == [1, 3]


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("shift", [20, 31, 32, 40])
def test_numbers_on_their_way(double: bool, shift: int) -> None:
    """Rescaled with either rounding, moved, bounded, pooled and renamed; another shape of channels is not followed."""
    for seed in range(8):
        build = LayerBuilder(seed)
        y = convolved(build, build.input("x", IMAGE, DType.INT8), [0, 2])
        z = build.rescale(y, DType.INT8, per_channel=True, double=double, shift=shift, output_zp=-9)
        c = build.clamp(z, -100, 90)
        p = build.add("MAX_POOL2D", [c], kernel=[2, 2], stride=[1, 1], pad=[0] * 4, nan_mode="PROPAGATE")
        rows = build.add("RESHAPE", [p, build.shape((1, 1, 6, 4))])
        flat = build.add("RESHAPE", [rows, build.shape((1, 24))])
        found = told(build, build.add("IDENTITY", [flat]))
        assert set(found) == {y, z, c, p, rows}
        assert all(constant(channels) == [0, 2] for channels in found.values())
        assert found[rows] == found[p] == found[c]


@pytest.mark.parametrize("shift", [31, 32, 33, 34])
def test_numbers_that_are_rounded_twice(shift: int) -> None:
    """Away from zero, where a shift is more than 31."""
    for seed in range(8):
        build = LayerBuilder(seed)
        y = convolved(build, build.input("x", IMAGE, DType.INT8), [0, 1, 2, 3])
        z = build.rescale(y, DType.INT16, per_channel=True, shift=shift)
        assert constant(told(build, z)[z]) == [0, 1, 2, 3]


@pytest.mark.parametrize("number", [-128, -50, 0, 3, 77, 127])
@pytest.mark.parametrize("input_zp, output_zp", [(0, 0), (-9, 4), (100, -3), (-128, 127), (127, -128)])
def test_numbers_between_zero_points(input_zp: int, output_zp: int, number: int) -> None:
    """Twice what a number is more than the first one, from the second one on, as int16; as int8 what that has."""
    build = LayerBuilder(3)
    y = convolved(build, build.input("x", IMAGE, DType.INT8), [0, 1, 2, 3])
    x = build.clamp(build.rescale(y, DType.INT8), number, number)

    def doubled(dtype: DType, zero_point: int) -> str:
        scale = [build.constant([1 << 30], DType.INT32), build.constant([29], DType.INT8)]
        origins = [build.zero_point(DType.INT8, input_zp), build.zero_point(dtype, zero_point)]
        how = dict(scale32=True, rounding_mode="SINGLE_ROUND", per_channel=False)
        unsigned = dict(input_unsigned=False, output_unsigned=False)
        return build.add("RESCALE", [x, *scale, *origins], dtype=dtype, **how, **unsigned)

    wide, narrow = doubled(DType.INT16, 0), doubled(DType.INT8, output_zp)
    build.output(wide)
    found, twice = told(build, narrow), 2 * (number - input_zp)
    assert found[wide] == [twice] * 4
    assert found[narrow] == [min(max(twice + output_zp, -128), 127)] * 4


def test_what_a_convolution_makes_of_constant_channels() -> None:
    """All inputs constant: all outputs are, unless padding is another number; else those that see the constant ones
    only."""
    for pad, input_zp, everything in ((0, 4, True), (1, 4, False)):
        build = LayerBuilder(5)
        first = convolved(build, build.input("x", IMAGE, DType.INT8), [0, 1, 2, 3])
        x = build.rescale(first, DType.INT8)
        y = convolved(build, x, [], pad=pad, input_zp=input_zp)
        found = told(build, y)
        assert constant(found[x]) == [0, 1, 2, 3]
        assert (y in found) is everything
        if everything:
            assert constant(found[y]) == [0, 1, 2, 3]


def test_padding_that_is_the_same_number() -> None:
    build = LayerBuilder(5)
    first = convolved(build, build.input("x", IMAGE, DType.INT8), [1])
    x = build.clamp(build.rescale(first, DType.INT8), -7, -7)
    y = convolved(build, x, [], pad=1, input_zp=-7, depthwise=True)
    found = told(build, y)
    assert constant(found[x]) == [1] and constant(found[y]) == [2, 3]


def test_what_input_channels_add() -> None:
    """Each weight's sum times the number less the zero point, of channels that are constant."""
    build = LayerBuilder(5)
    x = build.input("x", (1, 4, 4, 4), DType.INT8)
    convolved(build, x, [], input_zp=2, weight_zp=3)
    operator = build.graph.operators[-1]
    weights = build.graph.tensors[operator.inputs[1]].data.astype(int) - 3
    source = np.ma.array([7, 2, -1, 50], mask=[False, False, True, False])
    wanted = weights.sum((1, 2)) * [5, 0, 0, 48]
    assert added(build.graph, operator, source).tolist() == wanted.tolist()
    assert added(build.graph, operator, None).tolist() == np.zeros((4, 4)).tolist()
    assert absorbed(build.graph, operator, source).tolist() == [True, True, False, True]
    assert absorbed(build.graph, operator, None).tolist() == [False] * 4
    assert not padded(operator)
    operator.attributes["pad"] = [0, 0, 0, 1]
    assert padded(operator)
    assert absorbed(build.graph, operator, source).tolist() == [False, True, False, False]
    assert added(build.graph, operator, source).tolist() == np.zeros((4, 4)).tolist()


def test_weights_that_are_computed_tell_nothing() -> None:
    build = LayerBuilder(5)
    x, w = build.input("x", IMAGE, DType.INT8), build.input("w", (4, 1, 1, 3), DType.INT8)
    zeros = [build.zero_point(DType.INT8) for _ in range(2)]
    how = dict(pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=DType.INT32, local_bound=False)
    y = build.add("CONV2D", [x, w, build.constant([1, 2, 3, 4], DType.INT32), *zeros], **how)
    assert told(build, y) == {}


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.INT32])
def test_values_that_a_type_holds(dtype: DType) -> None:
    values = np.array([dtype.min - 1, dtype.min, 0, dtype.max, dtype.max + 1], np.int64)
    assert fits(values, dtype).tolist() == [False, True, True, True, False]
