"""Random legal networks: they run bit-exact on the emulator, with and without fusion; never an internal error."""

import math

import numpy as np
import pytest

from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.driver.session import Session
from tosaic.hw.config import CONFIGS


class RandomNetwork(GraphBuilder):
    """Adds random operators on int8 tensors, each on any tensor made so far."""

    def __init__(self, seed: int):
        super().__init__(f"random {seed}")
        self.random = np.random.default_rng(seed)

    def choose(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high, endpoint=True))

    def values(self, shape: tuple[int, ...], dtype: DType, low: int, high: int) -> str:
        return self.constant(self.random.integers(low, high, shape, endpoint=True), dtype)

    def rescale(self, x: str, dtype: DType, shift: int) -> str:
        source = self.graph.tensors[x].dtype
        operands = [
            self.values((1,), DType.INT32, 1 << 30, (1 << 31) - 1),
            self.constant([shift], DType.INT8),
        ]
        operands += [self.constant([0], source), self.constant([0], dtype)]
        flags = {"scale32": True, "per_channel": False, "input_unsigned": False, "output_unsigned": False}
        return self.add("RESCALE", [x, *operands], dtype=dtype, rounding_mode="SINGLE_ROUND", **flags)

    def convolution(self, x: str, shape: tuple[int, ...]) -> str:
        depthwise, kernel = bool(self.choose(0, 1)), [self.choose(1, min(4, size)) for size in shape[1:3]]
        count = self.choose(1, 2) if depthwise else self.choose(1, 20)
        weight = (*kernel, shape[3], count) if depthwise else (count, *kernel, shape[3])
        operands = [x, self.values(weight, DType.INT8, -128, 127)]
        operands.append(self.values((count * shape[3] if depthwise else count,), DType.INT32, -5000, 5000))
        operands += [self.values((1,), DType.INT8, -128, 127), self.constant([0], DType.INT8)]
        window = {"pad": [0, kernel[0] - 1, kernel[1] - 1, 0], "stride": [1, 1], "dilation": [1, 1]}
        op = "DEPTHWISE_CONV2D" if depthwise else "CONV2D"
        y = self.add(op, operands, acc_type=DType.INT32, local_bound=False, **window)
        return self.rescale(y, DType.INT8, 40)

    def grow(self, x: str, known: list[str]) -> str:
        shape = self.graph.tensors[x].shape
        match self.choose(0, 6):
            case 0 | 1 if len(shape) == 4:
                return self.convolution(x, shape)
            case 2:
                same = [name for name in known if self.graph.tensors[name].shape == shape]
                other = same[self.choose(0, len(same) - 1)]
                wide = [self.rescale(name, DType.INT32, 20) for name in (x, other)]
                return self.rescale(self.add("ADD", wide), DType.INT8, 41)
            case 3:
                return self.add("TABLE", [x, self.values((256,), DType.INT8, -128, 127)])
            case 4:
                flat = [math.prod(shape)] if self.choose(0, 1) else [1, math.prod(shape)]
                return self.add("RESHAPE", [x, self.shape(flat)])
            case 5:
                wide = self.rescale(x, DType.INT32, 20)
                y = self.add("REDUCE_SUM", [wide], axis=self.choose(0, len(shape) - 1))
                return self.rescale(y, DType.INT8, 43)
            case 6:
                start = [self.choose(0, size - 1) for size in shape]
                size = [self.choose(1, whole - first) for whole, first in zip(shape, start, strict=True)]
                return self.add("SLICE", [x, self.shape(start), self.shape(size)])
        return self.add("CLAMP", [x], min_val=-100, max_val=99, nan_mode="PROPAGATE")


def network(seed: int) -> Graph:
    build = RandomNetwork(seed)
    shape = (build.choose(1, 2), build.choose(1, 12), build.choose(1, 12), build.choose(1, 35))
    known = [build.input("x", shape, DType.INT8)]
    for _ in range(build.choose(1, 6)):
        known.append(build.grow(known[build.choose(0, len(known) - 1)], known))
    read = {name for operator in build.graph.operators for name in operator.inputs}
    for name in known:
        if name not in read or not build.choose(0, 3):
            build.output(name)
    return build.finish()


# 142: two unary operators behind a RESHAPE.
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("seed", [*range(12), 142])
def test_random_network(seed: int, config: str) -> None:
    graph = network(seed)
    x = np.random.default_rng(seed).integers(-128, 128, graph.tensors["x"].shape, dtype=np.int8)
    for options in ({}, {"keep_layers": True}, {"optimize": False, "keep_layers": True}):
        Session(graph, "emulator", config, **options).run({"x": x}, check=True)
