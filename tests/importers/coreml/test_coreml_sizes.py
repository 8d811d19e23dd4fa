"""Small files that ask for much are refused before they take memory."""

import numpy as np
import pytest
from coreml_models import array, floats, layer, model

from tosaic.compiler.importers.coreml import import_coreml
from tosaic.errors import Error

WIDE = (1, 1, 1, 1 << 16)
CASES = {
    "band": ("matrixBandPart", (1 << 13, 1 << 13), {}),
    "lrn": ("lrn", (1, 1 << 15, 1, 1), {"alpha": 1.0, "beta": 1.0, "localSize": 3}),
    "upsample": ("upsample", WIDE, {"scalingFactor": [1, 3], "mode": 1}),
    "many pixels": ("upsample", WIDE, {"scalingFactor": [1, 1 << 20]}),
    "resize": ("resizeBilinear", WIDE, {"targetSize": [1, 1 << 15]}),
    "windows": ("pooling", WIDE, {"type": 2, "kernelSize": [1, 1 << 15], "valid": {}}),
    "tile": ("tile", (1 << 10,), {"reps": [1 << 40]}),
    "one hot": ("oneHot", (1 << 10,), {"oneHotVectorSize": 1 << 40}),
    "top": ("topK", (1 << 16,), {"K": 2}),
    "sum": ("cumSum", (1 << 16,), {}),
    "state": ("simpleRecurrent", (1, 1, 1, 1, 1), {"inputVectorSize": 1, "outputVectorSize": 1 << 40}),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_by_name(name):
    kind, shape, params = CASES[name]
    outputs = ["y", "z"] if kind == "topK" else ["y"]
    message = model([layer(kind, ["x"], outputs, **params)], [array("x", shape)], [array("y", [])])
    with pytest.raises(Error, match=f"layer 'y' .{kind}."):
        import_coreml(message.SerializeToString())


def test_large_inputs_are_refused():
    message = model([layer("copy", ["x"], ["y"])], [array("x", [1 << 20, 1 << 20])], [array("y", [])])
    with pytest.raises(Error, match="input 'x' has shape"):
        import_coreml(message.SerializeToString())


def test_what_is_in_the_file_may_be_large():
    values = np.ones(1 << 18, np.float32)
    constant = layer("loadConstantND", [], ["y"], shape=values.shape, data=floats(values))
    assert (
        import_coreml(model([constant], [], [array("y", [])]).SerializeToString()).tensors["y"].shape
        == values.shape
    )
