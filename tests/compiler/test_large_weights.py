"""Matrices larger than the activation memory, with another operand for each result: they come once."""

import pytest
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session

ROWS = 64


def gated(channels: int, results: int) -> Graph:
    """A matrix product of some rows, whose results are multiplied by an input."""
    build = LayerBuilder(1)
    x, y = (
        build.input(name, (ROWS, 1, 1, size), dtype)
        for name, size, dtype in (("x", channels, DType.INT8), ("y", results, DType.INT16))
    )
    sums = build.rescale(build.conv(x, results, (1, 1)), DType.INT16, per_channel=True, shift=34)
    product = build.add("MUL", [sums, y, build.zero_point(DType.INT8)], dtype=DType.INT32)
    build.output(build.rescale(product, DType.INT8, shift=50))
    return build.finish()


@pytest.mark.parametrize("channels, results", [(640, 2048), (768, 1536)])
def test_weights_come_once(channels: int, results: int) -> None:
    """Boxes of all rows and few channels: with boxes of 16 rows they came four times, in 1.1 times the cycles."""
    graph = gated(channels, results)
    session = Session(graph, target="emulator", config="base,am_bytes=64K")
    session.run(feeds(graph, 2), check=True)
    assert session.stats["dram_read_bytes"] < 1.5 * channels * results
    assert session.stats["cycles"] < 1.03 * ROWS * channels * results / 256
