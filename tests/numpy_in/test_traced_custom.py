"""CUSTOM operators whose kernels are traced: golden calls the kernel, the accelerator runs what it was traced to."""

import numpy as np
import pytest

import tosaic
from tosaic.compiler.ir import DType, Graph, Operator, Tensor, read_tosa, write_tosa
from tosaic.compiler.operator_support import check_support
from tosaic.driver.session import find_config

DOMAIN = "traced.example.org"
X = np.random.default_rng(0).integers(-128, 128, (3, 10), np.int8)


@tosaic.register_custom("hard_mish", DOMAIN, traced=True)
def hard_mish(operands, attributes, results):
    gain = np.frombuffer(attributes, "<i2")
    x = operands[0].astype(np.int32)
    return [np.clip((x * np.clip(x + 64, 0, 128) * gain[0]) >> 14, -128, 127).astype(np.int8)]


@tosaic.register_custom("top_k", DOMAIN, traced=True)
def top_k(operands, attributes, results):
    x, count = operands[0], attributes[0]
    order = np.argsort(-x.astype(np.int16), axis=-1, kind="stable")[:, :count]
    return [np.take_along_axis(x, order, -1), order.astype(np.int32)]


def graph_of(*customs, outputs):
    """x int8[3,10], then CUSTOM operators: name, attributes, operands, results."""
    shapes = {"x": ((3, 10), DType.INT8)} | {
        name: spec for _, _, _, results in customs for name, spec in results.items()
    }
    graph = Graph("main", ["x"], outputs)
    graph.tensors = {name: Tensor(name, *spec) for name, spec in shapes.items()}
    for number, (name, attributes, operands, results) in enumerate(customs):
        said = {"operator_name": name, "domain_name": DOMAIN, "implementation_attrs": attributes}
        graph.operators.append(Operator("CUSTOM", operands, list(results), said, f"CUSTOM_{number}"))
    return read_tosa(write_tosa(graph))


MISH = ("hard_mish", b"\x70\x00", ["x"], {"m": ((3, 10), DType.INT8)})
TOP = ("top_k", b"\x04", ["m"], {"v": ((3, 4), DType.INT8), "i": ((3, 4), DType.INT32)})


@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.nightly)])
def test_an_activation_with_a_gain_and_top_k(target):
    graph = graph_of(MISH, TOP, outputs=["v", "i"])
    activated = hard_mish([X], b"\x70\x00", None)[0]
    wanted = top_k([activated], b"\x04", None)
    session = tosaic.Session(graph, target, "nano")
    got = session.run({"x": X}, check=True)
    assert [got["v"].tolist(), got["i"].tolist()] == [each.tolist() for each in wanted]
    assert [operator.op for operator in session.graph.operators] == ["CUSTOM", "CUSTOM"]


def test_layers_are_compared_with_the_kernels_results():
    session = tosaic.Session(graph_of(MISH, TOP, outputs=["v", "i"]), "emulator", "nano", keep_layers=True)
    session.run({"x": X}, check=True)
    assert "m" in session.kept


def test_golden_notices_a_kernel_that_is_traced_to_something_else():
    @tosaic.register_custom("liar", DOMAIN, traced=True)
    def liar(operands, attributes, results):
        return [operands[0] + np.int8(type(operands[0]) is np.ndarray)]

    graph = graph_of(("liar", b"", ["x"], {"y": ((3, 10), DType.INT8)}), outputs=["y"])
    with pytest.raises(
        tosaic.MismatchError, match=r"^tensor 'y' differs at \[0, 0\]: .*it is computed by CUSTOM_0"
    ):
        tosaic.Session(graph, "emulator").run({"x": X}, check=True)


def test_the_check_says_what_becomes_of_them():
    verdicts = check_support(graph_of(MISH, TOP, outputs=["v", "i"]), find_config("base"))
    assert [verdict.runs for verdict in verdicts] == [True, True]
    assert verdicts[0].reason.startswith("runs on the accelerator: as CAST, ADD, MAXIMUM, MINIMUM, MUL")


@pytest.mark.parametrize(
    "name,kernel,error,wanted",
    [
        (
            "floats",
            lambda operands, attributes, results: [operands[0] / 2],
            tosaic.TraceError,
            r"^CUSTOM_0: its kernel cannot be traced: test_traced_custom.py:\d+: np.divide gives floats; .*// or",
        ),
        (
            "short",
            lambda operands, attributes, results: [operands[0][:2]],
            tosaic.ModelError,
            r"^CUSTOM_0: the kernel of 'short' makes int8\[2, 10\], not 'y' int8\[3, 10\]$",
        ),
        (
            "broken",
            lambda operands, attributes, results: [operands[1]],
            tosaic.UnsupportedError,
            r"^CUSTOM_0: its kernel fails when it is traced: IndexError: list index out of range$",
        ),
        (
            "random",
            lambda operands, attributes, results: [
                operands[0] & np.random.default_rng().integers(0, 99, 10).astype("i1")
            ],
            tosaic.TraceError,
            r"^a kernel is not the same when it is traced again \(constant y'\d+ has other values\)",
        ),
    ],
)
def test_a_kernel_that_cannot_be_traced(name, kernel, error, wanted):
    tosaic.register_custom(name, DOMAIN, traced=True)(kernel)
    with pytest.raises(error, match=wanted):
        tosaic.Session(graph_of((name, b"", ["x"], {"y": ((3, 10), DType.INT8)}), outputs=["y"]), "emulator")


def test_without_tracing_the_refusal_says_how():
    tosaic.register_custom("plain", DOMAIN)(lambda operands, attributes, results: operands)
    wanted = (
        r"^CUSTOM_0: CUSTOM \('y' int8\[3, 10\]\) does not run on the accelerator: 'plain' of domain '.*' has no "
        r"kernel with tosaic.register_custom\(\.\.\., traced=True\); register one"
    )
    with pytest.raises(tosaic.UnsupportedError, match=wanted):
        tosaic.Session(
            graph_of(("plain", b"", ["x"], {"y": ((3, 10), DType.INT8)}), outputs=["y"]), "emulator"
        )


def test_a_kernel_with_a_loop():
    @tosaic.register_custom("halved", DOMAIN, traced=True)
    def halved(operands, attributes, results):
        most = np.int8(attributes[0])
        return list(tosaic.while_loop(lambda y: (y > most).any(), lambda y: (y >> 1,), (operands[0],)))

    result = {"y": ((3, 10), DType.INT8)}
    customs = ("halved", b"\x07", ["x"], result), ("halved", b"\x02", ["y"], {"z": ((3, 10), DType.INT8)})
    got = tosaic.Session(graph_of(*customs, outputs=["z"]), "emulator", "nano").run({"x": X}, check=True)["z"]
    assert got.max() <= 2
