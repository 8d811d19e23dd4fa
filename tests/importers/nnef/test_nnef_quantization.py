"""graph.quant and linear_quantize: the same numbers either way, and the integers that the quantizer makes of them."""

import pathlib

import numpy as np
import pytest
from nnef_cases import flat
from nnef_model_files import write_model

from tosaic.compiler.importers.nnef.tensor_file import Algorithm, ItemEncoding, read_tensor, write_tensor
from tosaic.compiler.importers.nnef.tosa import import_nnef
from tosaic.compiler.ir import DType
from tosaic.driver.quantize import quantize_graph
from tosaic.driver.session import Session
from tosaic.errors import ModelError, UnsupportedError
from tosaic.sim.golden import evaluate

PLAIN = flat(
    "f = variable(shape = [6,4,3,3], label = 'f');\n    b = variable(shape = [1,6], label = 'b');\n"
    "    c = conv(x, f, b);\n    r = relu(c);\n"
    "    y = avg_pool(r, size = [1,1,2,2], stride = [1,1,2,2], border = 'ignore');"
)
WRITTEN_OUT = flat(
    "f = variable(shape = [6,4,3,3], label = 'f');\n    b = variable(shape = [1,6], label = 'b');\n"
    "    xq = linear_quantize(x, -2.0, 2.5, bits = 8);\n    fq = linear_quantize(f, -0.75, 0.75, bits = 8);\n"
    "    c = conv(xq, fq, b);\n    r = relu(c);\n    rq = linear_quantize(r, 0.0, 4.0, bits = 8);\n"
    "    a = avg_pool(rq, size = [1,1,2,2], stride = [1,1,2,2], border = 'ignore');\n"
    "    y = logarithmic_quantize(a, 4.0, bits = 6);"
)
QUANTIZATION = """"x": linear_quantize(min = -2.0, max = 2.5, bits = 8);
'f': linear_quantize(min = -0.75, max = 0.75, bits = 8);
"r": linear_quantize(min = 0.0, max = 4.0, bits = {bits});
"""


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {
        "f": random.uniform(-0.7, 0.7, (6, 4, 3, 3)).astype(np.float32),
        "b": random.uniform(-0.5, 0.5, (1, 6)).astype(np.float32),
    }


def samples(count: int) -> np.ndarray:
    return np.random.default_rng(6).uniform(-1.9, 2.4, (count, 4, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("bits", [4, 8, 12])
def test_file_and_operations_mean_the_same(bits: int, tmp_path: pathlib.Path) -> None:
    text = QUANTIZATION.format(bits=bits) + "'y': logarithmic_quantize(max = 4.0, bits = 6);\n"
    by_file = import_nnef(write_model(tmp_path / "file", PLAIN, weights(), text))
    written = import_nnef(
        write_model(
            tmp_path / "written", WRITTEN_OUT.replace("4.0, bits = 8", f"4.0, bits = {bits}"), weights()
        )
    )
    x = samples(1)
    assert np.array_equal(evaluate(by_file, {"x": x})["y"], evaluate(written, {"x": x})["y"])
    plain = import_nnef(write_model(tmp_path / "plain", PLAIN, weights()))
    assert not np.array_equal(evaluate(plain, {"x": x})["y"], evaluate(written, {"x": x})["y"])


def test_stored_quantization_is_overridden(tmp_path: pathlib.Path) -> None:
    """7.1: the file's line decides, whatever the data file's encoding is."""
    folder = write_model(tmp_path, PLAIN, weights(), '"f": linear_quantize(min = -1.0, max = 1.0, bits = 2);')
    graph = import_nnef(folder)
    (conv,) = [op for op in graph.operators if op.op == "CONV2D"]
    kernel = graph.tensors[conv.inputs[1]].data
    assert kernel is not None
    assert np.allclose(np.unique(kernel), [-1, -1 / 3, 1 / 3, 1], atol=1e-6)


@pytest.mark.parametrize("bits", [4, 8])
def test_quantizer_takes_the_ranges_of_the_file(bits: int, tmp_path: pathlib.Path) -> None:
    text = QUANTIZATION.format(bits=bits)
    graph = import_nnef(write_model(tmp_path, PLAIN, weights(), text))
    # Calibration sees a tenth of the range: the file's range must count.
    found = quantize_graph(graph, {"x": samples(4) / 10})
    scales = {c.tensor: float(c.scale) for c in found.result.layers.values() if c.scale.size == 1}
    assert any(np.isclose(scale, 4.0 / (2**bits - 1)) for scale in scales.values())
    integers = found.graph
    assert all(not t.dtype.is_float for t in integers.tensors.values())
    x = samples(1)
    outer = found.result.inputs["x"]
    wanted = evaluate(graph, {"x": x})["y"]
    got = evaluate(integers, {"x": outer.quantize(x)})
    assert integers.tensors["y"].dtype is DType.INT8
    assert np.isclose(outer.scale, 4.5 / 255) and outer.zero_point == -15
    # The output's own range is what calibration saw of it.
    reals = found.result.outputs["y"].dequantize(got["y"])
    inside = wanted < found.result.outputs["y"].dequantize(127)
    assert inside.any() and np.abs(reals - wanted)[inside].max() < 2 * 4.0 / (2**bits - 1)
    session = Session(integers, "emulator")
    assert np.array_equal(session.run({"x": outer.quantize(x)}, check=True)["y"], got["y"])


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        (
            "'r': linear_quantize(min = 1.0, max = 0.0, bits = 8);",
            UnsupportedError,
            "give it a range that goes up",
        ),
        ("'r': logarithmic_quantize(max = 0.0, bits = 8);", UnsupportedError, "give it a range that goes up"),
        ("'q': linear_quantize(min = 0.0, max = 1.0, bits = 8);", ModelError, "no tensor 'q'"),
    ],
)
def test_refused_lines(line: str, error: type[Exception], message: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(error, match=message):
        import_nnef(write_model(tmp_path, PLAIN, weights(), line))


def test_only_scalars_are_quantized(tmp_path: pathlib.Path) -> None:
    text = flat("i = argmax_reduce(x, axes = [1]);\n    y = copy(i);")
    with pytest.raises(UnsupportedError, match="'i' is a tensor<integer>; only scalars"):
        import_nnef(write_model(tmp_path, text, {}, "'i': linear_quantize(min = 0.0, max = 1.0, bits = 8);"))


def test_update_hands_over_the_value_itself(tmp_path: pathlib.Path) -> None:
    """7.1 puts the quantization behind each tensor: the result's is not the variable's."""
    text = flat("v = variable(shape = [4], label = 'v'); s = add(v, x); y = update(v, s);", shape="[4]")
    line = "'y': linear_quantize(min = 0.0, max = 1.0, bits = 1);"
    graph = import_nnef(write_model(tmp_path, text, {"v": np.zeros(4, np.float32)}, line))
    x = np.array([0.1, 0.4, 0.6, 0.9], np.float32)
    got = evaluate(graph, {"x": x, "v.state": np.zeros(4, np.float32)})
    assert np.array_equal(got["y"], [0, 0, 1, 1]) and np.array_equal(got["v.next"], x)


@pytest.mark.parametrize(
    "encoding",
    [
        ItemEncoding(Algorithm.FLOAT, 16),
        ItemEncoding(Algorithm.FLOAT, 64),
        ItemEncoding(Algorithm.LINEAR, 8, minimum=-1.0, maximum=1.0),
        ItemEncoding(Algorithm.LINEAR, 3, minimum=-0.5, maximum=1.0),
        ItemEncoding(Algorithm.LOGARITHMIC, 6, minimum=-1.0, maximum=1.0),
        ItemEncoding(Algorithm.LOGARITHMIC, 11, minimum=0.0, maximum=2.0),
        ItemEncoding(Algorithm.INTEGER, 8, signed=True),
        ItemEncoding(Algorithm.INTEGER, 13),
    ],
)
def test_every_stored_encoding_becomes_floats(encoding: ItemEncoding, tmp_path: pathlib.Path) -> None:
    values = np.random.default_rng(3).uniform(-1, 1, (1, 4)).astype(np.float32)
    if encoding.algorithm is Algorithm.INTEGER:
        values = np.array([[0, 1, 100, 127]], np.int8)
    folder = write_model(tmp_path, flat("v = variable(shape = [1,4], label = 'v'); y = add(x, v);"), {})
    (folder / "v.dat").write_bytes(write_tensor(values, encoding))
    stored, _ = read_tensor((folder / "v.dat").read_bytes(), "v.dat")
    x = np.zeros((1, 4, 8, 8), np.float32)
    got = evaluate(import_nnef(folder), {"x": x})["y"]
    assert np.array_equal(got[0, :, 0, 0], stored.reshape(-1).astype(np.float32))
