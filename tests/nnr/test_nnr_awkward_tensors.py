"""Tensors at the edges of what a data unit holds, through every method of the encoder."""

import numpy as np
import pytest

from tosaic.nnr import NnrError, read_bitstream
from tosaic.nnr.encoder import METHODS, Settings, encode_model
from tosaic.nnr.onnx_carriage import ISO_IEC_15938_17, carry, uncarry

F32 = np.float32
TENSORS = {
    "no values": np.zeros(0, F32),
    "no values, three dimensions": np.zeros((3, 0, 2), np.int8),
    "no dimensions": np.array(1.5, F32),
    "no dimensions, integer": np.array(-7, np.int8),
    "one value": np.array([[3.25]], F32),
    "zeros": np.zeros((40, 40), F32),
    "zeros, integer": np.zeros((40, 40), np.int8),
    "int32": np.array([[2**31 - 1, -(2**31)]], np.int32),
    "uint16": np.array([[65535, 0]], np.uint16),
    "nine dimensions": np.ones((1,) * 9, F32),
    "Fortran order": np.asfortranarray(np.arange(12, dtype=F32).reshape(3, 4)),
    "name in Ünïcödé/名前": np.ones((2, 2), F32),
    "n" * 1000: np.ones((2, 2), F32),
    "not finite": np.array([[np.inf, -np.inf], [np.nan, 1]], F32),
    "largest floats": np.array([[3e38, -3e38], [1, 0]], F32),
    "denormal floats": np.array([[1e-40, -2e-40], [0, 0]], F32),
}
EXACT = ("not finite", "largest floats", "denormal floats")
"""Floats that no step size of the text suits."""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", TENSORS)
def test_every_method_keeps_shape_and_bound(name: str, method: str) -> None:
    values = TENSORS[name]
    found = read_bitstream(encode_model({name: values}, Settings(method))).tensors[0]
    decoded = found.decode()
    assert (found.name, decoded.shape) == (name, values.shape)
    if values.dtype.kind != "f" or method == "lossless" or name in EXACT and method != "codebook":
        assert np.array_equal(decoded, values, equal_nan=values.dtype.kind == "f")
    elif values.size and method != "codebook":
        # A step is 1 / 127 of the largest value; dependent quantization has every second multiple in a state.
        assert np.abs(decoded - values).max() <= np.abs(values).max() / 127


@pytest.mark.parametrize(
    "values",
    [
        np.array([[2**32 - 1]], np.uint32),
        np.array([[5]], np.int64),
        np.array([[1.5]], np.float16),
        np.array([[True]]),
        np.array([["a"]]),
        np.array([[1j]]),
        np.ones((1, 70000), np.int8),
    ],
    ids=lambda values: f"{values.dtype}",
)
def test_what_no_unit_holds_is_refused_in_one_line(values: np.ndarray) -> None:
    with pytest.raises(
        NnrError, match=r"^tensor 'x' of .* does not fit an NNR data unit: it holds float32, [^\n]*$"
    ):
        encode_model({"x": values})


def test_onnx_tensors_that_no_step_suits_stay_plain() -> None:
    """B.4 allows NNR_PT_FLOAT32 only."""
    from onnx import TensorProto, helper, numpy_helper

    values = {
        "large": TENSORS["largest floats"],
        "small": TENSORS["denormal floats"],
        "w": np.eye(3, dtype=F32),
    }
    graph = helper.make_graph(
        [], "g", [], [], [numpy_helper.from_array(v, name) for name, v in values.items()]
    )
    carried = carry(helper.make_model(graph), Settings("uniform"))
    kinds = {i.name: i.data_type for i in carried.graph.initializer}
    assert kinds == {"large": TensorProto.FLOAT, "small": TensorProto.FLOAT, "w": ISO_IEC_15938_17}
    for initializer in uncarry(carried).graph.initializer:
        if initializer.name != "w":
            assert np.array_equal(numpy_helper.to_array(initializer), values[initializer.name])
