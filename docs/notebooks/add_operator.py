# %% [markdown]
# # Add an operator
# An operator of your own is TOSA's CUSTOM. One function tells golden what it computes; here it doubles a tensor.
# %%
import numpy as np

import tosaic
from tosaic.compiler.ir import DType, Graph, Operator, Tensor
from tosaic.compiler.operator_support import check_support
from tosaic.driver.session import find_config


@tosaic.register_custom("double", "example.org")
def double(operands, attributes, results):
    return [2 * operands[0]]


graph = Graph("main", ["x"], ["y"])
graph.tensors = {name: Tensor(name, (4,), DType.INT32) for name in ("x", "middle", "y")}
attributes = {"operator_name": "double", "domain_name": "example.org", "implementation_attrs": b""}
graph.operators = [
    Operator("CUSTOM", ["x"], ["middle"], attributes, "double1:CUSTOM_0"),
    Operator("ABS", ["middle"], ["y"], {}, "abs1:ABS_0"),
]
values = np.array([-3, 0, 2, 5], np.int32)
result = tosaic.run(graph, {"x": values}, target="golden")["y"]
assert result.tolist() == [6, 0, 4, 10]
result

# %% [markdown]
# The accelerator has no such operator, and says so; nothing falls back to the host in silence.
# %%
for verdict in check_support(graph, find_config("base")):
    print(verdict.operator.name, "runs" if verdict.runs else "does not run:", verdict.reason)

# %% [markdown]
# The same by TOSA's own ADD runs on the accelerator, and golden agrees. An operator that should be on the accelerator
# itself takes the ten steps of "Add an operator" in CONTRIBUTING.md.
# %%
graph.operators[0] = Operator("ADD", ["x", "x"], ["middle"], {}, "double1:ADD_0")
session = tosaic.Session(graph, target="emulator")
np.testing.assert_array_equal(session.run({"x": values}, check=True)["y"], result)
session
