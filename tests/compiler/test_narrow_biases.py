"""Biases travel as int16 where all of a layer fit."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.place.params import pack_params
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, decode


def test_the_form_is_that_of_the_widest_bias():
    for largest, size in ((32767, 2), (32768, 4), (-32768, 2), (-32769, 4)):
        block = pack_params(20, 16, 16, np.array([7] * 19 + [largest]), None)
        assert (block.bias_bytes, block.tile_bytes) == (size, 16 * size)
        stored = np.frombuffer(block.data, f"<i{size}")
        assert stored.tolist() == [7] * 19 + [largest] + [0] * 12


def instructions(graph: Graph, config: str, opcode: Opcode) -> list:
    """The program's instructions of one kind."""
    program = compile_graph(graph, get_config(config))
    raw = program.image[program.program_address :][: program.program_bytes]
    found = [decode(raw[start : start + 16]) for start in range(0, len(raw), 16)]
    return [each for each in found if each.opcode is opcode]


def connected(inputs: int, outputs: int) -> Graph:
    """A fully connected layer, whose biases the builder draws."""
    build = LayerBuilder(3)
    x = build.input("x", (1, 1, 1, inputs), DType.INT8)
    build.output(build.rescale(build.conv(x, outputs, (1, 1)), DType.INT8, per_channel=True))
    return build.finish()


@pytest.mark.parametrize("config", ["base", "small"])
@pytest.mark.parametrize("factor", [1, 1 << 20])
def test_layers_compute_with_either_form(config, factor):
    graph = connected(40, 72)
    bias = graph.tensors[next(op for op in graph.operators if op.op == "CONV2D").inputs[2]]
    bias.data = np.clip(bias.data.astype(np.int64), -900, 900).astype(np.int32) * factor
    assert {each.narrow for each in instructions(graph, config, Opcode.VECTOR_PARAM)} == {factor == 1}
    assert_equal_to_golden(graph, config, check_hazards=True)


def test_a_result_leaves_piece_by_piece():
    """Each half of the weight memory that is read sends the piece that it makes."""
    graph = connected(512, 400)
    stores = instructions(graph, "base", Opcode.STORE_GO)
    assert [each.row_bytes for each in stores] == [128, 128, 128, 16]
    assert_equal_to_golden(graph, "base", check_hazards=True)
