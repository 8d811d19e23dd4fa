"""Int8 networks with random weights of a seed, in the operators that a conversion of TFLite gives.

`resnet50.py` and `mobilenet_v2.py` write files of them: how a topology runs, not what it knows.
"""

import dataclasses
import math

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder

IMAGE_SIZE, CLASSES = 224, 1000
IMAGE_ZERO_POINT = -1
_DEVIATION = 40
"""Deviation of activations and weights in the int8 range: a few clip, as in trained networks."""
_RELU_ZERO_POINT = -128
_SUM_SCALE_BITS = 20
"""The residual add shifts its operands left by this number of bits first, as TFLite does."""


@dataclasses.dataclass(frozen=True)
class Activation:
    """An int8 image [1, size, size, channels]."""

    name: str
    size: int
    channels: int
    zero_point: int = _RELU_ZERO_POINT


class RandomNetwork:
    """The network under construction."""

    def __init__(self, name: str, seed: int):
        self.build = GraphBuilder(name)
        self.bias_deviation: float | None = None
        """Of biases, for a sum of one product; without it they are uniform below 20,000."""
        self._random = np.random.default_rng(seed)

    def image(self, size: int, channels: int, zero_point: int = _RELU_ZERO_POINT) -> Activation:
        name = self.build.input("input", (1, size, size, channels), DType.INT8)
        return Activation(name, size, channels, zero_point)

    def convolution(
        self, x: Activation, channels: int, kernel: int, stride: int = 1, *, linear: int | None = None
    ) -> Activation:
        """CONV2D with "same" padding, RESCALE by channel, and CLAMP for ReLU, or the zero point `linear`."""
        size = x.size // stride
        excess = (size - 1) * stride + kernel - x.size
        source = x.name
        if excess < 0:  # TOSA wants strides to come out even.
            rest = x.size + excess
            shape = [self.build.shape(v) for v in ([0] * 4, [1, rest, rest, x.channels])]
            source = self.build.add("SLICE", [source, *shape])
        cut = dataclasses.replace(x, name=source, size=x.size + min(excess, 0))
        weights = (channels, kernel, kernel, x.channels)
        sums = self._sums("CONV2D", cut, weights, channels, stride)
        return self._scaled(sums, kernel * kernel * x.channels, size, channels, linear)

    def depthwise(self, x: Activation, kernel: int, stride: int) -> Activation:
        """DEPTHWISE_CONV2D with "same" padding, RESCALE by channel, and CLAMP for ReLU."""
        sums = self._sums("DEPTHWISE_CONV2D", x, (kernel, kernel, x.channels, 1), x.channels, stride)
        return self._scaled(sums, kernel * kernel, x.size // stride, x.channels, None)

    def add(
        self, x: Activation, y: Activation, *, linear: int | None = None, ratio: float | None = None
    ) -> Activation:
        """The residual add: both operands wide, the first times `ratio`, and their sum scaled back."""
        wide = [
            self._rescale(a.name, DType.INT32, np.array([float(1 << bits)]), (a.zero_point, 0))
            for a, bits in ((x, _SUM_SCALE_BITS), (y, _SUM_SCALE_BITS - (ratio is not None)))
        ]
        if ratio is not None:
            wide[0] = self._rescale(wide[0], DType.INT32, np.array([ratio / 2]), (0, 0))
        back = np.array([0.75 / (1 << _SUM_SCALE_BITS)])
        return self._narrowed(self.build.add("ADD", wide), back, y.size, y.channels, linear)

    def pool(self, x: Activation, op: str, kernel: int, stride: int) -> Activation:
        """MAX_POOL2D or AVG_POOL2D."""
        size = -(-(x.size - kernel + 1) // stride) if op == "AVG_POOL2D" else x.size // stride
        excess = (size - 1) * stride + kernel - x.size
        attributes = dict(kernel=[kernel] * 2, stride=[stride] * 2, pad=[0, excess, 0, excess])
        if op == "MAX_POOL2D":
            name = self.build.add(op, [x.name], **attributes, nan_mode="PROPAGATE")
        else:
            zero_points = [self._value(x.zero_point, DType.INT8) for _ in range(2)]
            name = self.build.add(op, [x.name, *zero_points], **attributes, acc_type=DType.INT32)
        return Activation(name, size, x.channels, x.zero_point)

    def mean(self, x: Activation) -> Activation:
        """The mean of each channel, as a MEAN is converted: two sums of int32, scaled back."""
        name = self._rescale(x.name, DType.INT32, np.ones(1), (x.zero_point, 0))
        for axis in (1, 2):
            name = self.build.add("REDUCE_SUM", [name], axis=axis)
        scale = np.array([1 / x.size**2])
        return Activation(
            self._rescale(name, DType.INT8, scale, (0, x.zero_point)), 1, x.channels, x.zero_point
        )

    def finish(self, x: Activation) -> Graph:
        self.build.output(x.name)
        return self.build.finish()

    def _sums(self, op: str, x: Activation, shape: tuple[int, ...], channels: int, stride: int) -> str:
        """A convolution with random weights and biases, in int32."""
        kernel = shape[1]
        excess = (-(-x.size // stride) - 1) * stride + kernel - x.size
        before, after = excess // 2, excess - excess // 2
        weights = self._random.normal(0, _DEVIATION, shape)
        operands = [
            x.name,
            self.build.constant(np.clip(np.rint(weights), -127, 127), DType.INT8),
            self.build.constant(self._biases(channels, math.prod(shape) // channels), DType.INT32),
            self._value(x.zero_point, DType.INT8),
            self._value(0, DType.INT8),
        ]
        window = dict(pad=[before, after, before, after], stride=[stride] * 2, dilation=[1, 1])
        return self.build.add(op, operands, **window, acc_type=DType.INT32, local_bound=False)

    def _biases(self, channels: int, depth: int) -> np.ndarray:
        if self.bias_deviation is None:
            return self._random.integers(-20_000, 20_000, channels)
        return np.rint(self._random.normal(0, self.bias_deviation * math.sqrt(depth), channels))

    def _scaled(self, sums: str, depth: int, size: int, channels: int, linear: int | None) -> Activation:
        """The sums of `depth` products in int8, with a scale for each channel."""
        scales = self._random.uniform(0.9, 1.1, channels) / (_DEVIATION * math.sqrt(depth))
        return self._narrowed(sums, scales, size, channels, linear)

    def _narrowed(
        self, wide: str, scales: np.ndarray, size: int, channels: int, linear: int | None
    ) -> Activation:
        """RESCALE to int8, and ReLU unless `linear` gives the zero point."""
        zero_point = _RELU_ZERO_POINT if linear is None else linear
        name = self._rescale(wide, DType.INT8, scales, (0, zero_point))
        if linear is None:
            name = self.build.add("CLAMP", [name], min_val=zero_point, max_val=127, nan_mode="PROPAGATE")
        return Activation(name, size, channels, zero_point)

    def _value(self, value: int, dtype: DType) -> str:
        return self.build.constant([value], dtype)

    def _rescale(self, name: str, dtype: DType, scales: np.ndarray, zero_points: tuple[int, int]) -> str:
        """RESCALE by `scales`: one, or one for each channel."""
        fraction, exponent = np.frexp(scales)
        multiplier = np.minimum(np.rint(fraction * (1 << 31)), (1 << 31) - 1)
        source = self.build.graph.tensors[name].dtype
        return self.build.add(
            "RESCALE",
            [
                name,
                self.build.constant(multiplier, DType.INT32),
                self.build.constant(31 - exponent, DType.INT8),
                self._value(zero_points[0], source),
                self._value(zero_points[1], dtype),
            ],
            dtype=dtype,
            scale32=True,
            rounding_mode="DOUBLE_ROUND",
            per_channel=len(scales) > 1,
            input_unsigned=False,
            output_unsigned=False,
        )
