"""Floating-point graphs in the IR: which modes there are, files of both versions, every ERROR_IF of a float mode."""

from collections.abc import Callable

import numpy as np
import pytest
from float_graphs import (
    BF16,
    FP16,
    FP32,
    GRAPHS,
    avg_pool2d,
    binary,
    cast,
    convolution,
    fft2d,
    gather,
    matmul,
    max_pool2d,
    mul,
    negate,
    resize,
    rfft2d,
    select,
    unary,
)

from tosaic.compiler.ir import DType, Graph, read_tosa, validate, write_tosa
from tosaic.compiler.ir.operators import OPERATORS
from tosaic.errors import ModelError, UnsupportedError

FP8 = (DType.FP8E4M3, DType.FP8E5M2)


@pytest.mark.parametrize("dtype", [FP16, BF16, FP32])
@pytest.mark.parametrize("op", GRAPHS)
def test_every_float_mode_is_legal_and_survives_a_file(op: str, dtype: DType) -> None:
    graph = GRAPHS[op](dtype)
    again = read_tosa(write_tosa(graph))
    validate(again)
    assert [o.op for o in again.operators] == [op]
    for name, tensor in graph.tensors.items():
        assert (again.tensors[name].shape, again.tensors[name].dtype) == (tensor.shape, tensor.dtype)
        if tensor.data is not None:
            np.testing.assert_array_equal(again.tensors[name].data, tensor.data)
    given = {name: value for name, value in graph.operators[0].attributes.items() if value is not None}
    assert again.operators[0].attributes | given == again.operators[0].attributes


@pytest.mark.parametrize("make", [fft2d, rfft2d])
def test_fourier_transforms_survive_a_file(make: Callable[[], Graph]) -> None:
    graph = read_tosa(write_tosa(make()))
    validate(graph)
    assert graph.operators[0].attributes.get("inverse", False) is False


@pytest.mark.parametrize("op", [op for op in GRAPHS if "0.30" in OPERATORS[op].versions])
def test_fp32_survives_a_0_30_file(op: str) -> None:
    graph = GRAPHS[op]() if op != "CAST" else cast(FP32, DType.INT8)
    again = read_tosa(write_tosa(graph, version=(0, 30)))
    validate(again)
    assert [o.op for o in again.operators] == [op]
    given, read = graph.operators[0], again.operators[0]
    for before, after in zip(given.inputs, read.inputs, strict=True):
        if graph.const(before) is not None:
            np.testing.assert_array_equal(again.const(after), graph.const(before))


def test_float_resize_of_0_30_becomes_fractions() -> None:
    """Its strides and offsets are fp32 numbers; 1.0 has n/d."""
    graph = read_tosa(write_tosa(resize(scale=(3, 2, 4, 2)), version=(0, 30)))
    (op,) = graph.operators
    # The stride 1/2 alone would be over 2, its offset of -1/4 needs 4.
    assert graph.operand_value(op, "scale").tolist() == [3, 2, 4, 2]
    assert graph.operand_value(op, "offset").tolist() == [-1, -1]
    assert graph.operand_value(op, "border").tolist() == [1, 1]


@pytest.mark.parametrize("dtype", FP8)
def test_8_bit_floats(dtype: DType) -> None:
    """TOSA 1.0's extensions: the convolutions and MATMUL to fp16_t, pooling, CAST, ARGMAX and what moves elements."""
    validate(convolution("CONV2D", dtype, FP16, acc_type=FP16))
    validate(matmul(dtype, FP16))
    validate(max_pool2d(dtype))
    validate(avg_pool2d(dtype, FP16))
    validate(gather(dtype))
    validate(unary("ARGMAX", dtype, axis=0))
    for other in (FP16, BF16, FP32):
        validate(cast(dtype, other))
        validate(read_tosa(write_tosa(cast(other, dtype))))


Change = Callable[[Graph], object]


def attribute(name: str, value: object) -> Change:
    return lambda graph: graph.operators[0].attributes.__setitem__(name, value)


def shape(tensor: str, *sizes: int) -> Change:
    return lambda graph: setattr(graph.tensors[tensor], "shape", sizes)


def dtype(tensor: str, value: DType) -> Change:
    return lambda graph: setattr(graph.tensors[tensor], "dtype", value)


def constant(tensor: str, value: float) -> Change:
    return lambda graph: graph.tensors[tensor].data.__setitem__(0, value)


def together(*changes: Change) -> Change:
    return lambda graph: [change(graph) for change in changes]


_TYPES = "the data types must be one of the operator's supported combinations"
_planes = ("x", "imaginary", "y", "y_imaginary")
ERROR_IFS: list[tuple[Callable[[], Graph], Change, str]] = [
    (fft2d, together(*(shape(t, 2, 3, 8) for t in _planes)), "H and W must be powers of two; found 3 x 8"),
    (
        fft2d,
        together(*(shape(t, 2, 4, 6) for t in _planes)),
        r"found 4 x 6 \[FFT2D, TOSA 0.30 section 2.3.6\]",
    ),
    (fft2d, shape("imaginary", 2, 4, 4), "input_real and input_imag must have the same shape"),
    (fft2d, shape("x", 4, 8), "input_real must have rank 3"),
    (fft2d, shape("y_imaginary", 2, 4, 5), r"the shape of output 'y_imaginary' must be \[2, 4, 8\]"),
    (fft2d, together(*(dtype(t, FP16) for t in _planes)), _TYPES),
    (fft2d, lambda graph: graph.operators[0].attributes.pop("inverse"), "attribute inverse must be given"),
    (rfft2d, together(shape("x", 2, 4, 12)), "H and W must be powers of two; found 4 x 12"),
    (rfft2d, shape("y", 2, 4, 8), r"the shape of output 'y' must be \[2, 4, 5\]"),
    (rfft2d, shape("x", 1, 2, 4, 8), "input_real must have rank 3"),
    (GRAPHS["CLAMP"], attribute("min_val", 3.0), "max_val must not be less than min_val"),
    (GRAPHS["CLAMP"], attribute("max_val", float("nan")), "min_val and max_val must not be NaN"),
    (GRAPHS["CLAMP"], attribute("min_val", float("nan")), "min_val and max_val must not be NaN"),
    (GRAPHS["CLAMP"], attribute("nan_mode", "SOMETIMES"), "nan_mode must be one of PROPAGATE, IGNORE"),
    (negate, constant("input1_zp", 1.0), "input1_zp must be 0 unless input1 is int8_t"),
    (negate, constant("output_zp", np.nan), "output_zp must be 0 unless input1 is int8_t"),
    (avg_pool2d, constant("output_zp", 0.5), "output_zp must be 0 unless output is int8_t"),
    (avg_pool2d, attribute("acc_type", FP16), _TYPES),
    (avg_pool2d, attribute("pad", [3, 0, 0, 0]), "pad must be smaller than the kernel on its axis"),
    (matmul, constant("A_zp", 1.0), "A_zp must be 0 unless A is int8_t"),
    (matmul, dtype("y", FP16), _TYPES),
    (
        lambda: convolution("CONV2D"),
        constant("weight_zp", 1.0),
        "weight_zp must be 0 unless weight is int8_t",
    ),
    (lambda: convolution("CONV2D"), attribute("acc_type", FP16), _TYPES),
    (lambda: convolution("CONV2D", BF16), attribute("acc_type", FP16), _TYPES),
    (lambda: convolution("CONV2D", FP16), dtype("x", FP32), _TYPES),
    (
        lambda: convolution("CONV3D"),
        attribute("stride", [1, 0, 1]),
        "every element of stride must be at least 1",
    ),
    (
        lambda: convolution("TRANSPOSE_CONV2D"),
        attribute("out_pad", [-2, 0, 0, 0]),
        "greater than minus the kernel",
    ),
    (mul, lambda graph: graph.tensors["shift"].data.__setitem__(0, 1), "shift must be 0 unless"),
    (lambda: binary("POW"), dtype("b", FP16), _TYPES),
    (lambda: binary("POW"), shape("y", 2, 3, 5), "the shape of output"),
    (lambda: binary("ADD"), shape("b", 3, 1, 4), "axes of the inputs must be equal or 1 to broadcast"),
    (lambda: binary("GREATER"), dtype("y", FP32), "output"),
    (
        lambda: unary("REDUCE_PRODUCT", axis=1),
        attribute("axis", 2),
        "axis must be in the range 0 to rank - 1",
    ),
    (select, dtype("a", BF16), _TYPES),
    (gather, dtype("indices", FP32), "indices must be int32_t"),
    (lambda: cast(FP16, FP32), dtype("y", BF16), _TYPES),
    (lambda: cast(BF16, FP32), dtype("y", DType.BOOL), _TYPES),
    (resize, dtype("y", FP16), _TYPES),
    (resize, lambda graph: graph.tensors["offset"].data.__setitem__(0, 48), "offset must be in the range -n"),
    *(
        (lambda op=op: unary(op), together(*(dtype(t, DType.INT32) for t in "xy")), _TYPES)
        for op in (
            "SIGMOID",
            "TANH",
            "ERF",
            "SIN",
            "COS",
            "EXP",
            "LOG",
            "CEIL",
            "FLOOR",
            "RSQRT",
            "RECIPROCAL",
        )
    ),
    *(
        (lambda: unary("ABS"), lambda graph, op=op: setattr(graph.operators[0], "op", op), _TYPES)
        for op in ("BITWISE_NOT", "CLZ", "LOGICAL_NOT")
    ),
    *(
        (lambda: binary("ADD"), lambda graph, op=op: setattr(graph.operators[0], "op", op), _TYPES)
        for op in ("BITWISE_AND", "INTDIV", "LOGICAL_OR", "LOGICAL_LEFT_SHIFT")
    ),
]


@pytest.mark.parametrize(("make", "change", "message"), ERROR_IFS)
def test_error_if_of_a_float_mode(make: Callable[[], Graph], change: Change, message: str) -> None:
    graph = make()
    validate(graph)
    change(graph)
    with pytest.raises(ModelError, match=message) as error:
        validate(graph)
    assert graph.operators[0].op in str(error.value)
    assert "TOSA 0.30 section" in str(error.value) or "TOSA 1.0" in str(error.value)


def test_a_stride_that_is_no_fraction_is_refused() -> None:
    graph = resize()
    data = bytearray(write_tosa(graph, version=(0, 30)))
    place = data.index(np.array([2 / 3, 2 / 3], "<f4").tobytes())
    data[place : place + 4] = np.float32(np.pi / 4).tobytes()
    with pytest.raises(
        UnsupportedError, match=r"stride 0.785.* are not fractions over one number up to 2048"
    ):
        read_tosa(bytes(data))
