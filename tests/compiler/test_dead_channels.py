"""Dead channels are removed exactly: what is left computes the same, and what must stay stays."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph, validate
from tosaic.compiler.legalize.constant_channels import absorbed
from tosaic.compiler.legalize.dead_channels import remove_dead_channels
from tosaic.compiler.legalize.normalise import normalise
from tosaic.driver.session import Session
from tosaic.errors import InputError
from tosaic.sim.golden import evaluate

COLUMNS = 4


class Sparse(LayerBuilder):
    """Convolutions some of whose channels have no weights."""

    def layer(
        self,
        x: str,
        channels: int,
        dead: list[int],
        *,
        kernel: int = 1,
        pad: int = 0,
        input_zp: int = -128,
        weight_zp: int = 0,
        output_zp: int = -128,
        bias: int | None = None,
        depthwise: bool = False,
    ) -> str:
        """A convolution, RESCALE to int8 and ReLU; the weights of the channels `dead` are all the zero point."""
        ic = self.graph.tensors[x].shape[3]
        shape = (kernel, kernel, ic, channels) if depthwise else (channels, kernel, kernel, ic)
        weights = self.random.integers(-100, 101, shape)
        weights[(..., dead, slice(None)) if depthwise else dead] = weight_zp
        count = ic * channels if depthwise else channels
        biases = self.random.integers(-30_000, 30_000, count) if bias is None else np.full(count, bias)
        sums = self.add(
            "DEPTHWISE_CONV2D" if depthwise else "CONV2D",
            [
                x,
                self.constant(weights, DType.INT8),
                self.constant(biases, DType.INT32),
                self.zero_point(DType.INT8, input_zp),
                self.zero_point(DType.INT8, weight_zp),
            ],
            pad=[pad] * 4,
            stride=[1, 1],
            dilation=[1, 1],
            acc_type=DType.INT32,
            local_bound=False,
        )
        rescaled = self.rescale(sums, DType.INT8, per_channel=True, output_zp=output_zp)
        return self.clamp(rescaled, output_zp, 127)

    def channels(self, graph: Graph, name: str) -> int:
        return graph.tensors[name].shape[-1]


def removed(graph: Graph, seed: int = 1) -> Graph:
    """The graph without dead channels, which computes the same."""
    smaller = remove_dead_channels(normalise(graph), COLUMNS)
    validate(smaller)
    values = feeds(graph, seed)
    before, after = (evaluate(g, values) for g in (graph, smaller))
    for name in graph.outputs:
        np.testing.assert_array_equal(before[name], after[name])
        assert before[name].dtype == after[name].dtype
    return smaller


def start(build: Sparse, channels: int = 6) -> str:
    return build.input("x", (1, 7, 6, channels), DType.INT8)


def weights(graph: Graph, op: str = "CONV2D") -> list[tuple[int, ...]]:
    return [graph.tensors[o.inputs[1]].shape for o in graph.operators if o.op == op]


def test_a_channel_at_the_zero_point_goes_through_padding():
    """A negative bias and ReLU: the channel is the next layer's zero point, which padding counts as, too."""
    build = Sparse(1)
    x = build.layer(start(build), 12, [0, 1, 5, 6, 7, 8, 9, 11], kernel=3, pad=1, bias=-5000)
    build.output(build.layer(x, 5, [], kernel=3, pad=1))
    assert weights(removed(build.finish())) == [(4, 3, 3, 6), (5, 3, 3, 4)]


def test_another_number_stays_where_padding_meets_it():
    build = Sparse(2)
    x = build.layer(start(build), 12, [0, 1, 5, 6, 7, 8, 9, 11], kernel=3, pad=1, bias=25_000)
    build.output(build.layer(x, 5, [], kernel=3, pad=1))
    assert weights(removed(build.finish())) == [(12, 3, 3, 6), (5, 3, 3, 12)]


def test_another_number_goes_into_the_bias_where_no_padding_is():
    build = Sparse(3)
    x = build.layer(start(build), 12, [0, 1, 5, 6, 7, 8, 9, 11], kernel=3, pad=1, bias=25_000)
    build.output(build.layer(x, 5, [], kernel=3))
    smaller = removed(build.finish())
    assert weights(smaller) == [(4, 3, 3, 6), (5, 3, 3, 4)]


def test_a_bias_that_would_overflow_stays_as_it_is():
    build = Sparse(4)
    x = build.layer(start(build), 12, list(range(8)), bias=25_000)
    y = build.layer(x, 5, [])
    bias = build.graph.tensors[build.graph.producer(build.graph.producer(y).inputs[0]).inputs[0]]
    convolution = build.graph.producer(bias.name)
    build.graph.tensors[convolution.inputs[2]].data[:] = (1 << 31) - 101
    build.output(build.add("IDENTITY", [bias.name]))
    graph = build.finish()
    smaller = remove_dead_channels(normalise(graph), COLUMNS)
    assert weights(smaller) == weights(graph)


def test_nobody_reads_a_channel():
    """The next layer has no weights for channels that are alive."""
    build = Sparse(5)
    x = build.layer(start(build), 8, [])
    y = build.layer(x, 5, [], kernel=3, pad=1)
    for operator in build.graph.operators:
        if operator.op == "CONV2D" and operator.inputs[0] == x:
            build.graph.tensors[operator.inputs[1]].data[..., 2:6] = 0
    build.output(y)
    assert weights(removed(build.finish())) == [(4, 1, 1, 6), (5, 3, 3, 4)]


def inverted(build: Sparse, x: str) -> str:
    return build.add("BITWISE_NOT", [x])


def masked(build: Sparse, x: str) -> str:
    """A constant of one number for each channel."""
    return build.add("BITWISE_AND", [x, build.constant(np.arange(8).reshape(1, 1, 1, 8) * 9, DType.INT8)])


def chosen(build: Sparse, x: str) -> str:
    larger = build.add(
        "GREATER", [build.add("CAST", [x], dtype=DType.INT32), build.constant([[[[3]]]], DType.INT32)]
    )
    return build.add("SELECT", [larger, x, build.constant(np.arange(8).reshape(1, 1, 1, 8), DType.INT8)])


@pytest.mark.parametrize("between", [inverted, masked, chosen])
def test_every_elementwise_operator_loses_a_channel_that_nobody_reads(between):
    build = Sparse(8)
    x = between(build, build.layer(start(build), 8, []))
    y = build.layer(x, 5, [])
    for operator in build.graph.operators:
        if operator.op == "CONV2D" and operator.inputs[0] == x:
            build.graph.tensors[operator.inputs[1]].data[..., 2:6] = 0
    build.output(y)
    assert weights(removed(build.finish())) == [(4, 1, 1, 6), (5, 1, 1, 4)]


@pytest.mark.parametrize("pad", [0, 1])
def test_depthwise_channels_go_with_their_input(pad):
    build = Sparse(6)
    x = build.layer(start(build), 12, [1, 2, 3, 4, 5, 6, 10, 11], bias=-9000)
    x = build.layer(x, 1, [1, 2], kernel=3, pad=pad, depthwise=True)
    x = build.layer(x, 8, [7])
    build.output(build.layer(x, 3, []))
    smaller = removed(build.finish())
    # Whether a depthwise channel is at the next layer's zero point does not matter to a 1x1 kernel.
    assert weights(smaller, "DEPTHWISE_CONV2D") == [(3, 3, 4, 1)]
    assert weights(smaller)[:2] == [(4, 1, 1, 6), (8, 1, 1, 4)]


def test_a_depthwise_channel_without_weights_needs_no_input():
    build = Sparse(7)
    x = build.layer(start(build), 8, [])
    x = build.layer(x, 1, [0, 3, 4, 5], kernel=3, pad=1, depthwise=True)
    build.output(build.layer(x, 3, []))
    smaller = removed(build.finish())
    assert weights(smaller) == [(4, 1, 1, 6), (3, 1, 1, 4)]


def test_both_sides_of_an_addition_lose_a_channel_that_nobody_reads():
    build = Sparse(8)
    x = start(build)
    a, b = (build.layer(x, 8, [2, 3, 4, 5], output_zp=zp) for zp in (3, -7))
    y = build.layer(build.residual(a, b), 4, [])
    for operator in build.graph.operators:
        if operator.outputs[0] == build.graph.producer(y).inputs[0]:
            sums = operator.inputs[0]
    build.graph.tensors[build.graph.producer(sums).inputs[1]].data[..., [0, 1, 2, 3]] = 0
    build.output(y)
    assert weights(removed(build.finish())) == [(4, 1, 1, 6), (4, 1, 1, 6), (4, 1, 1, 4)]


def test_what_leaves_the_network_or_is_mixed_stays():
    build = Sparse(9)
    x = build.layer(start(build), 12, list(range(1, 12)), bias=-5000)
    build.output(x)
    y = build.layer(x, 12, list(range(1, 12)), bias=-5000)
    build.output(build.add("REDUCE_MAX", [y], axis=3, nan_mode="PROPAGATE"))
    graph = build.finish()
    assert weights(removed(graph)) == weights(graph)


def test_everything_is_dead():
    """One channel is left, or one tile of the array."""
    build = Sparse(10)
    x = build.layer(start(build), 3, [0, 1, 2], bias=-5000)
    x = build.layer(x, 12, list(range(12)), bias=-5000)
    build.output(build.layer(x, 5, [0, 1]))
    assert weights(removed(build.finish())) == [(1, 1, 1, 6), (4, 1, 1, 1), (5, 1, 1, 4)]


@pytest.mark.parametrize("seed", range(30))
def test_random_networks(seed):
    build = Sparse(100 + seed)
    dice = np.random.default_rng(seed)
    x = start(build, int(dice.integers(1, 9)))
    for _ in range(int(dice.integers(2, 6))):
        count = build.channels(build.graph, x)
        depthwise = bool(dice.random() < 0.3)
        channels = 1 if depthwise else int(dice.integers(1, 14))
        size = count if depthwise else channels
        chosen = dice.random(size) < 0.5
        kernel = int(dice.choice([1, 3])) if min(build.graph.tensors[x].shape[1:3]) > 2 else 1
        x = build.layer(
            x,
            channels,
            list(np.flatnonzero(chosen)),
            kernel=kernel,
            pad=int(dice.integers(0, 2)) if kernel > 1 else 0,
            input_zp=int(dice.choice([-128, 5])),
            weight_zp=int(dice.choice([0, 7])),
            output_zp=int(dice.choice([-128, 5])),
            bias=int(dice.choice([-5000, 20_000])) if dice.random() < 0.7 else None,
            depthwise=depthwise,
        )
        if dice.random() < 0.2:
            build.output(x)
    if x not in build.graph.outputs:
        build.output(x)
    removed(build.finish(), seed)


def test_the_session_says_so():
    build = Sparse(11)
    x = build.layer(start(build), 12, [0, 1, 5, 6, 7, 8, 9, 11], kernel=3, pad=1, bias=-5000)
    build.output(build.layer(x, 5, [], kernel=3, pad=1))
    graph = build.finish()
    macs = []
    for drop in (False, True):
        session = Session(graph, "emulator", "nano", drop_dead_channels=drop)
        session.run(feeds(graph, 1), check=True)
        assert session.stats["dead_channels_removed"] is drop
        macs.append(session.stats["macs"])
    assert macs == [42 * 9 * (6 * 12 + 12 * 5), 42 * 9 * (6 * 4 + 4 * 5)]
    with pytest.raises(InputError, match="leave out one of them"):
        Session(graph, "emulator", "nano", drop_dead_channels=True, keep_layers=True)


@pytest.mark.parametrize("channels, unread, left", [(12, slice(1, 9), 4), (2, slice(0, 1), 1)])
def test_a_constant_for_each_channel_goes_with_them(channels: int, unread: slice, left: int) -> None:
    build = Sparse(12)
    x = build.rescale(build.layer(start(build), channels, []), DType.INT32, shift=30)
    for count in (channels, 1):
        other = build.random_constant((1, 1, 1, count), DType.INT32, -90, 90)
        x = build.add("MAXIMUM", [x, other], nan_mode="PROPAGATE")
    narrow = build.rescale(x, DType.INT8, shift=33)
    y = build.layer(narrow, 3, [])
    (reader,) = (operator for operator in build.graph.operators if operator.inputs[0] == narrow)
    build.graph.tensors[reader.inputs[1]].data[..., unread] = 0
    build.output(y)
    smaller = removed(build.finish())
    assert weights(smaller) == [(left, 1, 1, 6), (3, 1, 1, left)]
    constants = [smaller.tensors[o.inputs[1]].shape for o in smaller.operators if o.op == "MAXIMUM"]
    assert constants == [(1, 1, 1, left), (1, 1, 1, 1)]


@pytest.mark.parametrize("depthwise, multiplier", [(False, 5), (True, 2)])
def test_channels_that_nothing_is_known_of_are_not_absorbed(depthwise: bool, multiplier: int) -> None:
    """One answer for each of the image's six channels."""
    build = Sparse(13)
    y = build.conv(start(build), multiplier, (3, 3), depthwise=depthwise)
    (operator,) = build.graph.operators
    assert operator.outputs == [y]
    assert absorbed(build.graph, operator, None).tolist() == [False] * 6
    known: np.ma.MaskedArray = np.ma.masked_array(np.arange(6), mask=[0, 1, 1, 0, 1, 0])
    assert absorbed(build.graph, operator, known).tolist() == [True, False, False, True, False, True]
    operator.attributes["pad"] = [0, 0, 1, 0]
    # Padding counts as the zero point, which is 0.
    assert absorbed(build.graph, operator, known).tolist() == [True] + [False] * 5


@pytest.mark.parametrize("computed", [None, 1, 2])
def test_scales_that_are_computed_keep_their_channels(computed: int | None) -> None:
    """Nobody reads four channels of a tensor; they stay, because multipliers or shifts that are computed cannot be
    cut."""
    build = Sparse(15)
    narrow = build.rescale(build.conv(start(build), 12, (1, 1)), DType.INT8, per_channel=True)
    (scaled,) = (operator for operator in build.graph.operators if operator.op == "RESCALE")
    if computed is not None:
        tensor = build.graph.tensors[scaled.inputs[computed]]
        scaled.inputs[computed] = build.input("scales", tensor.shape, tensor.dtype)
    y = build.layer(narrow, 3, [])
    (reader,) = (operator for operator in build.graph.operators if operator.inputs[0] == narrow)
    build.graph.tensors[reader.inputs[1]].data[..., 2:6] = 0
    build.output(y)
    smaller = remove_dead_channels(normalise(build.finish()), COLUMNS)
    assert weights(smaller)[0] == ((8 if computed is None else 12), 1, 1, 6)
