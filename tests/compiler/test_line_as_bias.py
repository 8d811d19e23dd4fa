"""A constant line that is added behind a per-channel RESCALE is the lanes' bias: the shift of a layer norm."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.passes import legalize
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

BASE = get_config("base")


def shifted(shape=(5, 40), line=None, *, per_channel=True, swapped=False, twice=False):
    build = LayerBuilder(4)
    x = build.rescale(build.input("x", shape, DType.INT16), DType.INT32, per_channel=per_channel)
    for _ in range(1 + twice):
        constant = build.random_constant(
            line or (*(1,) * (len(shape) - 1), shape[-1]), DType.INT32, -9999, 9999
        )
        x = build.add("ADD", [constant, x] if swapped else [x, constant])
    build.output(build.rescale(x, DType.INT8))
    return build.finish()


def layer_of(graph):
    (layer,) = Fuser(legalize(graph, BASE), BASE).layers(set())
    return layer


@pytest.mark.parametrize("config", ["base", "small", "nano"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_line_is_a_bias(config, swapped):
    graph = shifted(swapped=swapped)
    layer = layer_of(graph)
    assert layer.program.bias and [load.tensor for load in layer.program.loads] == ["x"]
    assert layer.bias.shape == (40,)
    assert_equal_to_golden(graph, config, check_hazards=True)


@pytest.mark.parametrize("shape", [(2, 40), (5, 2), (3, 5, 40), (1, 3, 5, 40), (2, 1, 3, 5, 40)])
def test_a_line_along_the_channels_of_any_rank_is_a_bias(shape):
    layer = layer_of(shifted(shape))
    assert [load.tensor for load in layer.program.loads] == ["x"] and layer.bias.shape == shape[-1:]


@pytest.mark.parametrize(
    "graph, loads",
    [
        (shifted(twice=True), 2),  # the second line is added as an operand
        (shifted((1, 40)), 2),  # one row reads the line once anyway
        (shifted(per_channel=False), 2),  # the layer does not go by channels
        (shifted((3, 5, 40), (1, 5, 40)), 2),  # it differs from row to row
        (shifted((40, 5), (40, 1)), 2),  # it lies along another axis
    ],
)
def test_other_constants_are_operands(graph, loads):
    assert len(layer_of(graph).program.loads) == loads
    assert_equal_to_golden(graph, "base", check_hazards=True)


def test_sums_wrap_as_golden_does():
    build = LayerBuilder(4)
    x = build.rescale(build.input("x", (5, 40), DType.INT32), DType.INT32, per_channel=True, shift=30)
    line = build.constant([[(1 << 31) - 1, -(1 << 31)] * 20], DType.INT32)
    build.output(build.add("ADD", [x, line]))
    assert layer_of(build.finish()).program.bias
    assert_equal_to_golden(build.finish(), "base")


def test_a_layer_norm_scale_and_shift_take_fewer_cycles():
    session = Session(compile_graph(shifted((128, 128)), BASE), "emulator")
    session.run({"x": np.zeros((128, 128), np.int16)})
    assert session.stats["cycles"] < 8_000  # 10,710 with the line as an operand


@pytest.mark.parametrize("config", ["base", "nano"])
def test_scales_that_are_computed_at_run_time_lie_behind_the_biases(config):
    graph = shifted()
    rescale = graph.operators[0]
    given = {}
    for name in rescale.inputs[1:3]:
        given[name], graph.tensors[name].data = graph.tensors[name].data, None
        graph.inputs.append(name)
    assert layer_of(graph).program.bias
    assert_equal_to_golden(graph, config, {**feeds(graph, 3), **given}, check_hazards=True)
