"""What all stages know of the machine: which part of it runs an operator, and how elements lie in memory."""

import enum

from tosaic.compiler.ir import DType
from tosaic.compiler.machine_numbers import GROUP_MOST_PIXELS
from tosaic.hw.isa import Element


class Kind(enum.Enum):
    """How an operator runs."""

    ARRAY = "multiplied and summed by the array, with what follows on the way out"
    POOL = "a window over an image, reduced by the vector unit"
    REDUCTION = "a running value over an axis"
    ARGMAX = "a running value over an axis that carries its index"
    ELEMENTWISE = "micro-operations lane by lane"
    LAYOUT = "elements are copied to other places"
    GATHER_SCATTER = "rows are copied by index"
    CONTROL_FLOW = "branches between graphs"
    RENAMING = "the same bytes under another name"


KIND: dict[str, Kind] = {
    **dict.fromkeys(("CONV2D", "DEPTHWISE_CONV2D", "MATMUL"), Kind.ARRAY),
    **dict.fromkeys(("AVG_POOL2D", "MAX_POOL2D"), Kind.POOL),
    **dict.fromkeys(("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"), Kind.REDUCTION),
    "ARGMAX": Kind.ARGMAX,
    **dict.fromkeys(
        (
            *("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "NEGATE", "ABS", "CLZ", "CLAMP", "CAST", "SELECT"),
            *("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "BITWISE_NOT"),
            *("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR", "LOGICAL_NOT"),
            *("LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT", "ARITHMETIC_RIGHT_SHIFT"),
            *("EQUAL", "GREATER", "GREATER_EQUAL", "RESCALE", "TABLE"),
        ),
        Kind.ELEMENTWISE,
    ),
    **dict.fromkeys(("CONCAT", "PAD", "REVERSE", "SLICE", "TILE", "TRANSPOSE"), Kind.LAYOUT),
    **dict.fromkeys(("GATHER", "SCATTER"), Kind.GATHER_SCATTER),
    **dict.fromkeys(("COND_IF", "WHILE_LOOP"), Kind.CONTROL_FLOW),
    **dict.fromkeys(("RESHAPE", "IDENTITY"), Kind.RENAMING),
}
"""Every operator that runs as it is. The others are decomposed into these (`legalize`) or refused by name."""

WINDOWED = frozenset({Kind.ARRAY, Kind.POOL})
"""Kinds whose input is read in windows."""
BASES = frozenset({Kind.ARRAY, Kind.POOL, Kind.REDUCTION, Kind.ARGMAX})
"""Kinds that begin a layer: what follows elementwise joins them."""


ELEMENT = {
    DType.BOOL: Element.UINT8,
    DType.INT4: Element.INT8,
    DType.INT8: Element.INT8,
    DType.UINT8: Element.UINT8,
    DType.INT16: Element.INT16,
    DType.UINT16: Element.UINT16,
    DType.INT32: Element.INT32,
    DType.INT48: Element.INT48,
}
"""How a tensor's elements lie in memory; int4 takes a byte each, int48 eight."""


def operators_of(*kinds: Kind) -> frozenset[str]:
    """The names of all operators of some kinds."""
    return frozenset(op for op, kind in KIND.items() if kind in kinds)


def reciprocal_scale(count: int) -> tuple[int, int]:
    """Returns multiplier and shift that divide by `count` (clause 1.9.3)."""
    k = (count - 1).bit_length()
    return (((1 << 30) + 1) << k) // count, 30 + k


def group_sizes(width: int, columns: int) -> list[int]:
    """How many neighbouring pixels of a row of `width` may share vectors: divisors up to `columns`, or the least one
    above it, the smallest first."""
    found = [size for size in range(2, columns + 1) if width % size == 0]
    if found or width <= columns:
        return found
    larger = (size for size in range(columns + 1, min(width, GROUP_MOST_PIXELS) + 1) if width % size == 0)
    return [size for size in (next(larger, None),) if size is not None]
