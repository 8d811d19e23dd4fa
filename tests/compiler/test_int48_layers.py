"""int16 convolutions and int48 tensors, compiled: on the emulator they equal golden, bit for bit."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.decompose import decompose
from tosaic.driver.session import Session
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

OPERATORS = {
    "dense": ("CONV2D", (2, 5, 6, 9), (11, 3, 3), dict(pad=[1, 1, 1, 1], stride=[1, 1], dilation=[1, 1])),
    "strided": ("CONV2D", (1, 8, 10, 16), (8, 3, 3), dict(pad=[1, 0, 0, 1], stride=[2, 2], dilation=[1, 1])),
    "dilated": ("CONV2D", (1, 7, 9, 3), (5, 3, 2), dict(pad=[2, 2, 0, 1], stride=[1, 1], dilation=[2, 2])),
    "depthwise": (
        "DEPTHWISE_CONV2D",
        (1, 6, 7, 19),
        (3, 3, 19, 1),
        dict(pad=[1, 1, 1, 1], stride=[1, 1], dilation=[1, 1]),
    ),
    "multiplier": (
        "DEPTHWISE_CONV2D",
        (1, 6, 7, 5),
        (3, 2, 5, 3),
        dict(pad=[1, 0, 0, 0], stride=[2, 1], dilation=[1, 1]),
    ),
    "transposed": ("TRANSPOSE_CONV2D", (1, 4, 5, 6), (7, 3, 3), dict(out_pad=[0, 1, -1, 0], stride=[2, 2])),
    "solid": (
        "CONV3D",
        (1, 3, 5, 4, 6),
        (5, 2, 3, 3),
        dict(pad=[1, 0, 1, 1, 0, 1], stride=[1, 2, 1], dilation=[1, 1, 1]),
    ),
}
EXTREME = np.array([-32768, -32767, -32513, -32512, -257, -256, -129, -128, -1, 0, 127, 128, 255, 256, 32767])


class WideBuilder(LayerBuilder):
    """Adds int16 operators to a LayerBuilder."""

    def wide_conv(self, op, x, kernel, attributes, *, weight_zp=0, bias=1 << 20, run_time_bias=False) -> str:
        """An int16 convolution to int48, `bias` the largest one."""
        channels = self.graph.tensors[x].shape[-1]
        weights = kernel if op == "DEPTHWISE_CONV2D" else (*kernel, channels)
        count = kernel[2] * kernel[3] if op == "DEPTHWISE_CONV2D" else kernel[0]
        if run_time_bias:
            offset = self.input("bias", (count,), DType.INT48)
        else:
            offset = self.random_constant((count,), DType.INT48, -bias, bias)
        operands = [
            x,
            self.random_constant(weights, DType.INT8, -128, 127),
            offset,
            self.zero_point(DType.INT16),
            self.zero_point(DType.INT8, weight_zp),
        ]
        return self.add(op, operands, acc_type=DType.INT48, local_bound=False, **attributes)

    def narrow(self, x, dtype=DType.INT16, *, per_channel=False, shift=26) -> str:
        """RESCALE of int48."""
        count = self.graph.tensors[x].shape[-1] if per_channel else 1
        return self.add(
            "RESCALE",
            [
                x,
                self.random_constant((count,), DType.INT16, 1 << 14, (1 << 15) - 1),
                self.random_constant((count,), DType.INT8, shift - 1, shift + 1),
                self.zero_point(DType.INT48),
                self.zero_point(dtype),
            ],
            dtype=dtype,
            scale32=False,
            rounding_mode="SINGLE_ROUND",
            per_channel=per_channel,
            input_unsigned=False,
            output_unsigned=False,
        )


def extremes(graph, seed=0):
    """Inputs of the values where bytes change signs."""
    random = np.random.default_rng(seed)
    tensors = (graph.tensors[name] for name in graph.inputs)
    return {t.name: random.choice(EXTREME, t.shape).astype(t.dtype.numpy) for t in tensors}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("config", ["small", "base"])
def test_accumulators_in_memory(config, name):
    op, shape, kernel, attributes = OPERATORS[name]
    build = WideBuilder(3)
    build.output(build.wide_conv(op, build.input("x", shape, DType.INT16), kernel, attributes, weight_zp=-7))
    graph = build.finish()
    assert_equal_to_golden(graph, config)
    assert_equal_to_golden(graph, config, extremes(graph))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_rescaled(name, per_channel):
    op, shape, kernel, attributes = OPERATORS[name]
    build = WideBuilder(4)
    sums = build.wide_conv(op, build.input("x", shape, DType.INT16), kernel, attributes)
    build.output(build.narrow(sums, per_channel=per_channel))
    graph = build.finish()
    assert_equal_to_golden(graph, "base")
    assert_equal_to_golden(graph, "base", extremes(graph))


@pytest.mark.parametrize("bias", [(1 << 32) + 12345, 1 << 38, 1 << 46])
def test_large_biases(bias):
    op, shape, kernel, attributes = OPERATORS["dense"]
    build = WideBuilder(5)
    x = build.input("x", shape, DType.INT16)
    build.output(build.wide_conv(op, x, kernel, attributes, bias=bias))
    assert_equal_to_golden(build.finish(), "base")


@pytest.mark.parametrize("name", OPERATORS)
def test_run_time_bias(name):
    op, shape, kernel, attributes = OPERATORS[name]
    build = WideBuilder(6)
    x = build.input("x", shape, DType.INT16)
    build.output(build.wide_conv(op, x, kernel, attributes, run_time_bias=True))
    graph = build.finish()
    values = extremes(graph)
    count = graph.tensors["bias"].shape
    values["bias"] = np.random.default_rng(2).integers(-(1 << 40), 1 << 40, count)
    assert_equal_to_golden(graph, "base", values)


def test_largest_sums():
    """All weights -128 and all inputs -32768: the sums of the planes are the largest there are."""
    build = WideBuilder(7)
    x = build.input("x", (1, 2, 2, 1000), DType.INT16)
    operands = [
        x,
        build.constant(np.full((3, 2, 2, 1000), -128), DType.INT8),
        build.constant([(1 << 39) - 1, -(1 << 39), -1], DType.INT48),
        build.zero_point(DType.INT16),
        build.zero_point(DType.INT8, 127),
    ]
    attributes = dict(pad=[0, 0, 0, 0], stride=[1, 1], dilation=[1, 1])
    build.output(build.add("CONV2D", operands, acc_type=DType.INT48, local_bound=False, **attributes))
    graph = build.finish()
    for value in (-32768, 32767, -1, 255):
        assert_equal_to_golden(graph, "large", {"x": np.full((1, 2, 2, 1000), value, np.int16)})


def test_sums_beyond_int32_are_split():
    """More products than an int32 holds of the low bytes: channels in groups."""
    channels = 70000
    build = WideBuilder(8)
    operands = [
        build.input("x", (1, 1, 2, channels), DType.INT16),
        build.constant(np.full((1, 1, 1, channels), -128), DType.INT8),
        build.constant([-3], DType.INT48),
        build.zero_point(DType.INT16),
        build.zero_point(DType.INT8),
    ]
    attributes = dict(pad=[0, 0, 0, 0], stride=[1, 1], dilation=[1, 1])
    build.output(build.add("CONV2D", operands, acc_type=DType.INT48, local_bound=False, **attributes))
    values = {"x": np.full((1, 1, 2, channels), -1, np.int16)}
    assert_equal_to_golden(build.finish(), "large", values)


def residual_network():
    """Two int16 convolutions that share their input, added as int32."""
    build = WideBuilder(9)
    x = build.input("x", (1, 6, 6, 16), DType.INT16)
    attributes = dict(pad=[1, 1, 1, 1], stride=[1, 1], dilation=[1, 1])
    branches = [
        build.narrow(build.wide_conv("CONV2D", x, (16, 3, 3), attributes), DType.INT32) for _ in range(2)
    ]
    y = build.add("ADD", branches)
    z = build.rescale(y, DType.INT16, shift=34)
    build.output(build.narrow(build.wide_conv("CONV2D", z, (8, 3, 3), attributes)))
    return build.finish()


@pytest.mark.parametrize("config", ["nano", "small", "base"])
def test_no_int48_tensor_is_in_memory_where_a_rescale_follows(config):
    """nano has no int48 elements in memory, so that it compiles shows that there are none."""
    graph = residual_network()
    assert_equal_to_golden(graph, config)
    layers = compile_graph(graph, get_config(config)).layers
    assert [layer.op for layer in layers].count("CONV2D") == 6  # two passes per convolution
    assert not any(layer.op in ("MUL", "ADD", "RESCALE") for layer in layers)


def test_four_byte_machine_is_refused_by_name():
    build = WideBuilder(10)
    build.output(build.narrow(build.input("x", (4, 4), DType.INT48)))
    message = r"tensor 'x' int48\[4, 4\] has elements of 8 bytes on a 4-byte machine"
    with pytest.raises(UnsupportedError, match=message):
        compile_graph(build.finish(), get_config("nano"))


def test_narrow_lanes_are_refused_by_name():
    """What a convolution of int16 is decomposed into is int48, too."""
    build = WideBuilder(13)
    build.output(build.narrow(build.input("x", (4, 4), DType.INT48)))
    message = r"tensor 'x' int48\[4, 4\] is wider than the lanes of configuration 'base,vector_bits=34'"
    with pytest.raises(UnsupportedError, match=message):
        compile_graph(build.finish(), get_config("base,vector_bits=34"))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.INT32])
def test_rescale_of_int48(dtype, per_channel):
    build = WideBuilder(11)
    x = build.input("x", (3, 4, 5), DType.INT48)
    build.output(build.narrow(x, dtype, per_channel=per_channel, shift=45))
    graph = build.finish()
    assert_equal_to_golden(graph, "base")
    ends = np.array([-(1 << 47), (1 << 47) - 1, -1, 0, 1])
    assert_equal_to_golden(graph, "base", {"x": np.broadcast_to(ends, (3, 4, 5)).copy()})


@pytest.mark.parametrize("shape", [(1, 3, 40, 5), (2, 7, 9, 19), (3, 1, 1, 33)])
@pytest.mark.parametrize("config", ["small", "base"])
def test_matrix_product(config, shape):
    n, h, c, w = shape
    build = WideBuilder(12)
    operands = [build.input("a", (n, h, c), DType.INT16), build.input("b", (n, c, w), DType.INT16)]
    zero = build.zero_point(DType.INT16)
    build.output(build.add("MATMUL", [*operands, zero, zero], dtype=DType.INT48))
    graph = build.finish()
    assert_equal_to_golden(graph, config)
    assert_equal_to_golden(graph, config, extremes(graph))


@pytest.mark.parametrize("op", ["CONV2D", "DEPTHWISE_CONV2D"])
def test_run_time_weights(op):
    build = WideBuilder(13)
    weights = (3, 3, 6, 2) if op == "DEPTHWISE_CONV2D" else (12, 3, 3, 6)
    operands = [
        build.input("x", (1, 5, 5, 6), DType.INT16),
        build.input("w", weights, DType.INT8),
        build.random_constant((12,), DType.INT48, -5000, 5000),
        build.zero_point(DType.INT16),
        build.zero_point(DType.INT8),
    ]
    attributes = dict(pad=[1, 1, 1, 1], stride=[1, 1], dilation=[1, 1])
    build.output(build.add(op, operands, acc_type=DType.INT48, local_bound=False, **attributes))
    assert_equal_to_golden(build.finish(), "base")


@pytest.mark.xdist_group("base")
def test_convolution_on_the_rtl():
    graph = residual_network()
    values = {"x": np.random.default_rng(1).integers(-32768, 32768, (1, 6, 6, 16)).astype(np.int16)}
    session = Session(graph, target="sim", config="base")
    wanted = evaluate(graph, values)
    for name, value in session.run(values).items():
        np.testing.assert_array_equal(value, wanted[name])


def planes_of(graph: Graph) -> list[tuple[int, ...]]:
    """Shapes of the data of each part of a decomposed operator, which int8 operators read: 2 of a convolution, 4 of a
    matrix product."""
    found = decompose(graph)
    (whole,) = {operator.op for operator in graph.operators}
    read = [found.tensors[operator.inputs[0]] for operator in found.operators if operator.op == whole]
    each = 4 if whole == "MATMUL" else 2
    assert {tensor.dtype for tensor in read} == {DType.INT8}
    assert all(read[place].shape == read[place - place % each].shape for place in range(len(read)))
    return [tensor.shape for tensor in read[::each]]


@pytest.mark.parametrize(
    "inner, parts",
    [(1, [1]), (33025, [33025]), (33026, [33025, 1]), (66050, [33025] * 2), (66051, [33025] * 2 + [1])],
)
def test_products_that_an_int32_holds(inner: int, parts: list[int]) -> None:
    """255 * 255 * 33025 is the most of two low planes."""
    build = WideBuilder(12)
    zero = build.zero_point(DType.INT16)
    operands = [build.input("a", (1, 2, inner), DType.INT16), build.input("b", (1, inner, 3), DType.INT16)]
    build.output(build.add("MATMUL", [*operands, zero, zero], dtype=DType.INT48))
    assert planes_of(build.finish()) == [(1, 2, part) for part in parts]


def tall(
    channels: int, taps: int, *, op: str = "CONV2D", constant: bool = True, bias: int = 0, weight: int = -128
) -> Graph:
    """A convolution with a kernel of one column, whose weights are all the same if they are constant."""
    build, depthwise = WideBuilder(14), op == "DEPTHWISE_CONV2D"
    shape = (taps, 1, channels, 1) if depthwise else (1, taps, 1, channels)
    weights = build.constant(np.full(shape, weight), DType.INT8) if constant else None
    operands = [
        build.input("x", (1, taps, 1, channels), DType.INT16),
        weights or build.input("w", shape, DType.INT8),
        build.constant([bias] * (channels if depthwise else 1), DType.INT48),
        build.zero_point(DType.INT16),
        build.zero_point(DType.INT8),
    ]
    attributes = dict(pad=[0, 0, 0, 0], stride=[1, 1], dilation=[1, 1])
    build.output(build.add(op, operands, acc_type=DType.INT48, local_bound=False, **attributes))
    return build.finish()


@pytest.mark.parametrize(
    "channels, taps, how, groups",
    [
        (256, 257, {}, [256]),
        (273, 241, {}, [272, 1]),
        (546, 241, {}, [272, 272, 2]),
        (273, 241, dict(weight=127), [273]),
        (1, 65792, {}, [1]),
        (2, 65792, {}, [1, 1]),
        (25, 1321, dict(constant=False), [25]),
        (98, 337, dict(constant=False), [97, 1]),
        (1, 65793, dict(op="DEPTHWISE_CONV2D"), [1]),
        (3, 65793, dict(op="DEPTHWISE_CONV2D"), [3]),
        (1, 33025, dict(op="DEPTHWISE_CONV2D", constant=False), [1]),
    ],
)
def test_channels_whose_sums_an_int32_holds(channels: int, taps: int, how: dict, groups: list[int]) -> None:
    """255 * 128 * 65792 is the most of a low plane with a bias of a byte, 255 * 255 * 33025 of weights that are
    computed; a DEPTHWISE_CONV2D adds its bias later where that is too much."""
    assert planes_of(tall(channels, taps, **how)) == [(1, taps, 1, group) for group in groups]


@pytest.mark.parametrize(
    "taps, how",
    [
        (65793, {}),
        (33026, dict(constant=False)),
        (65794, dict(op="DEPTHWISE_CONV2D")),
        (33026, dict(op="DEPTHWISE_CONV2D", constant=False)),
    ],
)
def test_kernels_whose_sums_no_int32_holds_stay(taps: int, how: dict) -> None:
    graph = tall(1, taps, **how)
    assert [str(operator) for operator in decompose(graph).operators] == [str(graph.operators[0])]


@pytest.mark.parametrize(
    "high, low, inside",
    [
        ((1 << 31) - 2 * (1 << 14) - 1, 255, True),
        ((1 << 31) - 2 * (1 << 14), 0, False),
        (-((1 << 31) - 2 * (1 << 14) - 1), 255, True),
        (-((1 << 31) - 2 * (1 << 14)), 0, False),
    ],
)
@pytest.mark.parametrize("op", ["CONV2D", "DEPTHWISE_CONV2D"])
def test_biases_that_fit_into_the_planes(op: str, high: int, low: int, inside: bool) -> None:
    """The upper one is an int32 with the largest sum, -128 by -128 twice; else the bias is added behind them."""
    graph = tall(1, 2, op=op, bias=256 * high + low)
    assert [operator.op for operator in decompose(graph).operators].count("ADD") == (1 if inside else 2)
    for value in (-32768, 32767):
        assert_equal_to_golden(graph, "base", {"x": np.full((1, 2, 1, 1), value, np.int16)})


@pytest.mark.parametrize("low, inside", [(0, True), (127, True), (128, False), (255, False)])
def test_the_lower_byte_of_a_bias_that_fits_into_the_low_plane(low: int, inside: bool) -> None:
    """255 * 128 * 65793 leaves 127 of an int32."""
    found = decompose(tall(1, 65793, op="DEPTHWISE_CONV2D", bias=low)).operators
    assert [operator.op for operator in found].count("ADD") == (1 if inside else 2)
