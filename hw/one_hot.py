"""Choice by flags of which one at most is high: AND and OR, where a multiplexer would decode a number first."""

import enum
import functools
import operator
from collections.abc import Iterable

from amaranth.hdl import Cat, Value


def only_if(flag: Value, value: Value) -> Value:
    """The bits of `value`, unsigned, where `flag` is high; else 0."""
    return value[:] & flag.replicate(len(value))


def any_of(values: Iterable[Value]) -> Value:
    """The one value that is not 0, or 0. There is at least one."""
    return functools.reduce(operator.or_, values)


def one_of(value: Value, *members: enum.IntEnum) -> Value:
    """Whether `value` is one of the members."""
    return Cat(value == member.value for member in members).any()


__all__ = ["any_of", "one_of", "only_if"]
