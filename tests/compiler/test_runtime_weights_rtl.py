"""Weights packed on the machine, and MATMUL, on the RTL: equal golden, cycles as the emulator predicts them."""

import pytest
from layer_graphs import feeds
from rtl_configs import on_rtl
from runtime_graphs import attention, convolution, plane, product

from tosaic.compiler.ir import DType
from tosaic.driver.session import Session

GRAPHS = {
    "attention": attention(),
    "batched product": product(5, 33, 20, 21, a_zp=-3, b_zp=11, tail="per channel"),
    "convolution": convolution(
        "CONV2D",
        (1, 6, 7, 8),
        (20, 3, 3, 8),
        made="transpose",
        weight_zp=5,
        tail="per tensor",
        **plane((1, 1, 1, 1)),
    ),
    "depthwise": convolution(
        "DEPTHWISE_CONV2D", (1, 7, 6, 21), (3, 3, 21, 1), weight_zp=-8, **plane((1, 1, 1, 1))
    ),
    "diagonal": convolution("DEPTHWISE_CONV2D", (1, 5, 6, 13), (2, 3, 13, 2), dtype=DType.INT4, **plane()),
    "transposed": convolution(
        "TRANSPOSE_CONV2D", (1, 4, 5, 6), (7, 3, 2, 6), weight_zp=4, out_pad=[0, 1, -1, 0], stride=[2, 1]
    ),
}


@pytest.mark.parametrize("config", [on_rtl(name) for name in ("small", "base")])
@pytest.mark.parametrize("name", GRAPHS)
def test_rtl(name, config):
    cycles = {}
    for target in ("sim", "emulator"):
        session = Session(GRAPHS[name], target, config)
        session.run(feeds(GRAPHS[name], 2), check=True)
        assert session.stats["bit_exact"] is True
        cycles[target] = session.stats["cycles"]
    assert cycles["emulator"] == pytest.approx(cycles["sim"], rel=0.03)
