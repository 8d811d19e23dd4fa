"""What legalization leaves: operands as TOSA has them, and TRANSPOSEs behind what exists in both orders."""

import random

import pytest
from layer_graphs import LayerBuilder
from legal_configs import random_config
from random_growth import random_graph

from tosaic.compiler.ir import OPERATORS, DType, validate
from tosaic.compiler.legalize.passes import legalize
from tosaic.compiler.legalize.sunk_transposes import sink_transposes
from tosaic.compiler.legalize.tabulated import tabulate
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config

TOGETHER = 8
"""Graphs of a test."""
MACHINES = (
    "base",
    "base",
    "small",
    "small,am_bytes=8K",
    "base,am_bytes=16K",
    "base,cores=2,bus_words=2",
    "base,am_banks=2",
)
WIDEST_BITS, WIDEST_BYTES = 48, 8
"""Bits of the widest element in a lane, and its bytes in memory."""


def wide_machine(dice: random.Random) -> Config:
    """A machine that takes every type: others refuse int48."""
    while True:
        config = random_config(dice) if dice.random() < 0.15 else get_config(dice.choice(MACHINES))
        if config.word_bytes >= WIDEST_BYTES and config.vector_bits >= WIDEST_BITS:
            return config


@pytest.mark.parametrize("number", range(16))
def test_zero_points_and_scales_have_as_many_elements_as_they_need(number: int) -> None:
    for each in range(TOGETHER):
        dice = random.Random(f"legal {number} {each}")
        grown = random_graph(dice.randint)
        if dice.random() < 0.5:
            grown.free_parameters()
        config = wide_machine(dice)
        graph = legalize(grown.graph, config, optimize=True)
        for operator in graph.operators:
            channels = graph.tensors[operator.outputs[0]].shape[-1:]
            for operand, name in zip(OPERATORS[operator.op].operands, operator.inputs, strict=False):
                shape = graph.tensors[name].shape
                if operand.name.endswith("_zp"):
                    assert shape == (1,), f"{operator}: {operand.name}"
                if operator.op == "RESCALE" and operand.name in ("multiplier", "shift"):
                    assert shape == (channels if operator.attributes["per_channel"] else (1,)), str(operator)


@pytest.mark.parametrize("dtype, sunk", [(DType.BOOL, False), (DType.INT32, False), (DType.INT8, True)])
def test_a_transpose_moves_behind_what_makes_fewer_bytes(dtype: DType, sunk: bool) -> None:
    """Elements of int16 become fewer bytes as bool or int8, which take one each."""
    build = LayerBuilder(1)
    source = DType.INT8 if dtype is DType.BOOL else DType.INT16
    x = build.add("TRANSPOSE", [build.input("x", (1, 4, 5, 6), source)], perms=[0, 2, 3, 1])
    build.output(build.add("CAST", [x], dtype=dtype))
    found = [operator.op for operator in sink_transposes(build.graph).operators]
    assert found == (["CAST", "TRANSPOSE"] if sunk else ["TRANSPOSE", "CAST"])


def test_a_chain_of_tables_becomes_a_legal_lookup() -> None:
    """As TOSA has it, though the machine takes other types, too."""
    build = LayerBuilder(1)
    x = build.input("x", (2, 64), DType.INT8)
    for _ in range(2):
        x = build.add("TABLE", [x, build.random_constant((256,), DType.INT8, -128, 127)])
    build.output(x)
    graph = tabulate(build.finish())
    assert [operator.op for operator in graph.operators].count("GATHER") == 1
    validate(graph)
