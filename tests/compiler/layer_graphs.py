"""Small integer graphs that exercise one kind of layer each, with random constants."""

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder


class LayerBuilder(GraphBuilder):
    """A GraphBuilder that makes up constants from a seed."""

    def __init__(self, seed: int):
        super().__init__(f"seed {seed}")
        self.random = np.random.default_rng(seed)

    def zero_point(self, dtype: DType, value: int = 0) -> str:
        return self.constant(np.array([value]), dtype)

    def random_constant(self, shape: tuple[int, ...], dtype: DType, low: int, high: int) -> str:
        return self.constant(self.random.integers(low, high, shape, endpoint=True), dtype)

    def conv(
        self,
        x: str,
        channels: int,
        kernel: tuple[int, int],
        *,
        stride: tuple[int, int] = (1, 1),
        dilation: tuple[int, int] = (1, 1),
        pad: tuple[int, int, int, int] = (0, 0, 0, 0),
        input_zp: int = 0,
        weight_zp: int = 0,
        depthwise: bool = False,
    ) -> str:
        """CONV2D, or DEPTHWISE_CONV2D with `channels` as the channel multiplier."""
        ic = self.graph.tensors[x].shape[3]
        shape = (*kernel, ic, channels) if depthwise else (channels, *kernel, ic)
        count = ic * channels if depthwise else channels
        return self.add(
            "DEPTHWISE_CONV2D" if depthwise else "CONV2D",
            [
                x,
                self.random_constant(shape, DType.INT8, -128, 127),
                self.random_constant((count,), DType.INT32, -5000, 5000),
                self.zero_point(DType.INT8, input_zp),
                self.zero_point(DType.INT8, weight_zp),
            ],
            pad=list(pad),
            stride=list(stride),
            dilation=list(dilation),
            acc_type=DType.INT32,
            local_bound=False,
        )

    def rescale(
        self,
        x: str,
        dtype: DType,
        *,
        per_channel: bool = False,
        double: bool = True,
        input_zp: int = 0,
        output_zp: int = 0,
        shift: int = 40,
    ) -> str:
        """RESCALE by about 2^(31 - shift)."""
        source = self.graph.tensors[x]
        count = source.shape[-1] if per_channel else 1
        return self.add(
            "RESCALE",
            [
                x,
                self.random_constant((count,), DType.INT32, 1 << 30, (1 << 31) - 1),
                self.random_constant((count,), DType.INT8, shift - 1, shift + 1),
                self.zero_point(source.dtype, input_zp),
                self.zero_point(dtype, output_zp),
            ],
            dtype=dtype,
            scale32=True,
            rounding_mode="DOUBLE_ROUND" if double else "SINGLE_ROUND",
            per_channel=per_channel,
            input_unsigned=False,
            output_unsigned=False,
        )

    def clamp(self, x: str, low: int, high: int) -> str:
        return self.add("CLAMP", [x], min_val=low, max_val=high, nan_mode="PROPAGATE")

    def residual(self, a: str, b: str) -> str:
        """The int8 addition that TFLite's converter emits."""
        wide = [
            self.rescale(self.rescale(x, DType.INT32, input_zp=zp, shift=11), DType.INT32, shift=32)
            for x, zp in ((a, 3), (b, -7))
        ]
        return self.rescale(self.add("ADD", wide), DType.INT8, output_zp=5, shift=50)


def feeds(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Random inputs over the full range of each type."""
    random = np.random.default_rng(seed)
    values = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype is DType.BOOL:
            values[name] = random.integers(0, 2, tensor.shape).astype(bool)
        elif tensor.dtype is DType.INT32:
            # Small enough that no sum overflows, which TOSA leaves unpredictable.
            values[name] = random.integers(-(1 << 20), 1 << 20, tensor.shape, dtype=np.int32)
        else:
            values[name] = random.integers(
                tensor.dtype.min, tensor.dtype.max, tensor.shape, dtype=tensor.dtype.numpy, endpoint=True
            )
    return values
