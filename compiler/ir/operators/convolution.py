"""The convolutions and 0.30's FULLY_CONNECTED (2.3.3 - 2.3.7, 2.3.11)."""

from tosaic.compiler.ir.operators.common import at_least, exact_division, zero_point, zero_point_needs_int8
from tosaic.compiler.ir.operators.spec import Attribute, Operand, OperatorSpec, OpView, Shape, modes
from tosaic.compiler.ir.operators.traits import Trait

_MODES = modes(
    "in_t weight_t out_t acc_t",
    "int8 int8 int32 int32",
    "int8 int4 int32 int32: EXT-INT4",
    "int16 int8 int48 int48: EXT-INT16",
    "fp16 fp16 fp16 fp16: PRO-FP",
    "fp16 fp16 fp16 fp32: PRO-FP",
    "fp16 fp16 fp32 fp32: PRO-FP",
    "bf16 bf16 bf16 fp32: EXT-BF16",
    "bf16 bf16 fp32 fp32: EXT-BF16",
    "fp32 fp32 fp32 fp32: PRO-FP",
    "fp8e4m3 fp8e4m3 fp16 fp16: EXT-FP8E4M3",
    "fp8e5m2 fp8e5m2 fp16 fp16: EXT-FP8E5M2",
)


def convolved(
    node: OpView, axis: str, size: int, pads: tuple[int, int], kernel: int, stride: int, dilation: int
) -> int:
    """Output size of a convolution along one axis; the division must be exact (idiv_check)."""
    return exact_division(node, size - 1 + sum(pads) - (kernel - 1) * dilation, stride, axis) + 1


def _channels_match(node: OpView, input_channels: int, weight_channels: int) -> None:
    if input_channels != weight_channels:
        node.fail(
            "weight and input must have the same number of input channels",
            f"{weight_channels} and {input_channels}",
        )


def _bias_matches(node: OpView, output_channels: int) -> None:
    (length,) = node.shape("bias")
    if length not in (1, output_channels):
        node.fail(
            "bias must have one element per output channel, or one element",
            f"{length} for {output_channels} output channels",
        )


def _conv2d_shape(node: OpView) -> list[Shape]:
    batch, height, width, channels = node.shape("input")
    outputs, kernel_y, kernel_x, weight_channels = node.shape("weight")
    _channels_match(node, channels, weight_channels)
    _bias_matches(node, outputs)
    return [(batch, *_plane(node, height, width, kernel_y, kernel_x), outputs)]


def _depthwise_shape(node: OpView) -> list[Shape]:
    batch, height, width, channels = node.shape("input")
    kernel_y, kernel_x, weight_channels, multiplier = node.shape("weight")
    _channels_match(node, channels, weight_channels)
    _bias_matches(node, channels * multiplier)
    return [(batch, *_plane(node, height, width, kernel_y, kernel_x), channels * multiplier)]


def _plane(node: OpView, height: int, width: int, kernel_y: int, kernel_x: int) -> tuple[int, int]:
    top, bottom, left, right = node.attribute("pad")
    stride_y, stride_x = node.attribute("stride")
    dilation_y, dilation_x = node.attribute("dilation")
    return (
        convolved(node, "height", height, (top, bottom), kernel_y, stride_y, dilation_y),
        convolved(node, "width", width, (left, right), kernel_x, stride_x, dilation_x),
    )


def _conv3d_shape(node: OpView) -> list[Shape]:
    batch, *sizes, channels = node.shape("input")
    outputs, *kernel, weight_channels = node.shape("weight")
    _channels_match(node, channels, weight_channels)
    _bias_matches(node, outputs)
    pad, stride, dilation = (node.attribute(name) for name in ("pad", "stride", "dilation"))
    axes = [
        convolved(node, name, sizes[i], (pad[2 * i], pad[2 * i + 1]), kernel[i], stride[i], dilation[i])
        for i, name in enumerate(("depth", "height", "width"))
    ]
    return [(batch, *axes, outputs)]


def _transpose_shape(node: OpView) -> list[Shape]:
    batch, height, width, channels = node.shape("input")
    outputs, kernel_y, kernel_x, weight_channels = node.shape("weight")
    _channels_match(node, channels, weight_channels)
    _bias_matches(node, outputs)
    top, bottom, left, right = node.attribute("out_pad")
    stride_y, stride_x = node.attribute("stride")
    rows = (height - 1) * stride_y + top + bottom + kernel_y
    columns = (width - 1) * stride_x + left + right + kernel_x
    if rows < 1 or columns < 1:
        node.fail("the output must have at least one pixel", f"{rows} x {columns}")
    return [(batch, rows, columns, outputs)]


def transpose_out_pad_above_kernel(node: OpView) -> str | None:
    """every out_pad must be greater than minus the kernel size of its axis (1.0 signs: positive adds)."""
    _, kernel_y, kernel_x, _ = node.shape("weight")
    top, bottom, left, right = node.attribute("out_pad")
    if min(top, bottom) > -kernel_y and min(left, right) > -kernel_x:
        return None
    return f"out_pad {node.attribute('out_pad')} with kernel {[kernel_y, kernel_x]}"


def _fully_connected_shape(node: OpView) -> list[Shape]:
    (batch, channels), (outputs, weight_channels) = node.shape("input"), node.shape("weight")
    _channels_match(node, channels, weight_channels)
    _bias_matches(node, outputs)
    return [(batch, outputs)]


def _operands(rank: int, data: str, weight: str, bias: str) -> tuple[Operand, ...]:
    return (
        Operand("input", "in_t", (rank, rank), data),
        Operand("weight", "weight_t", (rank, rank), weight),
        Operand("bias", "out_t", (1, 1), bias),
        zero_point("input_zp", "in_t"),
        zero_point("weight_zp", "weight_t"),
    )


def _attributes(spatial: int) -> tuple[Attribute, ...]:
    return (
        Attribute("pad", "ints", length=2 * spatial),
        Attribute("stride", "ints", length=spatial),
        Attribute("dilation", "ints", length=spatial),
        *_COMMON_ATTRIBUTES,
    )


_COMMON_ATTRIBUTES = (
    Attribute("local_bound", "bool", default=False),
    Attribute("acc_type", "dtype", default=None, type="acc_t"),
)
_ZERO_POINTS = (zero_point_needs_int8("input_zp", "input"), zero_point_needs_int8("weight_zp", "weight"))
_CHECKS = (at_least("pad", 0), at_least("stride", 1), at_least("dilation", 1), *_ZERO_POINTS)
_CONVOLUTION = Trait.CONVOLVES | Trait.SUMS_PRODUCTS | Trait.SAMPLE_BY_SAMPLE

SPECS = (
    OperatorSpec(
        "CONV2D",
        "2.3.3",
        "tensor",
        _operands(4, "[N,IH,IW,IC]", "[OC,KH,KW,IC]", "[OC] or [1]"),
        (Operand("output", "out_t", (4, 4), "[N,OH,OW,OC]"),),
        _MODES,
        _conv2d_shape,
        _attributes(2),
        _CHECKS,
        traits=_CONVOLUTION,
    ),
    OperatorSpec(
        "CONV3D",
        "2.3.4",
        "tensor",
        _operands(5, "[N,ID,IH,IW,IC]", "[OC,KD,KH,KW,IC]", "[OC] or [1]"),
        (Operand("output", "out_t", (5, 5), "[N,OD,OH,OW,OC]"),),
        _MODES,
        _conv3d_shape,
        _attributes(3),
        _CHECKS,
        traits=_CONVOLUTION,
    ),
    OperatorSpec(
        "DEPTHWISE_CONV2D",
        "2.3.5",
        "tensor",
        _operands(4, "[N,IH,IW,C]", "[KH,KW,C,M]", "[C*M] or [1]"),
        (Operand("output", "out_t", (4, 4), "[N,OH,OW,C*M]"),),
        _MODES,
        _depthwise_shape,
        _attributes(2),
        _CHECKS,
        traits=_CONVOLUTION,
    ),
    OperatorSpec(
        "TRANSPOSE_CONV2D",
        "2.3.11",
        "tensor",
        _operands(4, "[N,IH,IW,IC]", "[OC,KH,KW,IC]", "[OC] or [1]"),
        (Operand("output", "out_t", (4, 4), "[N,OH,OW,OC]"),),
        _MODES,
        _transpose_shape,
        (Attribute("out_pad", "ints", length=4), Attribute("stride", "ints", length=2), *_COMMON_ATTRIBUTES),
        (at_least("stride", 1), transpose_out_pad_above_kernel, *_ZERO_POINTS),
        traits=_CONVOLUTION,
    ),
    OperatorSpec(
        "FULLY_CONNECTED",
        "2.3.7",
        "tensor",
        _operands(2, "[N,IC]", "[OC,IC]", "[OC]"),
        (Operand("output", "out_t", (2, 2), "[N,OC]"),),
        _MODES,
        _fully_connected_shape,
        _COMMON_ATTRIBUTES,
        _ZERO_POINTS,
        versions=("0.30",),
        traits=Trait.SUMS_PRODUCTS,
    ),
)
