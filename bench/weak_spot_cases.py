"""Small networks, each with one thing that eight bits are known to do badly; `weak_spots.py` measures them."""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, activations, attention, convolution, statistics
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.power import power
from tosaic.compiler.importers.lowering.recurrent import lstm_cell, unroll, zeros
from tosaic.compiler.importers.lowering.resize import mix
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType, Graph, validate

ROWS, WIDTH = 32, 32
HEADS = 4
FLOAT = DType.FP32


class Net(Lowering):
    """A float network under construction, its constants seeded by its name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.divides_products = False
        """Whether `attend` divides what the product gave, not the shares."""

    def input(self, *shape: int) -> str:
        """The input x."""
        return self.build.input("x", shape, FLOAT)

    def real(self, values: np.ndarray | float) -> str:
        """A constant."""
        return self.constant(np.asarray(values, np.float64), FLOAT)

    def line(self, values: np.ndarray | list[float]) -> str:
        """A constant along the last of three axes."""
        return self.real(np.reshape(values, (1, 1, -1)))

    def linear(self, x: str, width: int = WIDTH, gains: np.ndarray | float = 1.0) -> str:
        """A layer of random weights; its results are as large as x, times `gains`."""
        depth = self.shape(x)[-1]
        return matmul(self, x, self.real(self.random.standard_normal((depth, width)) / depth**0.5 * gains))

    def convolve(self, x: str, width: int, size: int = 1, gains: np.ndarray | float = 1.0) -> str:
        """A convolution [N, H, W, C] of random weights, depthwise where `width` is 0."""
        depth = self.shape(x)[-1]
        inner, outer = (depth, width) if width else (1, depth)
        weight = self.random.standard_normal((outer, size, size, inner)) / (inner * size * size) ** 0.5
        weight *= np.broadcast_to(gains, (outer,))[:, None, None, None]
        windows = [AxisWindow(size, before=size // 2, after=size // 2)] * 2
        return convolution.convolve(self, x, self.real(weight), None, windows, 1 if width else depth)

    def attend(self, q: str, k: str, v: str) -> str:
        """softmax(q k') v of [batch, heads, tokens, size]."""
        scores = matmul(self, q, self.transpose(k, (0, 1, 3, 2)))
        powers = self.op("EXP", self.sub(scores, self.reduce("MAX", scores, (3,))))
        total = self.reduce("SUM", powers, (3,))
        if self.divides_products:
            return self.div(matmul(self, powers, v), total)
        return matmul(self, self.div(powers, total), v)


@dataclass(frozen=True)
class Case:
    """A network, and how its inputs are drawn."""

    name: str
    build: Callable[[Net], str]
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    divided: bool = False
    """Whether a softmax is in front of a product: with the division behind that, eight bits hold more."""

    def graph(self, best: bool = False) -> Graph:
        """The float graph, x to y; `best`: the same function in the form that loses least in eight bits."""
        net = Net(self.name)
        net.divides_products = best and self.divided
        net.build.output(self.build(net))
        validate(net.graph)
        return net.graph


CASES: dict[str, Case] = {}


def _normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.standard_normal(shape)


def case(name: str, draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] = _normal) -> Callable:
    """Registers a network by name."""

    def register(build: Callable[[Net], str]) -> Callable[[Net], str]:
        CASES[name] = Case(name, build, draw)
        return build

    return register


def _rows(net: Net) -> str:
    return net.input(1, ROWS, WIDTH)


# --- curves ----------------------------------------------------------------------------------------------------------


def _curve(name: str, curve: Callable[[Net, str], str], gain: float) -> None:
    """Puts a curve between two layers, over a range of about `gain` times 4 to both sides."""
    case(name)(lambda net: net.linear(curve(net, net.linear(_rows(net), gains=gain))))


_curve("exp, wide", lambda net, x: net.op("EXP", x), 1.5)
_curve("SiLU, wide", lambda net, x: net.mul(x, net.op("SIGMOID", x)), 8.0)
_curve("GELU, wide", activations.gelu, 8.0)
_curve("GELU, small", activations.gelu, 0.3)
_curve("Mish", activations.mish, 2.0)
_curve("softplus", activations.softplus, 2.0)
_curve("ELU", lambda net, x: activations.elu(net, x, 1.0), 2.0)
_curve("snake", lambda net, x: net.add(x, power(net, net.op("SIN", x), 2)), 2.0)
_curve("PReLU", lambda net, x: activations.leaky_relu(net, x, net.line(np.linspace(-0.5, 0.5, WIDTH))), 1.0)
_curve("power 0.5", lambda net, x: net.sqrt(net.op("ABS", x)), 1.0)
_curve("power 0.25", lambda net, x: net.sqrt(net.sqrt(net.op("ABS", x))), 1.0)
_curve(
    "softmax of 2",
    lambda net, x: statistics.softmax(net, net.reshape(x, (1, ROWS * WIDTH // 2, 2)), (2,)),
    1.0,
)
_curve("log softmax", lambda net, x: statistics.log_softmax(net, x, (2,)), 1.0)


@case("sigmoid below 0.02")
def _small_sigmoid(net: Net) -> str:
    return net.op("SIGMOID", net.plus(net.linear(_rows(net), gains=0.5), -6.0))


# --- norms and quotients ---------------------------------------------------------------------------------------------


def _outlier(times: float) -> np.ndarray:
    return np.where(np.arange(WIDTH) == 3, times, 1.0)


def _norm(name: str, gains: np.ndarray | float, mean: bool = True) -> None:
    def build(net: Net) -> str:
        x = net.linear(_rows(net), gains=gains)
        if mean:
            return net.linear(statistics.standardize(net, x, (2,), 1e-5)[0])
        return net.linear(net.mul(x, net.op("RSQRT", net.plus(net.mean(net.mul(x, x), (2,)), 1e-5))))

    case(name)(build)


_norm("LayerNorm", 1.0)
_norm("LayerNorm, outlier x60", _outlier(60.0))
_norm("RMSNorm", 1.0, mean=False)


def _instance_norm(name: str, ratio: float, epsilon: float) -> None:
    @case(name)
    def build(net: Net) -> str:
        x = net.convolve(net.input(1, 8, 8, 8), 16, gains=np.geomspace(1, 1 / ratio, 16))
        return net.convolve(statistics.standardize(net, x, (1, 2), epsilon)[0], 8)


_instance_norm("InstanceNorm, 3 : 1", 3, 1e-5)
_instance_norm("InstanceNorm, 100 : 1", 100, 1e-5)
_instance_norm("InstanceNorm, 1000 : 1", 1000, 1e-9)


@case("x / norm")
def _by_norm(net: Net) -> str:
    x = net.linear(_rows(net))
    return net.linear(net.mul(x, net.op("RSQRT", net.plus(net.reduce("SUM", net.mul(x, x), (2,)), 1e-9))))


@case("x / sum")
def _by_sum(net: Net) -> str:
    x = net.op("ABS", net.linear(_rows(net)))
    return net.linear(net.div(x, net.reduce("SUM", x, (2,))))


@case("x / y")
def _by_another(net: Net) -> str:
    x = _rows(net)
    return net.linear(net.div(net.linear(x), net.plus(net.op("ABS", net.linear(x)), 0.5)))


@case("magnitude")
def _magnitude(net: Net) -> str:
    x = _rows(net)
    parts = [net.linear(x) for _ in range(2)]
    return net.linear(net.sqrt(net.add(*(net.mul(part, part) for part in parts))))


# --- differences of likes --------------------------------------------------------------------------------------------


@case("E[x^2] - m^2")
def _statistics_pooling(net: Net) -> str:
    x = net.add(net.linear(_rows(net), gains=0.2), net.line(2.0 * net.random.standard_normal(WIDTH)))
    mean = net.mean(x, (1,))
    variance = net.sub(net.mean(net.mul(x, x), (1,)), net.mul(mean, mean))
    return net.linear(net.concat([mean, net.sqrt(net.plus(variance, 1e-5))], 2))


@case("x + 0.02 f(x) - x")
def _small_step(net: Net) -> str:
    x = net.linear(_rows(net))
    y = net.add(x, net.times(net.op("TANH", net.linear(x)), 0.02))
    return net.linear(net.sub(y, x))


def _shifted(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.standard_normal(shape) + 20.0 * random.standard_normal((shape[0], 1, 1, 1))


@case("x less its mean", _shifted)
def _less_mean(net: Net) -> str:
    x = net.op("TANH", net.times(_rows(net), 0.02))
    return net.concat([net.linear(net.sub(x, net.mean(x, (2,)))), net.times(net.linear(x), 0.1)], 2)


@case("difference of neighbours")
def _neighbours(net: Net) -> str:
    ramp = np.tril(np.ones((ROWS, ROWS)))[None] / ROWS**0.5
    x = matmul(net, net.real(ramp), net.linear(_rows(net)))
    steps = net.sub(net.slice_axis(x, 1, 1, ROWS - 1), net.slice_axis(x, 1, 0, ROWS - 1))
    return net.concat([net.linear(steps), net.slice_axis(net.times(net.linear(x), 0.2), 1, 1, ROWS - 1)], 2)


# --- channels of many sizes ------------------------------------------------------------------------------------------


@case("residual stream, outlier x40")
def _residual(net: Net) -> str:
    x = net.linear(_rows(net), gains=_outlier(40.0))
    for _ in range(3):
        x = net.add(
            x, net.linear(activations.gelu(net, net.linear(statistics.standardize(net, x, (2,), 1e-5)[0])))
        )
    return net.linear(x, gains=1.0)


def _depthwise(name: str, curve: Callable[[Net, str], str]) -> None:
    @case(name)
    def build(net: Net) -> str:
        x = net.convolve(net.input(1, 8, 8, 8), 16)
        return net.convolve(curve(net, net.convolve(x, 0, 3, np.geomspace(0.1, 10, 16))), 8)


_depthwise("depthwise outliers, ReLU6", lambda net, x: net.clamp(x, 0.0, 6.0))
_depthwise(
    "depthwise outliers, hard swish", lambda net, x: net.mul(x, activations.hard_sigmoid(net, x, 1 / 6, 0.5))
)


@case("concat 100 : 1")
def _concat(net: Net) -> str:
    x = _rows(net)
    parts = [net.linear(x, gains=100.0), net.linear(x)]
    gains = np.repeat([0.01, 1.0], WIDTH)
    weight = net.random.standard_normal((2 * WIDTH, WIDTH)) * gains[:, None] / WIDTH**0.5
    return matmul(net, net.concat(parts, 2), net.real(weight))


@case("squeeze-excite")
def _squeeze(net: Net) -> str:
    x = net.convolve(net.input(1, 8, 8, 8), 16, 3)
    gate = activations.relu(net, net.convolve(net.mean(x, (1, 2)), 4))
    return net.convolve(net.mul(x, net.op("SIGMOID", net.convolve(gate, 16, gains=3.0))), 8)


@case("resize")
def _resize(net: Net) -> str:
    x = net.convolve(net.input(1, 8, 8, 8), 16, 3)
    between = np.maximum(0, 1 - np.abs(np.arange(8)[:, None] - np.arange(15)[None] / 2))
    for axis in (1, 2):
        x = mix(net, x, axis, between)
    return net.convolve(activations.relu(net, x), 8)


# --- attention -------------------------------------------------------------------------------------------------------


def _attention(name: str, tokens: int, gains: list[float], loudness: list[float]) -> None:
    def build(net: Net) -> str:
        x, size = net.input(1, tokens, WIDTH), WIDTH // HEADS
        parts = [net.linear(x, gains=g) for g in (np.repeat(gains, size), 1.0, 1.0)]
        q, k, v = (attention.by_heads(net, part, HEADS) for part in parts)
        y = net.attend(net.times(q, size**-0.5), k, v)
        return net.linear(net.mul(attention.joined_heads(net, y), net.line(np.repeat(loudness, size))))

    CASES[name] = Case(name, build, _normal, divided=True)


_attention("attention, 64 tokens", 64, [1.0] * 4, [1.0] * 4)
_attention("attention, 512 tokens", 512, [1.0] * 4, [1.0] * 4)
_attention("attention, 512, heads that differ", 512, [40.0, 0.01, 0.01, 0.01], [1.0, 22.0, 22.0, 22.0])


# --- sound and time --------------------------------------------------------------------------------------------------


@case("log-mel")
def _log_mel(net: Net) -> str:
    x = net.input(1, ROWS, 256)
    angles = 2 * np.pi * np.outer(np.arange(256), np.arange(65)) / 256
    window = np.hanning(256)[:, None]
    parts = [matmul(net, x, net.real(window * wave / 8)) for wave in (np.cos(angles), np.sin(angles))]
    powers = net.add(*(net.mul(part, part) for part in parts))
    filters = np.maximum(0, 1 - np.abs(np.arange(65)[:, None] / 4 - np.arange(16)[None]))
    return net.op("LOG", net.plus(matmul(net, powers, net.real(filters)), 1e-6))


@case("LSTM, 160 steps")
def _lstm(net: Net) -> str:
    x, hidden = net.input(160, 1, 16), 16
    sums = net.linear(x, 4 * hidden)
    recurrent = net.real(net.random.standard_normal((hidden, 4 * hidden)) * 0.5 / hidden**0.5)

    def step(x_t: str, states: list[str]) -> list[str]:
        return lstm_cell(net, net.add(x_t, matmul(net, states[0], recurrent)), states[1])

    _, (last, _) = unroll(net, sums, [zeros(net, (1, hidden), x)] * 2, step)
    return net.linear(net.reshape(last, (1, 1, hidden)), 8)


@case("smoother, 64 steps", lambda random, shape: random.standard_normal(shape) + 1.0)
def _smoother(net: Net) -> str:
    x, state = net.input(64, 1, 32), None
    for time in range(64):
        now = net.reshape(net.slice_axis(x, 0, time, 1), (1, 32))
        state = now if state is None else net.add(net.times(state, 0.9), net.times(now, 0.1))
    assert state is not None
    return state


@case("a sum of 40,000 products")
def _deep(net: Net) -> str:
    return net.linear(net.input(1, 32, 40_000), 8)


@case("ramp of sines")
def _sines(net: Net) -> str:
    x = net.linear(_rows(net), gains=math.pi)
    return net.linear(net.concat([net.op("SIN", x), net.op("COS", x)], 2))
