"""Names of operators from the locations that other tools write into .tosa files."""

import pytest

from tosaic.compiler.ir.schema_1_0.locations import source_name

NAMES = {
    "conv1": "conv1",
    "  a \n b ": "a b",
    "x" * 300: "x" * 200,
    "loc(unknown)": "",
    'loc("conv1")': "conv1",
    'loc("model/relu/Relu;model/conv2d/Conv2D1"("/tmp/m.tflite":0:0))': "model/relu/Relu",
    'loc("net.py":12:3)': "net.py:12",
    'loc(fused["add", "mul"])': "add",
    'loc(callsite("inner" at "net.py":12:3))': "inner",
    'loc("cut off;by the writ': "",
}


@pytest.mark.parametrize("location", NAMES)
def test_name_in_a_location(location):
    assert source_name(location) == NAMES[location]
