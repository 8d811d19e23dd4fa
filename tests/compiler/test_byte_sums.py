"""Sums of the bytes of each row are convolutions by ones, where other layers read the bytes too."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session


def powers(
    shape: tuple[int, ...], *, zero_point: int = -128, by_cast: bool = False, also: bool = True
) -> Graph:
    """Bytes and the sum of each row of them, as a softmax has them; `also`: others read the bytes, too."""
    build = LayerBuilder(7)
    made = build.rescale(build.input("x", shape, DType.INT16), DType.INT8, double=False, shift=38)
    if also:
        build.output(made)
    if by_cast:
        wide = build.add("CAST", [made], dtype=DType.INT32)
    else:
        one = [build.constant([1 << 30], DType.INT32), build.constant([30], DType.INT8)]
        zeros = [build.zero_point(DType.INT8, zero_point), build.zero_point(DType.INT32)]
        how = dict(scale32=True, rounding_mode="SINGLE_ROUND", per_channel=False)
        how |= dict(input_unsigned=False, output_unsigned=False)
        wide = build.add("RESCALE", [made, *one, *zeros], dtype=DType.INT32, **how)
    build.output(build.add("REDUCE_SUM", [wide], axis=len(shape) - 1))
    return build.finish()


@pytest.mark.parametrize("config", ["base", "nano", "base,lane_columns=4", "small,am_bytes=8K"])
@pytest.mark.parametrize("shape", [(40, 100), (2, 3, 17, 33), (16, 16)])
def test_equal_to_golden(shape: tuple[int, ...], config: str) -> None:
    for graph in (
        powers(shape),
        powers(shape, zero_point=5),
        powers(shape, by_cast=True),
        powers(shape, also=False),
    ):
        assert_equal_to_golden(graph, config, check_hazards=True)


def layers(graph: Graph) -> dict[str, int]:
    """Cycles of layers by operator."""
    session = Session(graph, target="emulator", config="base")
    session.run({"x": np.ones(graph.tensors["x"].shape, np.int16)})
    return {layer["op"]: layer["cycles"] for layer in session.stats["layers"]}


def test_rows_take_a_cycle_for_a_vector() -> None:
    """512 rows of 256 bytes: 8,192 vectors, for which VECTOR takes more than half as long again."""
    assert layers(powers((512, 256)))["CONV2D"] < 8192 + 600
    assert "REDUCE_SUM" not in layers(powers((512, 256)))


@pytest.mark.parametrize("graph", [powers((8, 256)), powers((512, 256), also=False)])
def test_few_rows_and_bytes_that_nothing_else_reads_stay(graph: Graph) -> None:
    assert "CONV2D" not in layers(graph)
