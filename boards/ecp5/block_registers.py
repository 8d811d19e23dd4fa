"""Registers beside a multiplier block become the block's own.

Yosys leaves the block's registers unused: each bit of a product goes over a wire to a flip-flop in a slice, and over
another one to what adds it. The block's own register spares the first wire and the slice. So do those of its factors,
but nextpnr has no delays for a block of which one factor has a register: it takes the block as if this register were
not there, and the path before it for 3.5 ns longer than it is.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from .multipliers import FACTOR_BITS, KIND, PRODUCT_BITS
from .wires import REGISTER, Wires

Cell = dict[str, Any]
_ALWAYS, _ENABLED = "1 ", "CE"
"""CEMUX of a register without an enable, and of one with it, as Yosys writes them."""
_RISING_FROM_ZERO = {"CLKMUX": "CLK", "REGSET": "RESET"}
"""Parameters of a register that takes with the clock's rising edge, and begins with 0."""
_OUTPUT_ENABLE, _FACTOR_ENABLE = "CE0", "CE1"
"""The block's inputs for the enables of its output, and of a factor."""


@dataclasses.dataclass(frozen=True)
class _Control:
    """What moves a register: nets, or constants."""

    clock: int | str
    enable: int | str


def take_registers(design: dict[str, Any], top: str, of_factors: bool = False) -> int:
    """Change module `top` of a design, Yosys' JSON; how many rows of registers multipliers have taken.

    A multiplier takes the registers behind it if each bit of its product goes to one register and nowhere else, and
    these registers are of one clock, without enable and reset. With `of_factors` those in front of it, too, if each bit
    of a factor comes from a register that goes nowhere else, all of one clock and one enable, without reset.
    """
    module = design["modules"][top]
    cells: dict[str, Cell] = module["cells"]
    wires = Wires(cells)
    outside = {bit for port in module["ports"].values() for bit in port["bits"]}
    taken = 0
    for cell in list(cells.values()):
        if cell["type"] == KIND and not cell["parameters"]:
            taken += _take_product(cell, cells, wires, outside)
            # One factor's: with both, nextpnr takes other delays, which no design of ours has tried.
            taken += of_factors and any(_take_factor(cell, factor, cells, wires, outside) for factor in "AB")
    return taken


def _take_product(cell: Cell, cells: dict[str, Cell], wires: Wires, outside: set[int]) -> bool:
    registers = dict[str, str]()
    for port, net in _bits(cell, "P", PRODUCT_BITS):
        ends = wires.ends.get(net, []) if isinstance(net, int) else []
        if net in outside or len(ends) > 1:
            return False
        if ends:
            name, input_port, _ = ends[0]
            if input_port != "DI":
                return False
            registers[port] = name
    control = _control_of([cells.get(name) for name in registers.values()])
    if control is None or control.enable != "1":
        return False
    for port, name in registers.items():
        cell["connections"][port] = cells.pop(name)["connections"]["Q"]
    _configure(cell, "OUTPUT", control, _OUTPUT_ENABLE)
    return True


def _take_factor(cell: Cell, factor: str, cells: dict[str, Cell], wires: Wires, outside: set[int]) -> bool:
    registers = dict[str, str]()
    for port, net in _bits(cell, factor, FACTOR_BITS):
        if isinstance(net, int):
            name, output = wires.driver.get(net, ("", ""))
            if output != "Q" or net in outside or len(wires.ends[net]) > 1:
                return False
            registers[port] = name
    control = _control_of([cells.get(name) for name in registers.values()])
    if control is None or cell["connections"].get("CLK0", [control.clock]) != [control.clock]:
        return False
    for port, name in registers.items():
        cell["connections"][port] = cells.pop(name)["connections"]["DI"]
    _configure(cell, f"INPUT{factor}", control, _FACTOR_ENABLE)
    cell["parameters"][f"REG_INPUT{factor}_CE"] = _FACTOR_ENABLE
    return True


def _bits(cell: Cell, prefix: str, count: int) -> Iterator[tuple[str, int | str]]:
    for place in range(count):
        if f"{prefix}{place}" in cell["connections"]:
            yield f"{prefix}{place}", cell["connections"][f"{prefix}{place}"][0]


def _control_of(registers: list[Cell | None]) -> _Control | None:
    """What moves all of these; None if they are not registers that a block can have, or differ, or another block has
    taken one."""
    controls = set()
    for register in registers:
        if register is None or register["type"] != REGISTER:
            return None
        if register["connections"].get("LSR", ["0"]) != ["0"]:
            return None
        parameters = register["parameters"]
        if any(parameters.get(name) != value for name, value in _RISING_FROM_ZERO.items()):
            return None
        mux, connections = parameters.get("CEMUX"), register["connections"]
        if mux not in (_ALWAYS, _ENABLED):
            return None
        enable = connections["CE"][0] if mux == _ENABLED else "1"
        controls.add(_Control(connections["CLK"][0], enable))
    return controls.pop() if len(controls) == 1 else None


def _configure(cell: Cell, register: str, control: _Control, enable: str) -> None:
    cell["parameters"] |= {f"REG_{register}_CLK": "CLK0", "GSR": "DISABLED"}
    for port, net in (("CLK0", control.clock), (enable, control.enable), ("RST0", "0")):
        cell["connections"][port], cell["port_directions"][port] = [net], "input"


__all__ = ["take_registers"]
