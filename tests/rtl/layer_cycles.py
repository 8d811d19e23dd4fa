"""Cycles layer by layer, predicted and counted; and a network of many kinds of layers."""

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.driver.session import Session

LARGEST_ERROR = 0.03
FEW_CYCLES = 4
"""An error of this number of cycles is never too much: a short layer's error is that of its neighbour's end."""
LARGEST_COUNTER_ERROR = 0.05
FEW_COUNTS = 40
"""Likewise of a counter over a whole run."""


class Builder(GraphBuilder):
    """Constants from a seed, and the operators that quantized networks are made of."""

    def __init__(self) -> None:
        super().__init__("many kinds of layers")
        self.random = np.random.default_rng(11)

    def number(self, value: int, dtype: DType) -> str:
        return self.constant([value], dtype)

    def convolution(
        self, x: str, channels: int, kernel: int, stride: int = 1, *, depthwise: bool = False
    ) -> str:
        """A convolution with "same" padding (of even images), to int8."""
        ic = self.graph.tensors[x].shape[3]
        shape = (kernel, kernel, ic, 1) if depthwise else (channels, kernel, kernel, ic)
        operands = [x, self.constant(self.random.integers(-128, 128, shape), DType.INT8)]
        bias = self.random.integers(-9000, 9000, ic if depthwise else channels)
        operands += [self.constant(bias, DType.INT32), self.number(3, DType.INT8), self.number(0, DType.INT8)]
        after = (kernel - 1) // 2
        before = after + 1 - stride if kernel > 1 else 0
        attributes = {"pad": [before, after] * 2, "stride": [stride] * 2, "dilation": [1, 1]}
        sums = self.add(
            "DEPTHWISE_CONV2D" if depthwise else "CONV2D",
            operands,
            **attributes,
            acc_type=DType.INT32,
            local_bound=False,
        )
        return self.rescale(sums, DType.INT8, 40, per_channel=True)

    def rescale(
        self, x: str, dtype: DType, shift: int, zero_point: int = 0, per_channel: bool = False
    ) -> str:
        source = self.graph.tensors[x]
        count = source.shape[-1] if per_channel else 1
        operands = [
            x,
            self.constant(self.random.integers(1 << 30, 1 << 31, count), DType.INT32),
            self.constant(np.full(count, shift), DType.INT8),
            self.number(zero_point if source.dtype is DType.INT8 else 0, source.dtype),
            self.number(0, dtype),
        ]
        return self.add(
            "RESCALE",
            operands,
            dtype=dtype,
            scale32=True,
            rounding_mode="DOUBLE_ROUND",
            per_channel=per_channel,
            input_unsigned=False,
            output_unsigned=False,
        )

    def residual(self, a: str, b: str) -> str:
        wide = [self.rescale(x, DType.INT32, 11, 3) for x in (a, b)]
        return self.rescale(self.add("ADD", wide), DType.INT8, 50)

    def softmax(self, x: str) -> str:
        """The shape of TFLite's softmax: maximum, table, sum, leading zeros, product."""
        axis = {"axis": len(self.graph.tensors[x].shape) - 1}
        wide = self.rescale(x, DType.INT32, 30)
        largest = self.add("REDUCE_MAX", [wide], **axis, nan_mode="PROPAGATE")
        below = self.rescale(self.add("SUB", [wide, largest]), DType.INT16, 24)
        table = self.constant(np.linspace(0, 32767, 513).astype(int), DType.INT16)
        powers = self.add("TABLE", [below, table])
        total = self.add("REDUCE_SUM", [powers], **axis)
        zeros = self.add("CLZ", [total])
        shape = self.graph.tensors[zeros].shape
        limit = self.constant(np.full(shape, 12), DType.INT32)
        scale = self.add(
            "LOGICAL_RIGHT_SHIFT", [total, self.add("MINIMUM", [zeros, limit], nan_mode="PROPAGATE")]
        )
        small = self.add(
            "ARITHMETIC_RIGHT_SHIFT",
            [powers, self.constant(np.full([1] * len(shape), 10), DType.INT32)],
            round=True,
        )
        return self.rescale(self.add("ADD", [small, scale]), DType.INT8, 40)


def many_layers() -> Graph:
    """Convolutions of all mappings, pools, elementwise operators, a softmax, rows gathered and scattered."""
    build = Builder()
    x = build.input("image", (1, 24, 24, 3), DType.INT8)
    x = build.convolution(x, 16, 3, 2)
    x = build.convolution(x, 16, 3, depthwise=True)
    x = build.convolution(x, 40, 1)
    y = build.convolution(x, 40, 3)
    x = build.residual(x, y)
    pool = {"kernel": [2, 2], "stride": [2, 2], "pad": [0] * 4}
    x = build.add("MAX_POOL2D", [x], **pool, nan_mode="PROPAGATE")
    x = build.convolution(x, 0, 3, 2, depthwise=True)
    zeros = [build.number(0, DType.INT8) for _ in range(2)]
    x = build.add("AVG_POOL2D", [x, *zeros], kernel=[3, 3], stride=[1, 1], pad=[0] * 4, acc_type=DType.INT32)
    x = build.convolution(x, 200, 1)
    build.output(build.softmax(build.convolution(x, 120, 1)))
    rows = build.input("rows", (1, 300, 48), DType.INT8)
    indices = build.input("indices", (1, 100), DType.INT32)
    build.output(build.add("GATHER", [rows, indices]))
    part = build.input("part", (1, 100, 48), DType.INT8)
    build.output(build.add("SCATTER", [rows, indices, part]))
    return build.finish()


def values_of(session: Session) -> dict[str, np.ndarray]:
    """Random inputs; int32 ones are indices, each once."""
    random = np.random.default_rng(3)
    return {
        argument.name: random.permutation(300)[:100].reshape(argument.shape).astype(np.int32)
        if argument.type is DType.INT32
        else random.integers(-128, 128, argument.shape).astype(np.int8)
        for argument in session.inputs
    }
