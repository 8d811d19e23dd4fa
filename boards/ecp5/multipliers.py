"""Factors of a multiplier block that are narrower than its inputs lie at their upper ends.

Yosys extends a factor's sign over all inputs above it: of two factors of 9 bits, one wire of each goes to ten inputs of
a block of 18, which lie side by side and share what leads to them. With zeros below instead, which take no wires, each
bit goes to one input, and the product is at the upper end of the output.
"""

from typing import Any

KIND = "MULT18X18D"
FACTOR_BITS, PRODUCT_BITS = 18, 36
Cell = dict[str, Any]


def align_factors(design: dict[str, Any], top: str) -> int:
    """Change module `top` of a design, Yosys' JSON; of how many multipliers the factors have moved."""
    module = design["modules"][top]
    moved, same = 0, dict[int, int]()
    used = _used(module)
    for cell in module["cells"].values():
        if cell["type"] == KIND and not cell["parameters"]:
            by = sum(_align(cell, factor) for factor in "AB")
            if by:
                same.update(_move_product(cell, by, used))
                moved += 1
    _rename(module, same)
    return moved


def _align(cell: Cell, factor: str) -> int:
    """Returns by how many bits one of the factors moves: the copies of its sign."""
    wires = cell["connections"]
    if wires[f"SIGNED{factor}"] != ["1"] or wires[f"SOURCE{factor}"] != ["0"]:
        return 0
    bits = [wires[f"{factor}{place}"][0] for place in range(FACTOR_BITS)]
    own = FACTOR_BITS
    while own > 1 and bits[own - 2] == bits[-1]:
        own -= 1
    copies = FACTOR_BITS - own
    for place, bit in enumerate(["0"] * copies + bits[:own]):
        wires[f"{factor}{place}"] = [bit]
    return copies


def _move_product(cell: Cell, by: int, used: set[int]) -> dict[int, int]:
    """The product is `by` bits higher. Bits that would be beyond the highest one are its sign, as this one is: for each
    that is used, the net that has it now."""
    wires = cell["connections"]
    old = [wires[f"P{place}"][0] for place in range(PRODUCT_BITS)]
    sign, *copies = old[PRODUCT_BITS - 1 - by :]
    for place in range(PRODUCT_BITS):
        del wires[f"P{place}"], cell["port_directions"][f"P{place}"]
    for place, net in enumerate(old[: PRODUCT_BITS - by], by):
        wires[f"P{place}"], cell["port_directions"][f"P{place}"] = [net], "output"
    return {net: sign for net in copies if net in used}


def _used(module: dict[str, Any]) -> set[int]:
    """Nets that are an input of a cell, or go out of the module."""
    bits = [bit for port in module["ports"].values() for bit in port["bits"]]
    for cell in module["cells"].values():
        for port, wires in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                bits += wires
    return {bit for bit in bits if isinstance(bit, int)}


def _rename(module: dict[str, Any], same: dict[int, int]) -> None:
    if not same:
        return
    for wires in (
        *(port["bits"] for port in module["ports"].values()),
        *(net["bits"] for net in module["netnames"].values()),
        *(wires for cell in module["cells"].values() for wires in cell["connections"].values()),
    ):
        wires[:] = [same.get(bit, bit) if isinstance(bit, int) else bit for bit in wires]


__all__ = ["align_factors"]
