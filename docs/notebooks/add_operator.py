# %% [markdown]
# # Add an operator
# An operator of your own is TOSA's CUSTOM. Golden needs to know what it computes: one function. (How to put an operator on
# the accelerator itself is in CONTRIBUTING.md.) First, a graph by hand, of operators that are there:
# %%
import numpy as np

import tosaic
from tosaic.compiler.ir import DType, GraphBuilder

build = GraphBuilder()
x = build.input("x", (1, 4, 4, 8), DType.INT32)
build.output(build.add("ABS", [x]))
session = tosaic.Session(build.finish(), target="emulator")
values = np.arange(-64, 64, dtype=np.int32).reshape(1, 4, 4, 8)
(result,) = session.run({"x": values}, check=True).values()
np.testing.assert_array_equal(result, abs(values))
session

# %% [markdown]
# What runs as it is, what is decomposed and what is refused is a table that is generated from the rules:
# %%
from tosaic.compiler.operator_support import check_support

for verdict in check_support(session.graph, session.config):
    print(verdict.operator.op, "runs" if verdict.runs else "does not run", verdict.reason)
