"""Values to the bits of a layout."""

from typing import Any

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import data


def pack(shape: Any, values: dict[str, Any]) -> Value:
    """A value of the layout `shape`, from one value or dictionary per member; short ones are extended with zeros.

    It is for one assignment of the whole. Assigned alone, a constant member would become an `always @*` without a
    sensitivity in Verilog, which simulators never execute.
    """
    layout, parts = data.Layout.cast(shape), []
    if unknown := values.keys() - {name for name, _ in layout}:
        raise ValueError(f"the layout has no member {', '.join(sorted(unknown))}")
    for name, field in layout:
        value = values[name]
        bits = pack(field.shape, value) if isinstance(value, dict) else Value.cast(value)
        if len(bits) > field.width:
            raise ValueError(f"{name} must have at most {field.width} bits, not {len(bits)}")
        parts += [bits, Const(0, field.width - len(bits))]
    return Cat(parts)
