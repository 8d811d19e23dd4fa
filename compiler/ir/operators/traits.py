"""What passes ask about operators: properties of their results that hold for all operands.

Each trait is a claim about arithmetic: `tests/golden/test_traits.py` tries it on golden, with random operands, for each
operator that has it, and shows for most traits that no other operator has it. Golden itself knows nothing of traits.
"""

import enum


class Trait(enum.Flag):
    """A property of an operator. Data operands are those that need not be constants."""

    ELEMENTWISE = enum.auto()
    """An element of the result depends on the element of each data operand at its place, and on no other one. A
    RESCALE may have a scale for each index of the last axis."""
    MOVES = enum.auto()
    """The result's elements are copied from the data operands; where each lies depends on shapes and parameters."""
    REORDERS = enum.auto()
    """Moves each element of the operand to one place."""
    RENAMES = enum.auto()
    """Moves no element in row-major order: the bytes stay where they are."""
    PICKS = enum.auto()
    """Each element of the result is one of the first operand's, chosen by place, index or size."""
    INDEXED = enum.auto()
    """Copies rows from or to the places that its operand `indices` names."""
    REDUCES = enum.auto()
    """Combines the elements along attribute `axis` into one."""
    POOLS = enum.auto()
    """Combines the pixels of windows of an image, channel by channel."""
    CONVOLVES = enum.auto()
    """Multiplies the windows of an image by weights and adds a bias."""
    SUMS_PRODUCTS = enum.auto()
    """Sums products of two operands' elements."""
    SAMPLE_BY_SAMPLE = enum.auto()
    """Works on each index of the first operand's first axis by itself; the other operands are the same for all."""
    CHANNEL_BY_CHANNEL = enum.auto()
    """Works on each index of the last axis by itself, unless that axis is the one that an attribute names."""
    COMPARES = enum.auto()
    """Tells of two numbers which is larger, or whether they are equal."""
    LINEAR = enum.auto()
    """Adds, subtracts or multiplies numbers: a straight line in each operand while the others stand still."""
    BOUNDS = enum.auto()
    """Each element of the result is that of the first operand, or a bound where it lies beyond that."""


NO_TRAIT = Trait(0)
BY_ELEMENT = Trait.ELEMENTWISE | Trait.CHANNEL_BY_CHANNEL
"""What every elementwise operator has."""
