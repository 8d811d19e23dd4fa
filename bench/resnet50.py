"""ResNet-50 at 224x224, int8, with random weights, as a .tosa file: how large networks run, not what they know.

    python bench/resnet50.py resnet50.tosa
    python bench/resnet50.py stage3.tosa --stage 3
    tosaic bench resnet50.tosa --on emulator --check
    tosaic bench stage3.tosa --check

The topology of torchvision (strides in the 3x3 convolutions), in the operators a TFLite conversion gives.
`--stage N` is the first two blocks of stage N alone: the one that halves the image and widens it, and another.
"""

import argparse
import dataclasses
import math

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder, write_tosa

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Channels inside the blocks, blocks, stride of the first one."""
_IMAGE, _CLASSES, _EXPANSION = 224, 1000, 4
_DEVIATION = 40
"""Deviation of activations and weights in the int8 range: a few clip, as in trained networks."""
_INPUT_ZP, _ZP = -1, -128
"""Zero points of the image and, behind ReLU, of activations."""
_SUM_SCALE_BITS = 20
"""The residual add shifts its operands left by this number of bits first, as TFLite does."""


@dataclasses.dataclass(frozen=True)
class Activation:
    """An int8 image [1, size, size, channels]."""

    name: str
    size: int
    channels: int
    zero_point: int


class ResNet:
    """The network under construction."""

    def __init__(self, name: str, seed: int):
        self.build = GraphBuilder(name)
        self._random = np.random.default_rng(seed)

    def image(self, size: int, channels: int, zero_point: int) -> Activation:
        name = self.build.input("input", (1, size, size, channels), DType.INT8)
        return Activation(name, size, channels, zero_point)

    def convolution(
        self, x: Activation, channels: int, kernel: int, stride: int = 1, *, relu: bool = True
    ) -> Activation:
        """CONV2D with "same" padding, RESCALE by channel, and CLAMP for ReLU."""
        size = x.size // stride
        excess = (size - 1) * stride + kernel - x.size
        source = x.name
        if excess < 0:  # TOSA wants strides to come out even.
            rest = x.size + excess
            shape = [self.build.shape(v) for v in ([0] * 4, [1, rest, rest, x.channels])]
            source = self.build.add("SLICE", [source, *shape])
        before, after = max(excess, 0) // 2, max(excess, 0) - max(excess, 0) // 2
        depth = kernel * kernel * x.channels
        weights = self._random.normal(0, _DEVIATION, (channels, kernel, kernel, x.channels))
        sums = self.build.add(
            "CONV2D",
            [
                source,
                self.build.constant(np.clip(np.rint(weights), -127, 127), DType.INT8),
                self.build.constant(self._random.integers(-20_000, 20_000, channels), DType.INT32),
                self._value(x.zero_point, DType.INT8),
                self._value(0, DType.INT8),
            ],
            pad=[before, after, before, after],
            stride=[stride, stride],
            dilation=[1, 1],
            acc_type=DType.INT32,
            local_bound=False,
        )
        scales = self._random.uniform(0.9, 1.1, channels) / (_DEVIATION * math.sqrt(depth))
        zero_point = _ZP if relu else 0
        out = self._rescale(sums, DType.INT8, scales, (0, zero_point))
        return Activation(self._relu(out) if relu else out, size, channels, zero_point)

    def block(self, x: Activation, channels: int, stride: int) -> Activation:
        """A bottleneck block."""
        y = self.convolution(x, channels, 1)
        y = self.convolution(y, channels, 3, stride)
        y = self.convolution(y, _EXPANSION * channels, 1, relu=False)
        if y.channels != x.channels or stride > 1:
            x = self.convolution(x, _EXPANSION * channels, 1, stride, relu=False)
        wide = [
            self._rescale(a.name, DType.INT32, np.array([float(1 << _SUM_SCALE_BITS)]), (a.zero_point, 0))
            for a in (x, y)
        ]
        total = self.build.add("ADD", wide)
        out = self._rescale(total, DType.INT8, np.array([0.75 / (1 << _SUM_SCALE_BITS)]), (0, _ZP))
        return Activation(self._relu(out), y.size, y.channels, _ZP)

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

    def finish(self, x: Activation) -> Graph:
        self.build.output(x.name)
        return self.build.finish()

    def _relu(self, name: str) -> str:
        return self.build.add("CLAMP", [name], min_val=_ZP, max_val=127, nan_mode="PROPAGATE")

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


def resnet50(seed: int = 0) -> Graph:
    """The whole network: an int8 image [1, 224, 224, 3] to 1000 int8 logits."""
    net = ResNet("resnet50", seed)
    x = net.convolution(net.image(_IMAGE, 3, _INPUT_ZP), 64, 7, 2)
    x = net.pool(x, "MAX_POOL2D", 3, 2)
    for channels, blocks, stride in STAGES:
        for block in range(blocks):
            x = net.block(x, channels, stride if block == 0 else 1)
    x = net.pool(x, "AVG_POOL2D", x.size, 1)
    return net.finish(net.convolution(x, _CLASSES, 1, relu=False))


def stage(number: int, seed: int = 0) -> Graph:
    """The first two blocks of stage 2, 3 or 4."""
    channels, _, stride = STAGES[number - 1]
    net = ResNet(f"resnet50 stage {number}", seed)
    x = net.image(_IMAGE // (1 << number), _EXPANSION * STAGES[number - 2][0], _ZP)
    for step in (stride, 1):
        x = net.block(x, channels, step)
    return net.finish(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", help="the .tosa file to write")
    parser.add_argument("--stage", type=int, choices=(2, 3, 4), help="two blocks of this stage alone")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    write_tosa(stage(chosen.stage, chosen.seed) if chosen.stage else resnet50(chosen.seed), chosen.file)


if __name__ == "__main__":
    main()
