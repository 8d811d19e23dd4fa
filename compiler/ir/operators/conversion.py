"""RESIZE, CAST and RESCALE (2.12, 2.13)."""

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.operators.common import exact_division, shape_of
from tosaic.compiler.ir.operators.spec import Attribute, Operand, OperatorSpec, OpView, Shape, modes
from tosaic.compiler.ir.operators.traits import BY_ELEMENT, Trait

_MAX_RESIZE_EXTENT = 16384
MAX_RESIZE_NUMERATOR = 1 << 11


def resize_parameters_complete(node: OpView) -> str | None:
    """scale must have four elements [y_n, y_d, x_n, x_d], offset and border two each."""
    lengths = [len(node.ints(name)) for name in ("scale", "offset", "border")]
    return None if lengths == [4, 2, 2] else f"{lengths[0]}, {lengths[1]} and {lengths[2]} elements"


def resize_scale_in_range(node: OpView) -> str | None:
    """scale must be positive, its numerators at most 2048, and it must not shrink by 16 or more."""
    scale = node.ints("scale")
    y_n, y_d, x_n, x_d = scale
    positive = min(scale) > 0
    if positive and max(y_n, x_n) <= MAX_RESIZE_NUMERATOR and y_d < 16 * y_n and x_d < 16 * x_n:
        return None
    return f"scale {scale}"


def resize_offset_in_range(node: OpView) -> str | None:
    """offset must be in the range -n to 16 * n - 1, where n is the numerator of the axis' scale."""
    (y_n, _, x_n, _), offset = node.ints("scale"), node.ints("offset")
    if all(-n <= value < 16 * n for n, value in zip((y_n, x_n), offset, strict=True)):
        return None
    return f"offset {offset} with scale {node.ints('scale')}"


def resize_border_in_range(node: OpView) -> str | None:
    """border must be in the range -16 * n to n - 1, where n is the numerator of the axis' scale."""
    (y_n, _, x_n, _), border = node.ints("scale"), node.ints("border")
    if all(-16 * n <= value < n for n, value in zip((y_n, x_n), border, strict=True)):
        return None
    return f"border {border} with scale {node.ints('scale')}"


def resize_extent_in_range(node: OpView) -> str | None:
    """Height and width of input and output must be less than 16384."""
    sizes = node.shape("input")[1:3] + node.shape("output")[1:3]
    return None if max(sizes) < _MAX_RESIZE_EXTENT else f"{max(sizes)}"


def resize_mode_matches_types(node: OpView) -> str | None:
    """BILINEAR must widen an integer (int8_t to int32_t, int16_t to int48_t), NEAREST must keep the type."""
    source, result = node.dtype("input"), node.dtype("output")
    if source.is_float or (source is result) == (node.attribute("mode") == "NEAREST"):
        return None
    return f"{node.attribute('mode')} from {source.spelling} to {result.spelling}"


def _resize_shape(node: OpView) -> list[Shape]:
    batch, height, width, channels = node.shape("input")
    y_n, y_d, x_n, x_d = node.ints("scale")
    (offset_y, offset_x), (border_y, border_x) = node.ints("offset"), node.ints("border")
    rows = exact_division(node, (height - 1) * y_n - offset_y + border_y, y_d, "height") + 1
    columns = exact_division(node, (width - 1) * x_n - offset_x + border_x, x_d, "width") + 1
    return [(batch, rows, columns, channels)]


def _parameter(name: str, length: int) -> Operand:
    return Operand(name, DType.SHAPE, (1, 1), f"[{length}]", constant=True)


def _unsigned(node: OpView) -> tuple[bool, bool]:
    return node.attribute("input_unsigned"), node.attribute("output_unsigned")


def rescale_unsigned_one_side(node: OpView) -> str | None:
    """input_unsigned and output_unsigned must not both be set."""
    return "both set" if all(_unsigned(node)) else None


def rescale_unsigned_needs_short(node: OpView) -> str | None:
    """input_unsigned and output_unsigned are for int8_t and int16_t on both sides only."""
    types = (node.dtype("input"), node.dtype("output"))
    if not any(_unsigned(node)) or all(dtype in (DType.INT8, DType.INT16) for dtype in types):
        return None
    return f"{types[0].spelling} to {types[1].spelling}"


def rescale_zero_points(node: OpView) -> str | None:
    """a zero point must be 0 unless its type is int8_t, or unsigned 16 bits where it may also be 32768."""
    for side, unsigned in zip(("input", "output"), _unsigned(node), strict=True):
        value, dtype = node.value(f"{side}_zp"), node.dtype(side)
        if value is None or dtype is DType.INT8:
            continue
        zero_point = int(value.reshape(-1)[0])
        if zero_point and not (dtype is DType.INT16 and unsigned and zero_point & 0xFFFF == 0x8000):
            return f"{side}_zp {zero_point} with {side} {'unsigned ' if unsigned else ''}{dtype.spelling}"
    return None


def rescale_scale32_not_int48(node: OpView) -> str | None:
    """scale32 must be false for an int48_t input."""
    return "true" if node.attribute("scale32") and node.dtype("input") is DType.INT48 else None


def rescale_double_round_needs_scale32(node: OpView) -> str | None:
    """rounding_mode DOUBLE_ROUND (0.30: double_round) needs scale32."""
    double = node.attribute("rounding_mode") == "DOUBLE_ROUND"
    return "scale32 false" if double and not node.attribute("scale32") else None


def rescale_multiplier_type(node: OpView) -> str | None:
    """multiplier must be int32_t with scale32 and int16_t without."""
    wanted = DType.INT32 if node.attribute("scale32") else DType.INT16
    found = node.dtype("multiplier")
    return None if found is wanted else f"{found.spelling} with scale32 {node.attribute('scale32')}"


def rescale_channel_count(node: OpView) -> str | None:
    """multiplier and shift must have one element, or with per_channel one per element of the last axis."""
    shape = node.shape("input")
    if node.attribute("per_channel") and not shape:
        return "per_channel on rank 0"
    wanted = shape[-1] if node.attribute("per_channel") else 1
    lengths = node.shape("multiplier")[0], node.shape("shift")[0]
    return (
        None
        if lengths == (wanted, wanted)
        else f"{lengths[0]} multipliers, {lengths[1]} shifts, not {wanted}"
    )


def rescale_scale_in_range(node: OpView) -> str | None:
    """multiplier must not be negative and shift must be in the range 2 to 62 (unpredictable otherwise)."""
    multiplier, shift = node.value("multiplier"), node.value("shift")
    if multiplier is not None and multiplier.size and multiplier.min() < 0:
        return f"multiplier {multiplier.min()}"
    if shift is not None and shift.size and (shift.min() < 2 or shift.max() > 62):
        return f"shift {shift.min() if shift.min() < 2 else shift.max()}"
    return None


_CAST_MODES = modes(
    "in_t out_t",
    *(
        f"{a} {b}"
        for a in ("bool", "int8", "int16", "int32")
        for b in ("bool", "int8", "int16", "int32")
        if a != b
    ),
    *(f"{a} {b}: PRO-FP" for a in ("int8", "int16", "int32") for b in ("fp16", "fp32")),
    *(f"{a} {b}: PRO-FP" for a in ("fp16", "fp32") for b in ("int8", "int16", "int32")),
    *(f"{a} bf16: EXT-BF16" for a in ("int8", "int16", "int32")),
    *(f"bf16 {b}: EXT-BF16" for b in ("int8", "int16", "int32")),
    "fp16 fp32: PRO-FP",
    "fp32 fp16: PRO-FP",
    "bf16 fp32: EXT-BF16",
    "fp32 bf16: EXT-BF16",
    "bool fp32: PRO-FP of 1.1",
    "fp32 bool: PRO-FP of 1.1",
    *(f"{a} {b}: EXT-{b.upper()}" for a in ("fp16", "bf16", "fp32") for b in ("fp8e4m3", "fp8e5m2")),
    *(f"{a} {b}: EXT-{a.upper()}" for a in ("fp8e4m3", "fp8e5m2") for b in ("fp16", "bf16", "fp32")),
)

SPECS = (
    OperatorSpec(
        "RESIZE",
        "2.12.1",
        "image",
        (
            Operand("input", "in_t", (4, 4), "[N,IH,IW,C]"),
            _parameter("scale", 4),
            _parameter("offset", 2),
            _parameter("border", 2),
        ),
        (Operand("output", "out_t", (4, 4), "[N,OH,OW,C]"),),
        modes(
            "in_t out_t",
            "int8 int32",
            "int8 int8",
            "int16 int48: EXT-INT16",
            "int16 int16: EXT-INT16",
            "fp16 fp16: PRO-FP",
            "bf16 bf16: EXT-BF16",
            "fp32 fp32: PRO-FP",
        ),
        _resize_shape,
        (Attribute("mode", "enum", values=("NEAREST", "BILINEAR")),),
        (
            resize_parameters_complete,
            resize_scale_in_range,
            resize_offset_in_range,
            resize_border_in_range,
            resize_extent_in_range,
            resize_mode_matches_types,
        ),
        traits=Trait.SAMPLE_BY_SAMPLE | Trait.CHANNEL_BY_CHANNEL,
        degree=1,
    ),
    OperatorSpec(
        "CAST",
        "2.13.1",
        "type conversion",
        (Operand("input", "in_t"),),
        (Operand("output", "out_t"),),
        _CAST_MODES,
        shape_of("input"),
        traits=BY_ELEMENT,
    ),
    OperatorSpec(
        "RESCALE",
        "2.13.2",
        "type conversion",
        (
            Operand("input", "in_t"),
            Operand("multiplier", "mul_t", (1, 1), "[NC]", constant=True),
            Operand("shift", DType.INT8, (1, 1), "[NC]", constant=True),
            Operand("input_zp", "in_t", (1, 1), "[1]", constant=True),
            Operand("output_zp", "out_t", (1, 1), "[1]", constant=True),
        ),
        (Operand("output", "out_t"),),
        modes(
            "in_t out_t",
            *(f"{a} {b}" for a in ("int8", "int16", "int32") for b in ("int8", "int16", "int32")),
            *(f"int48 {b}: EXT-INT16" for b in ("int8", "int16", "int32")),
        ),
        shape_of("input"),
        (
            Attribute("scale32", "bool"),
            Attribute("rounding_mode", "enum", values=("SINGLE_ROUND", "INEXACT_ROUND", "DOUBLE_ROUND")),
            Attribute("per_channel", "bool"),
            Attribute("input_unsigned", "bool", default=False),
            Attribute("output_unsigned", "bool", default=False),
        ),
        (
            rescale_unsigned_one_side,
            rescale_unsigned_needs_short,
            rescale_zero_points,
            rescale_scale32_not_int48,
            rescale_double_round_needs_scale32,
            rescale_multiplier_type,
            rescale_channel_count,
            rescale_scale_in_range,
        ),
        traits=BY_ELEMENT,
    ),
)
