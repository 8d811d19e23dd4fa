"""Inputs of carry cells that are always low are taken out of their tables, and tied high.

An input of ECP5's carry cell that is high takes no wire, for that is what it is where nothing drives it. One that is
low is brought by nextpnr from one place of the part.
"""

from typing import Any

KIND = "CCU2C"
_INPUTS = "ABCD"
_LOW, _HIGH = ["0"], ["1"]
_ENTRIES = 16


def tie_high(design: dict[str, Any], top: str) -> int:
    """Change module `top` of a design, Yosys' JSON; how many inputs were low."""
    tied = 0
    for cell in design["modules"][top]["cells"].values():
        if cell["type"] == KIND:
            for half in "01":
                low = [name for name in _INPUTS if cell["connections"].get(f"{name}{half}") == _LOW]
                if low:
                    table = cell["parameters"][f"INIT{half}"]
                    cell["parameters"][f"INIT{half}"] = without_inputs(table, low)
                    cell["connections"] |= {f"{name}{half}": list(_HIGH) for name in low}
                    tied += len(low)
    return tied


def without_inputs(table: str, low: list[str]) -> str:
    """A table, its highest entry first, that no more hangs on these inputs, as if they were low.

    The cell looks at the table twice: with all inputs, and in its lowest four entries with A and B alone. These are the
    ones with C and D low, so that both come out right.
    """
    mask = sum(1 << _INPUTS.index(name) for name in low)
    entries = table[::-1]
    return "".join(entries[number & ~mask] for number in range(_ENTRIES))[::-1]


__all__ = ["KIND", "tie_high", "without_inputs"]
