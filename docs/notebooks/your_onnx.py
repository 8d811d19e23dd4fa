# %% [markdown]
# # Your ONNX model
# A small float classifier takes the place of yours; put your file where `net.onnx` stands. It needs the extra `onnx`.
# %%
import pathlib
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tosaic

folder = pathlib.Path(tempfile.mkdtemp())
random = np.random.default_rng(0)
weights = {
    "w": random.normal(0, 0.3, (8, 1, 3, 3)).astype(np.float32),
    "v": random.normal(0, 0.1, (288, 10)).astype(np.float32),
}
graph = helper.make_graph(
    [
        helper.make_node("Conv", ["image", "w"], ["conv"], "conv1"),
        helper.make_node("Relu", ["conv"], ["relu"], "relu1"),
        helper.make_node("Flatten", ["relu"], ["flat"], "flatten"),
        helper.make_node("MatMul", ["flat", "v"], ["scores"], "dense"),
    ],
    "net",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
    [numpy_helper.from_array(value, name) for name, value in weights.items()],
)
onnx.save(
    helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), folder / "net.onnx"
)

# %% [markdown]
# Calibration data are inputs such as the model will see: samples along the first axis, an array for each input.
# `tosaic quantize` makes integers of the floats. In a shell these are two lines: `tosaic check net.onnx` and
# `tosaic quantize net.onnx -c calib.npz -o net.tosa`.
# %%
import subprocess
import sys

np.savez(folder / "calib.npz", image=random.random((32, 1, 8, 8), np.float32))
command = [sys.executable, "-m", "tosaic", "quantize", "net.onnx", "-c", "calib.npz", "-o", "net.tosa"]
print(
    subprocess.run(
        [*command, "--report", "q.html"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
)

# %% [markdown]
# The integers run on the emulator, compared with the golden model; `target="sim"` runs the RTL.
# %%
session = tosaic.Session(folder / "net.tosa", target="emulator")
encoding = session.inputs[0].encoding
image = encoding.quantize(random.random((1, 1, 8, 8), np.float32)).reshape(session.inputs[0].shape)
session.run({session.inputs[0].name: image}, check=True)
assert session.stats["bit_exact"]
session
