"""What all stages know of the machine: which part of it runs an operator, and how elements lie in memory."""

import enum

from tosaic.compiler.ir import OPERATORS, DType, Trait
from tosaic.compiler.ir.operators import OperatorSpec
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


_DECOMPOSED = frozenset({"CONV3D", "TRANSPOSE_CONV2D", "FULLY_CONNECTED", "INTDIV"})
"""Operators that have the traits of a kind, but that no unit computes as they are."""
_KIND_OF_TRAIT = {
    Trait.RENAMES: Kind.RENAMING,
    Trait.ELEMENTWISE: Kind.ELEMENTWISE,
    Trait.SUMS_PRODUCTS: Kind.ARRAY,
    Trait.POOLS: Kind.POOL,
    Trait.REDUCES: Kind.REDUCTION,
    Trait.INDEXED: Kind.GATHER_SCATTER,
}
"""The kind of an operator is that of its first trait here."""


def _kind(spec: OperatorSpec) -> Kind | None:
    if not spec.is_integer or spec.name in _DECOMPOSED:
        return None
    if spec.runs_graphs:
        return Kind.CONTROL_FLOW
    if spec.name == "ARGMAX":
        return Kind.ARGMAX
    other = Kind.LAYOUT if spec.category == "data layout" else None
    return next((kind for trait, kind in _KIND_OF_TRAIT.items() if trait in spec.traits), other)


KIND: dict[str, Kind] = {name: kind for name, spec in OPERATORS.items() if (kind := _kind(spec)) is not None}
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
