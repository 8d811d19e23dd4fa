"""Registers behind a multiplier block's output become the block's own.

Yosys leaves the block's registers unused: each bit of a product goes over a wire to a flip-flop in a slice, and over
another one to what adds it. The block's own register spares the first wire and the slice.
"""

from typing import Any

from .fan_out import Wires
from .multipliers import KIND, PRODUCT_BITS

Cell = dict[str, Any]
_REGISTER = "TRELLIS_FF"
_FREE_RUNNING = {"CEMUX": "1 ", "CLKMUX": "CLK", "REGSET": "RESET"}
"""Parameters of a register that takes in every cycle, with the clock's rising edge, and begins with 0."""


def take_registers(design: dict[str, Any], top: str) -> int:
    """Change module `top` of a design, Yosys' JSON; how many multipliers have taken registers.

    A multiplier does so if each bit of its product goes to one register and nowhere else, and these registers are of
    one clock, without enable and reset.
    """
    module = design["modules"][top]
    cells: dict[str, Cell] = module["cells"]
    wires = Wires(cells)
    outside = {bit for port in module["ports"].values() for bit in port["bits"]}
    taken = 0
    for cell in list(cells.values()):
        if cell["type"] == KIND and not cell["parameters"]:
            registers = _registers(cell, cells, wires, outside)
            if registers is not None:
                _take(cell, registers, cells)
                taken += 1
    return taken


def _registers(cell: Cell, cells: dict[str, Cell], wires: Wires, outside: set[int]) -> dict[str, str] | None:
    """The name of the register of each output that is used; None if one of them has none."""
    found, clocks = dict[str, str](), set[int]()
    for place in range(PRODUCT_BITS):
        port = f"P{place}"
        if port not in cell["connections"]:
            continue
        (net,) = cell["connections"][port]
        ends = wires.ends.get(net, [])
        if net in outside or len(ends) > 1:
            return None
        if not ends:
            continue
        name, input_port, _ = ends[0]
        register = cells[name]
        if register["type"] != _REGISTER or input_port != "DI" or not _is_free_running(register):
            return None
        found[port] = name
        clocks.update(register["connections"]["CLK"])
    return found if len(clocks) == 1 else None


def _is_free_running(register: Cell) -> bool:
    parameters = register["parameters"]
    return register["connections"].get("LSR", ["0"]) == ["0"] and all(
        parameters.get(name) == value for name, value in _FREE_RUNNING.items()
    )


def _take(cell: Cell, registers: dict[str, str], cells: dict[str, Cell]) -> None:
    wires = cell["connections"]
    for port, name in registers.items():
        register = cells.pop(name)["connections"]
        wires[port], clock = register["Q"], register["CLK"]
    cell["parameters"] |= {"REG_OUTPUT_CLK": "CLK0", "GSR": "DISABLED"}
    for port, net in (("CLK0", clock), ("CE0", ["1"]), ("RST0", ["0"])):
        wires[port], cell["port_directions"][port] = net, "input"


__all__ = ["take_registers"]
