"""Bounds, and a RESCALE by 1, join the micro-operation before them where that cannot need more than 32 bits."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.passes import legalize
from tosaic.hw.config_text import get_config

BASE = get_config("base")


def bent(shift, rescaled=46):
    """conv + max(conv * line >> shift, 0), in int8: a PReLU of slopes up to 1 in its result's steps."""
    build = LayerBuilder(4)
    sums = build.conv(build.input("x", (1, 7, 9, 12), DType.INT8), 24, (1, 1))
    wide = build.rescale(sums, DType.INT32, per_channel=True, shift=31)
    line = build.random_constant((1, 1, 1, 24), DType.INT32, -127, 0)
    product = build.add("MUL", [wide, line, build.constant(np.array([shift]), DType.INT8)])
    bend = build.add("MAXIMUM", [product, build.constant(np.zeros((1, 1, 1, 1)), DType.INT32)])
    total = build.add("ADD", [build.rescale(wide, DType.INT32, shift=rescaled), bend])
    one = [build.constant([1 << 30], DType.INT32), build.constant([30], DType.INT8)]
    zeros = [build.zero_point(DType.INT32), build.zero_point(DType.INT8, -7)]
    build.output(
        build.add(
            "RESCALE",
            [total, *one, *zeros],
            dtype=DType.INT8,
            scale32=True,
            rounding_mode="SINGLE_ROUND",
            per_channel=False,
            input_unsigned=False,
            output_unsigned=False,
        )
    )
    return build.finish()


@pytest.mark.parametrize("config", ["base", "nano", "base,vector_bits=34"])
@pytest.mark.parametrize("shift", [9, 16, 24])
def test_three_micro_operations(shift, config):
    graph = bent(shift)
    (layer,) = Fuser(legalize(graph, BASE), BASE).layers(set())
    assert layer.program.uops == 3
    assert_equal_to_golden(graph, config, check_hazards=True)


@pytest.mark.parametrize("shift, rescaled", [(0, 46), (3, 46), (7, 32)])
def test_what_may_wrap_stays(shift, rescaled):
    """A product that may need 39 bits, and a sum that may need 33."""
    graph = bent(shift, rescaled)
    (layer,) = Fuser(legalize(graph, BASE), BASE).layers(set())
    assert layer.program.uops > 3
    assert_equal_to_golden(graph, "base")
