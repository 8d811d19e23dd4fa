"""The two products of an attention on the array: what each takes beside the array's own cycles."""

import numpy as np
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType
from tosaic.driver.session import Session


def _cycles(depth: int, columns: int, dtype: DType, zero_point: int = 0) -> int:
    """Cycles of a product of four heads of 256 rows with computed matrices, checked against golden."""
    build = LayerBuilder(5)
    x, y = build.input("x", (4, 256, depth), DType.INT8), build.input("y", (4, depth, columns), DType.INT8)
    zeros = [build.zero_point(DType.INT8, value) for value in (0, zero_point)]
    sums = build.add("MATMUL", [x, y, *zeros], dtype=DType.INT32)
    build.output(build.rescale(sums, dtype, double=False, shift=38))
    graph = build.finish()
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 1), check=True)
    return session.stats["layers"][-1]["cycles"]


def _array_cycles(depth: int, columns: int) -> int:
    steps, tiles = -(-depth // 16), -(-columns // 16)
    return int(4 * np.ceil(256 / 16) * tiles * steps * 16)


def test_matrices_are_packed_while_results_leave() -> None:
    """A step of the packing leaves behind a result of the layer: larger steps do so less often."""
    assert _cycles(24, 256, DType.INT16) < 1.2 * _array_cycles(24, 256)


def test_boxes_of_weights_with_a_zero_point_are_whole_tiles() -> None:
    """The array's rows are not divided there, so that a tile of a few pixels takes as long as any."""
    assert _cycles(256, 24, DType.INT8, -10) < 1.1 * _array_cycles(256, 24)
