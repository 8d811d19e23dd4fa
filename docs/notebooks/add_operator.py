# %% [markdown]
# # Add an operator
# An operator of your own is TOSA's CUSTOM. One NumPy function tells what it computes: here an activation, hard-mish
# with a gain, which the operator's attributes hold. `traced=True` lets the accelerator run it.
# %%
import numpy as np

import tosaic
from tosaic.compiler.ir import DType, Graph, Operator, Tensor
from tosaic.compiler.operator_support import check_support
from tosaic.driver.session import find_config


@tosaic.register_custom("hard_mish", "example.org", traced=True)
def hard_mish(operands, attributes, results):
    gain = int.from_bytes(attributes, "little")
    x = operands[0].astype(np.int32)
    return [np.clip((x * np.clip(x + 64, 0, 128) * gain) >> 14, -128, 127).astype(np.int8)]


graph = Graph("main", ["x"], ["y"])
graph.tensors = {name: Tensor(name, (4, 8), DType.INT8) for name in ("x", "middle", "y")}
attributes = {
    "operator_name": "hard_mish",
    "domain_name": "example.org",
    "implementation_attrs": (112).to_bytes(2, "little"),
}
graph.operators = [
    Operator("CUSTOM", ["x"], ["middle"], attributes, "mish1:CUSTOM_0"),
    Operator("REVERSE", ["middle"], ["y"], {"axis": 1}, "flip1:REVERSE_0"),
]
x = np.arange(-16, 16, dtype=np.int8).reshape(4, 8) * np.int8(8)
result = tosaic.run(graph, {"x": x}, target="golden")["y"]
result

# %% [markdown]
# Golden calls the function. For the accelerator it is traced, and TOSA's operators take the CUSTOM's place:
# %%
for verdict in check_support(graph, find_config("base")):
    print(verdict.operator.name, "runs" if verdict.runs else "does not run:", verdict.reason)

# %% [markdown]
# So the emulator and the RTL run it, and golden, which knows nothing of the tracing, agrees.
# %%
session = tosaic.Session(graph, target="emulator")
np.testing.assert_array_equal(session.run({"x": x}, check=True)["y"], result)
rtl = tosaic.Session(graph, target="sim", config="nano")
np.testing.assert_array_equal(rtl.run({"x": x}, check=True)["y"], result)
rtl

# %% [markdown]
# A function that cannot be traced is refused by name (`docs/numpy.md` tells what can); nothing falls back to the host
# in silence. An operator of TOSA itself takes the ten steps of "Add an operator" in CONTRIBUTING.md.
