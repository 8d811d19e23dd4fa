"""CUSTOM operators, by kernels that somebody registers."""

import numpy as np
import pytest

import tosaic
from tosaic.compiler.ir import DType, Graph, Operator, Tensor, read_tosa, write_tosa
from tosaic.sim.golden import register_custom

X = np.array([1, -2, 3], np.int8)


def scaled(name="scale"):
    """x, then CUSTOM scale by 3, then a clamp."""
    graph = Graph("main", ["x"], ["y"])
    graph.tensors = {
        "x": Tensor("x", (3,), DType.INT8),
        "wide": Tensor("wide", (3,), DType.INT16),
        "y": Tensor("y", (3,), DType.INT16),
    }
    attributes = {"operator_name": name, "domain_name": "example.org", "implementation_attrs": b"\x03"}
    graph.operators = [
        Operator("CUSTOM", ["x"], ["wide"], attributes, "CUSTOM_0"),
        Operator("CLAMP", ["wide"], ["y"], {"min_val": -5, "max_val": 100}, "CLAMP_0"),
    ]
    return read_tosa(write_tosa(graph))


def test_a_registered_kernel_computes():
    seen = []

    @tosaic.register_custom("scale", "example.org")
    def scale(operands, attributes, results):
        seen.append((attributes, [str(each) for each in results]))
        operands[0] *= attributes[0]
        return [operands[0].astype(np.int16)]

    x = X.copy()
    assert tosaic.run(scaled(), {"x": x}, target="golden")["y"].tolist() == [3, -5, 9]
    assert (x == X).all() and seen == [(b"\x03", ["'wide' int16[3]"])]


def test_without_a_kernel_it_is_refused():
    register_custom("unknown", "other.org")(lambda operands, attributes, results: operands)
    wanted = r"CUSTOM_0: TOSA does not define what CUSTOM operator 'unknown' of domain 'example.org' computes"
    with pytest.raises(tosaic.UnsupportedError, match=wanted):
        tosaic.run(scaled("unknown"), {"x": X}, target="golden")


def test_the_accelerator_refuses_it_by_name():
    register_custom("scale", "example.org")(lambda operands, attributes, results: operands)
    with pytest.raises(tosaic.UnsupportedError, match="^CUSTOM_0: CUSTOM .* does not run on the accelerator"):
        tosaic.Session(scaled(), "emulator")


@pytest.mark.parametrize(
    "made,shown",
    [([X], r"int8\[3\]"), ([], "nothing"), ([X.astype(np.int16)] * 2, r"int16\[3\], int16\[3\]")],
)
def test_results_that_are_not_declared(made, shown):
    register_custom("scale", "example.org")(lambda operands, attributes, results: made)
    wanted = rf"^CUSTOM_0: the kernel of 'scale' makes {shown}, not 'wide' int16\[3\]$"
    with pytest.raises(tosaic.ModelError, match=wanted):
        tosaic.run(scaled(), {"x": X}, target="golden")
