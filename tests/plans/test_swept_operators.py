"""As test_planned_sweeps.py, of operators that become others: decomposed, split, looked up, packed, cut over cores.

Limits of rewrites are between these sizes; tests/recorded_runs.json has the programs and what was decided."""

import numpy as np
import pytest
from control_graphs import Control, plus
from indexed_graphs import resize_graph
from layer_graphs import LayerBuilder
from sweeps import Make, graph_of, swept

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config_text import get_config

I8, I16, I32 = DType.INT8, DType.INT16, DType.INT32


def _image(build: LayerBuilder, *shape: int, dtype: DType = I8) -> str:
    return build.input(f"x{len(build.graph.inputs)}", (1, *shape), dtype)


def _layer(build: LayerBuilder, x: str, channels: int, taps: int = 1, **options: object) -> str:
    y = build.conv(x, channels, (taps, taps), input_zp=3, **options)  # type: ignore[arg-type]
    return build.rescale(y, I8, per_channel=True)


def _nearest(build: LayerBuilder, n: int) -> Graph:
    """Twice or half as high, as wide or thrice as wide, of pixels below and above the limit for TILE."""
    height, width = ((2, 1, 0, 1), (1, 2, 0, -1))[n % 2], ((1, 1, 0, 0), (3, 1, 0, 2))[n // 2 % 2]
    return resize_graph((1, 6, 4, n), height, width, "NEAREST")[0]


def _bilinear(build: LayerBuilder, n: int) -> Graph:
    """The axis that grows less comes first; some are not interpolated at all."""
    height, width = (2 * n, 2 * ((5 * n) % 11 + 1), 0, 0), (2 * ((7 * n) % 9 + 1), 2, 0, 0)
    height = (*height[:3], -(5 * height[0] % height[1]))
    return resize_graph((1, 6, 4, 5), height, width, "BILINEAR")[0]


def _branches(build: LayerBuilder, n: int) -> Graph:
    """Of nearly as many elements as both are computed for."""
    control = Control()
    flag, x = control.input("flag", (), DType.BOOL), control.input("x", (1, 2048 + 64 * (n - 5)), I32)
    control.output(control.choose(flag, [x], plus(3), plus(-5))[0])
    return control.finish()


def _turns(build: LayerBuilder, n: int) -> Graph:
    """A state that fits the memory, or does not."""
    control = Control()
    turns, x = control.input("turns", (), I32), control.input("x", (1, 300 * n), I32)
    control.output(control.counted(turns, [x], plus(1))[0])
    return control.finish()


def _zero_points(build: LayerBuilder, n: int) -> str:
    """Computed at run time, of the data, of the weights, or of both; with padding or without."""
    x = build.input("x", (1, 5, 6, 7), I8)
    y = build.conv(x, n + 3, (3, 2), pad=(1, 1, 0, 0) if n % 2 else (0, 0, 0, 0))
    inputs = build.graph.operators[-1].inputs
    for place in {0: (3,), 1: (4,), 2: (3, 4)}[n % 3]:
        inputs[place] = build.input(f"zp{place}", (1,), I8)
    return y


def _matrix_zero_points(build: LayerBuilder, n: int) -> str:
    a, b = build.input("a", (2, n, 12), I8), build.input("b", (2, 12, 9), I8)
    zeros = [build.input("zp", (1,), I8), build.zero_point(I8, 2)]
    return build.add("MATMUL", [a, b, *(zeros if n % 2 else zeros[::-1])])


def _scales(build: LayerBuilder, n: int) -> str:
    """A multiplier, or a shift, or both are computed at run time."""
    y = build.rescale(_image(build, 3, n, 2 * n + 1, dtype=I32), I8, per_channel=n % 2 > 0)
    inputs, count = build.graph.operators[-1].inputs, 2 * n + 1 if n % 2 else 1
    if n % 3:
        inputs[1] = build.input("multiplier", (count,), I32)
    if n % 3 != 1:
        inputs[2] = build.input("shift", (count,), I8)
    return y


def _wide_convolution(build: LayerBuilder, n: int) -> str:
    """Of int16, in planes of bytes."""
    x = build.input("x", (1, 6, 7, n), I16)
    operands = [
        build.random_constant((5, 3, 3, n), I8, -128, 127),
        build.random_constant((5,), DType.INT48, -(1 << 30), 1 << 30),
        build.zero_point(I16),
        build.zero_point(I8),
    ]
    how = dict(pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=DType.INT48, local_bound=False)
    return build.add("CONV2D", [x, *operands], **how)


def _deep_convolution(build: LayerBuilder, n: int) -> str:
    x = build.input("x", (1, n + 1, 4, 5, 3), I8)
    operands = [
        build.random_constant((6, min(n, 3), 2, 2, 3), I8, -128, 127),
        build.random_constant((6,), I32, -99, 99),
        build.zero_point(I8, 2),
        build.zero_point(I8, -1),
    ]
    how = dict(stride=[1, 1, 1], dilation=[1, 1, 1], acc_type=I32, local_bound=False)
    return build.add("CONV3D", [x, *operands], pad=[n % 2, n % 2, 0, 0, 1, 1], **how)


def _scattered(build: LayerBuilder, n: int) -> str:
    values, rows = build.input("values", (1, 40 * n, 24), I8), build.input("rows", (1, 11 * n, 24), I8)
    return build.add("SCATTER", [values, build.input("indices", (1, 11 * n), I32), rows])


def _batches(build: LayerBuilder, n: int) -> str:
    """Few pixels of some images."""
    x = build.input("x", (n, 1 + n % 3, 2, 20), I8)
    return _layer(build, _layer(build, x, 24), 7)


def _multiplied(build: LayerBuilder, n: int) -> str:
    """Several outputs of each channel."""
    y = build.conv(_image(build, 7, 9, 11), 1 + n % 5, (3, 3), depthwise=True, stride=(1 + n % 2,) * 2)
    return build.rescale(y, I8)


def _dilated(build: LayerBuilder, n: int) -> str:
    y = build.conv(_image(build, 5 + n, 30, 6), 9, (2, 3), dilation=(n, 1 + n // 2))
    return build.rescale(y, I8)


def _same_channels(build: LayerBuilder, n: int) -> str:
    """Of 24 channels `n` have weights of zero: they are the same for all pixels."""
    x = _image(build, 5, 5, 8)
    y = build.conv(x, 24, (1, 1))
    weights = build.graph.tensors[build.graph.operators[-1].inputs[1]]
    assert weights.data is not None
    weights.data[:n] = 0
    y = build.clamp(build.rescale(y, I8), 0, 127)
    return _layer(build, y, 16, 3)


def _softmax(build: LayerBuilder, n: int) -> str:
    """Two tables, of about as many elements as are looked up at once."""
    x = build.input("x", (1, 32, 52 + 2 * n), I8)
    wide = build.rescale(x, I32, shift=31)
    most = build.add("REDUCE_MAX", [wide], axis=2, nan_mode="PROPAGATE")
    y = build.rescale(build.add("SUB", [wide, most]), I16, shift=26)
    tables = [build.random_constant((513,), I16, -99, 99) for _ in range(2)]
    low, high = (build.add("TABLE", [y, table]) for table in tables)
    shift = build.constant(np.full((1, 1, 1), 7), I32)
    return build.add("ADD", [build.add("ARITHMETIC_RIGHT_SHIFT", [low, shift], round=False), high])


def _large_kernel(build: LayerBuilder, n: int) -> str:
    return build.rescale(build.conv(_image(build, 40, 12, 5), 8, (2 * n, 9), pad=(n, n, 4, 4)), I8)


def _large_matrix(build: LayerBuilder, n: int) -> str:
    a, b = build.input("a", (1, 3, 96 * n), I8), build.input("b", (1, 96 * n, 5), I8)
    return build.add("MATMUL", [a, b, *(build.zero_point(I8, zp) for zp in (2, 0))])


def _large_rows(build: LayerBuilder, n: int) -> str:
    return build.add("REDUCE_MIN", [build.input("x", (2, 5, 32 * n), I8)], axis=1, nan_mode="PROPAGATE")


def _large_pool(build: LayerBuilder, n: int) -> str:
    x, how = _image(build, 6 * n, 24, 8), dict(kernel=[2 * n, 12], stride=[2 * n, 12], pad=[0] * 4)
    if n % 2:
        return build.add("MAX_POOL2D", [x], nan_mode="PROPAGATE", **how)
    zeros = [build.zero_point(I8, zp) for zp in (3, -3)]
    return build.add("AVG_POOL2D", [x, *zeros], acc_type=I32, **how)


def _small_pool(build: LayerBuilder, n: int) -> str:
    """By the array, or by rows and columns, where that is cheaper."""
    x, how = (
        _image(build, 16, 4 + n, 16),
        dict(kernel=[3, 3], stride=[1 + n % 2] * 2, pad=[1, n % 2 == 0, 1, 1]),
    )
    how["pad"][3] = int((4 + n + 2 - 3) % (1 + n % 2) == 0)  # type: ignore[index]
    if n % 3:
        return build.add("MAX_POOL2D", [x], nan_mode="PROPAGATE", **how)
    zeros = [build.zero_point(I8, zp) for zp in (3, -3)]
    return build.add("AVG_POOL2D", [x, *zeros], acc_type=I32, **how | {"pad": [0] * 4, "stride": [1, 1]})


def _computed_weights(build: LayerBuilder, n: int) -> str:
    x, w = _image(build, 4, 5, 6 * n), build.input("w", (12, 1 + n % 3, 1, 6 * n), I8)
    operands = [build.random_constant((12,), I32, -9, 9), *(build.zero_point(I8, zp) for zp in (1, 0))]
    how = dict(pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=I32, local_bound=False)
    return build.add("CONV2D", [x, w, *operands], **how)


def _scores(build: LayerBuilder, n: int) -> str:
    """A product with a transposed matrix; one row of it at first."""
    q, k = build.input("q", (2, 1 + n // 4, 4 * n), I8), build.input("k", (2, 13, 4 * n), I8)
    keys = build.add("TRANSPOSE", [k], perms=[0, 2, 1])
    return build.add("MATMUL", [q, keys, *(build.zero_point(I8) for _ in range(2))])


def _residuals(build: LayerBuilder, n: int) -> str:
    x = _layer(build, _image(build, 2 * n, 9, 16), 16, 3, pad=(1, 1, 1, 1))
    return build.residual(x, _layer(build, x, 16, 3, pad=(1, 1, 1, 1)))


def _classified(build: LayerBuilder, n: int) -> str:
    """A row of pixels for each core, channels, or both."""
    y = _layer(build, _image(build, 12, 2 * n, 16), 32, 3, pad=(1, 1, 1, 1))
    y = _layer(build, y, 16 * n)
    return _layer(build, build.add("RESHAPE", [y, build.shape((1, 12, 4, 8 * n * n))]), 24)


def _few_bits(build: LayerBuilder, n: int) -> str:
    """Weights that are mostly zero, which are smaller when coded."""
    x = _image(build, 4, 4, 32)
    y = build.conv(x, 8 * n, (3, 3), pad=(1, 1, 1, 1))
    weights = build.graph.tensors[build.graph.operators[-1].inputs[1]]
    assert weights.data is not None
    weights.data[...] = np.where(build.random.random(weights.shape) < n / 20, weights.data // 32, 0)
    return build.rescale(y, I8, per_channel=True)


def _padded(build: LayerBuilder, n: int) -> str:
    x = _image(build, 7, 3 * n, 5)
    padding = build.shape([0, 0, n % 3, 1, 2, n, 0, n % 2])
    return _layer(build, build.add("PAD", [x, padding, build.zero_point(I8, 3)]), 9, 3)


def _sliced(build: LayerBuilder, n: int) -> str:
    x = _image(build, 12, 3 + n, 16)
    part = build.add("SLICE", [x, build.shape([0, n % 5, 1, 8 * (n % 2)]), build.shape([1, 6, n, 8])])
    return _layer(build, part, 9)


def _divided(build: LayerBuilder, n: int) -> str:
    """Averages, per channel, of what is scaled behind a sum over rows."""
    x = build.rescale(build.input("x", (n, 24, 8), I8), I32, shift=24)
    total = build.add("REDUCE_SUM", [x], axis=1)
    return build.rescale(build.add("REDUCE_SUM", [total], axis=0), I16, per_channel=True, shift=36)


def _constant_table(build: LayerBuilder, n: int) -> str:
    """Rows of a constant, which comes ahead where it is small."""
    values = build.random_constant((1, 8 * (n + 1), 16), I8, -128, 127)
    y = build.add("GATHER", [values, build.input("indices", (1, 40), I32)])
    return build.clamp(y, 0, 100)


def _computed_table(build: LayerBuilder, n: int) -> str:
    """Of what comes from outside, or of what an operator makes."""
    table = build.input("table", (256 if n % 2 else 513,), I8 if n % 2 else I16)
    if n % 3:
        table = build.clamp(table, -90, 90)
    x = _image(build, 3, n, 10, dtype=I8 if n % 2 else I16)
    return build.add("TABLE", [x, table])


def _few_classes(build: LayerBuilder, n: int) -> str:
    """The place of the largest of what a convolution makes."""
    y = _layer(build, _image(build, 12, 11, 8), n + 1)
    return build.add("ARGMAX", [y], axis=3, nan_mode="PROPAGATE")


def _averaged_rows(build: LayerBuilder, n: int) -> str:
    """Sums over the first axis, or over the middle one, of what is scaled on the way in."""
    x = build.rescale(build.input("x", (5, 8 * n, 12), I8), I32, shift=24)
    total = build.add("REDUCE_SUM", [x], axis=n % 2)
    return build.rescale(total, I8, shift=40)


SWEEPS: dict[Make, tuple[str, ...]] = {
    _nearest: ("base", "nano"),
    _bilinear: ("base",),
    _branches: ("small",),
    _turns: ("small,am_bytes=4K",),
    _zero_points: ("base",),
    _matrix_zero_points: ("small",),
    _scales: ("base",),
    _wide_convolution: ("base",),
    _deep_convolution: ("base",),
    _scattered: ("base,am_bytes=16K", "small,am_bytes=4K"),
    _batches: ("base", "small"),
    _multiplied: ("base", "small"),
    _dilated: ("base", "small,am_bytes=8K"),
    _same_channels: ("base",),
    _softmax: ("base",),
    _large_kernel: ("small,am_bytes=4K,wm_bytes=4K",),
    _large_matrix: ("small,am_bytes=8K,wm_bytes=4K",),
    _large_rows: ("small,am_bytes=4K",),
    _large_pool: ("small,am_bytes=4K",),
    _small_pool: ("base", "small"),
    _computed_weights: ("base,am_bytes=16K", "small"),
    _scores: ("base", "small"),
    _residuals: ("base,am_bytes=16K",),
    _classified: ("base,cores=2,bus_words=2", "base,cores=4,bus_words=2"),
    _few_bits: ("base,cabac_engines=4", "base,cabac_engines=1,wm_bytes=8K", "base,unpackers=1"),
    _padded: ("base", "small,am_bytes=4K"),
    _sliced: ("base",),
    _divided: ("base",),
    _constant_table: ("small",),
    _computed_table: ("base", "small,am_bytes=4K"),
    _few_classes: ("base",),
    _averaged_rows: ("base", "small,am_bytes=4K"),
}
"""Graphs by a size, and the machines that they are compiled for."""
METHODS = {"cabac_engines": "nnr-stream", "unpackers": "fast"}
"""How weights are compressed where the machine can take them so."""
SPEEDS = (MemorySpeed(None, 50), MemorySpeed(4, 200))
"""In turn."""
SIZES, TOGETHER = range(1, 17), 8


@pytest.mark.filterwarnings("ignore::UserWarning")
@swept(SWEEPS, SIZES, TOGETHER)
def test_sizes(make: Make, machine: str, first: int) -> None:
    compress = next((method for part, method in METHODS.items() if part in machine), None)
    for size in range(first, first + TOGETHER):
        graph = graph_of(make, size)
        speed = SPEEDS[size // 2 % 2]
        program = compile_graph(graph, get_config(machine), compress=compress, speed=speed)
        assert [port.name for port in program.outputs] == list(graph.run_outputs)
