"""Small graphs with COND_IF and WHILE_LOOP."""

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Tensor


def tensor(name, shape=(2,), dtype=DType.INT32, data=None):
    return Tensor(name, shape, dtype, None if data is None else np.array(data, dtype=dtype.numpy))


def graph(name, inputs, outputs, tensors, operators, subgraphs=None):
    return Graph(name, inputs, outputs, {t.name: t for t in tensors}, operators, (1, 0, 0), subgraphs or {})


def choice(shape):
    """z = flag ? a + b : a - b with b = [1, 2]; `shape` is that of the one-element bool `flag`."""

    def branch(name, op):
        tensors = [tensor("p"), tensor("q"), tensor("r")]
        return graph(name, ["p", "q"], ["r"], tensors, [Operator(op, ["p", "q"], ["r"], {}, f"{op}_{name}")])

    branches = {"then_graph": "sum", "else_graph": "difference"}
    return graph(
        "main",
        ["flag", "a"],
        ["z"],
        [tensor("flag", shape, DType.BOOL), tensor("a"), tensor("b", data=[1, 2]), tensor("z")],
        [Operator("COND_IF", ["flag", "a", "b"], ["z"], branches, "COND_IF_0")],
        {"sum": branch("sum", "ADD"), "difference": branch("difference", "SUB")},
    )


def countdown():
    """while (i > 0) { t += i; i -= 1 } from i = n, t = 0; the outputs are i and t."""
    condition = graph(
        "condition",
        ["i", "t"],
        ["go"],
        [tensor("i", (1,)), tensor("t", (1,)), tensor("zero", (1,), data=[0])]
        + [tensor("go", (1,), DType.BOOL)],
        [Operator("GREATER", ["i", "zero"], ["go"], {}, "GREATER_0")],
    )
    body = graph(
        "body",
        ["i", "t"],
        ["i2", "t2"],
        [tensor(n, (1,)) for n in ("i", "t", "i2", "t2")] + [tensor("one", (1,), data=[1])],
        [
            Operator("ADD", ["t", "i"], ["t2"], {}, "ADD_0"),
            Operator("SUB", ["i", "one"], ["i2"], {}, "SUB_0"),
        ],
    )
    loop = {"cond_graph": "condition", "body_graph": "body"}
    return graph(
        "main",
        ["n"],
        ["m", "total"],
        [tensor("n", (1,)), tensor("m", (1,)), tensor("total", (1,)), tensor("none", (1,), data=[0])],
        [Operator("WHILE_LOOP", ["n", "none"], ["m", "total"], loop, "WHILE_LOOP_0")],
        {"condition": condition, "body": body},
    )
