"""Tensor operators other than convolutions: ARGMAX, pooling, MATMUL and the Fourier transforms (2.3)."""

from tosaic.compiler.ir.operators.common import (
    AXIS,
    NAN_MODE,
    at_least,
    axis_in_range,
    exact_division,
    zero_point,
    zero_point_needs_int8,
)
from tosaic.compiler.ir.operators.spec import MAX_RANK, Attribute, Operand, OperatorSpec, OpView, Shape, modes
from tosaic.compiler.ir.operators.traits import Trait


def _argmax_shape(node: OpView) -> list[Shape]:
    shape, axis = node.shape("input"), node.attribute("axis")
    return [shape[:axis] + shape[axis + 1 :]]


def _pool_shape(node: OpView) -> list[Shape]:
    batch, height, width, channels = node.shape("input")
    kernel_y, kernel_x = node.attribute("kernel")
    stride_y, stride_x = node.attribute("stride")
    top, bottom, left, right = node.attribute("pad")
    rows = exact_division(node, height + top + bottom - kernel_y, stride_y, "height") + 1
    columns = exact_division(node, width + left + right - kernel_x, stride_x, "width") + 1
    return [(batch, rows, columns, channels)]


def pool_pad_below_kernel(node: OpView) -> str | None:
    """pad must be smaller than the kernel on its axis, or a window would hold padding only."""
    kernel_y, kernel_x = node.attribute("kernel")
    top, bottom, left, right = node.attribute("pad")
    if max(top, bottom) < kernel_y and max(left, right) < kernel_x:
        return None
    return f"pad {node.attribute('pad')} with kernel {node.attribute('kernel')}"


def _matmul_shape(node: OpView) -> list[Shape]:
    (batch, height, depth), (batch_b, depth_b, width) = node.shape("A"), node.shape("B")
    if batch != batch_b:
        node.fail("A and B must have the same number of matrices N", f"{batch} and {batch_b}")
    if depth != depth_b:
        node.fail("the columns of A must equal the rows of B", f"{depth} and {depth_b}")
    return [(batch, height, width)]


def fft_size_power_of_two(node: OpView) -> str | None:
    """H and W must be powers of two."""
    _, height, width = node.shape("input_real")
    return None if height & (height - 1) == 0 and width & (width - 1) == 0 else f"{height} x {width}"


def fft_parts_match(node: OpView) -> str | None:
    """input_real and input_imag must have the same shape."""
    real, imaginary = node.shape("input_real"), node.shape("input_imag")
    return None if real == imaginary else f"{list(real)} and {list(imaginary)}"


def _rfft_shape(node: OpView) -> list[Shape]:
    batch, height, width = node.shape("input_real")
    return [(batch, height, width // 2 + 1)] * 2


_POOL_ATTRIBUTES = (
    Attribute("kernel", "ints", length=2),
    Attribute("stride", "ints", length=2),
    Attribute("pad", "ints", length=4),
)
_POOL_CHECKS = (at_least("kernel", 1), at_least("stride", 1), at_least("pad", 0), pool_pad_below_kernel)
_IMAGE = (4, 4)
_LOCAL_BOUND = Attribute("local_bound", "bool", default=False)
_FFT_MODES = modes("in_out_t", "fp32: PRO-FP")

SPECS = (
    OperatorSpec(
        "ARGMAX",
        "2.3.1",
        "tensor",
        (Operand("input", "in_t", (1, MAX_RANK), "shape1"),),
        (Operand("output", "out_t"),),
        modes(
            "in_t out_t",
            "int8 int32",
            "int16 int32: EXT-INT16",
            "fp16 int32: PRO-FP",
            "bf16 int32: EXT-BF16",
            "fp32 int32: PRO-FP",
            "fp8e4m3 int32: EXT-FP8E4M3",
            "fp8e5m2 int32: EXT-FP8E5M2",
        ),
        _argmax_shape,
        (AXIS, NAN_MODE),
        (axis_in_range("input"),),
        traits=Trait.CHANNEL_BY_CHANNEL,
        degree=0,
    ),
    OperatorSpec(
        "AVG_POOL2D",
        "2.3.2",
        "tensor",
        (
            Operand("input", "in_out_t", _IMAGE, "[N,IH,IW,C]"),
            zero_point("input_zp", "in_out_t"),
            zero_point("output_zp", "in_out_t"),
        ),
        (Operand("output", "in_out_t", _IMAGE, "[N,OH,OW,C]"),),
        modes(
            "in_out_t acc_t",
            "int8 int32",
            "int16 int32: EXT-INT16",
            "fp16 fp16: PRO-FP",
            "fp16 fp32: PRO-FP",
            "bf16 fp32: EXT-BF16",
            "fp32 fp32: PRO-FP",
            "fp8e4m3 fp16: EXT-FP8E4M3",
            "fp8e5m2 fp16: EXT-FP8E5M2",
        ),
        _pool_shape,
        (*_POOL_ATTRIBUTES, Attribute("acc_type", "dtype", default=None, type="acc_t")),
        (
            *_POOL_CHECKS,
            zero_point_needs_int8("input_zp", "input"),
            zero_point_needs_int8("output_zp", "output"),
        ),
        traits=Trait.POOLS | Trait.CHANNEL_BY_CHANNEL | Trait.SAMPLE_BY_SAMPLE,
        degree=1,
    ),
    OperatorSpec(
        "MAX_POOL2D",
        "2.3.9",
        "tensor",
        (Operand("input", "in_out_t", _IMAGE, "[N,IH,IW,C]"),),
        (Operand("output", "in_out_t", _IMAGE, "[N,OH,OW,C]"),),
        modes(
            "in_out_t",
            "int8",
            "int16: EXT-INT16",
            "fp16: PRO-FP",
            "bf16: EXT-BF16",
            "fp32: PRO-FP",
            "fp8e4m3: EXT-FP8E4M3",
            "fp8e5m2: EXT-FP8E5M2",
        ),
        _pool_shape,
        (*_POOL_ATTRIBUTES, NAN_MODE),
        _POOL_CHECKS,
        traits=Trait.POOLS | Trait.CHANNEL_BY_CHANNEL | Trait.SAMPLE_BY_SAMPLE | Trait.PICKS,
        degree=1,
    ),
    OperatorSpec(
        "MATMUL",
        "2.3.8",
        "tensor",
        (
            Operand("A", "in_t", (3, 3), "[N,H,C]"),
            Operand("B", "in_t", (3, 3), "[N,C,W]"),
            zero_point("A_zp", "in_t"),
            zero_point("B_zp", "in_t"),
        ),
        (Operand("output", "out_t", (3, 3), "[N,H,W]"),),
        modes(
            "in_t out_t",
            "int8 int32",
            "int16 int48: EXT-INT16",
            "fp16 fp16: PRO-FP",
            "fp16 fp32: PRO-FP",
            "bf16 fp32: EXT-BF16",
            "fp32 fp32: PRO-FP",
            "fp8e4m3 fp16: EXT-FP8E4M3",
            "fp8e5m2 fp16: EXT-FP8E5M2",
        ),
        _matmul_shape,
        (),
        (zero_point_needs_int8("A_zp", "A"), zero_point_needs_int8("B_zp", "B")),
        traits=Trait.SUMS_PRODUCTS,
        degree=2,
    ),
    OperatorSpec(
        "FFT2D",
        "2.3.6",
        "tensor",
        (
            Operand("input_real", "in_out_t", (3, 3), "[N,H,W]"),
            Operand("input_imag", "in_out_t", (3, 3), "[N,H,W]"),
        ),
        (
            Operand("output_real", "in_out_t", (3, 3), "[N,H,W]"),
            Operand("output_imag", "in_out_t", (3, 3), "[N,H,W]"),
        ),
        _FFT_MODES,
        lambda node: [node.shape("input_real")] * 2,
        (Attribute("inverse", "bool"), _LOCAL_BOUND),
        (fft_size_power_of_two, fft_parts_match),
        extension="EXT-FFT",
        degree=1,
    ),
    OperatorSpec(
        "RFFT2D",
        "2.3.10",
        "tensor",
        (Operand("input_real", "in_out_t", (3, 3), "[N,H,W]"),),
        (
            Operand("output_real", "in_out_t", (3, 3), "[N,H,W/2+1]"),
            Operand("output_imag", "in_out_t", (3, 3), "[N,H,W/2+1]"),
        ),
        _FFT_MODES,
        _rfft_shape,
        (_LOCAL_BOUND,),
        (fft_size_power_of_two,),
        extension="EXT-FFT",
        traits=Trait.SAMPLE_BY_SAMPLE,
        degree=1,
    ),
)
