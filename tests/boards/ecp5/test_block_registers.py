"""A multiplier block that has taken the registers behind it shows, cycle by cycle, what they showed."""

import copy
import random

import pytest

from tosaic.boards.ecp5.block_registers import take_registers
from tosaic.boards.ecp5.multipliers import KIND, PRODUCT_BITS, align_factors

CLOCK, OTHER_CLOCK, ENABLE = 500, 501, 502
FIRST_A, FIRST_B, FIRST_PRODUCT, FIRST_REGISTER, FIRST_OUT = 2, 50, 100, 200, 300
IN_FRONT = 600
FACTOR = 9
"""Bits of a factor; the product has twice as many."""


def register(net: int, out: int) -> dict:
    return {
        "type": "TRELLIS_FF",
        "parameters": {"CEMUX": "1 ", "CLKMUX": "CLK", "GSR": "DISABLED", "LSRMUX": "LSR", "REGSET": "RESET"},
        "port_directions": {"CLK": "input", "DI": "input", "LSR": "input", "Q": "output"},
        "connections": {"CLK": [CLOCK], "DI": [net], "LSR": ["0"], "Q": [out]},
    }


def design_of() -> dict:
    """Two factors of nine bits, their product in registers, and a second row of registers, which goes out."""
    wires = {f"P{place}": [FIRST_PRODUCT + place] for place in range(PRODUCT_BITS)}
    for factor, first in (("A", FIRST_A), ("B", FIRST_B)):
        nets = [first + min(place, FACTOR - 1) for place in range(18)]
        wires |= {f"{factor}{place}": [net] for place, net in enumerate(nets)}
        wires |= {f"SIGNED{factor}": ["1"], f"SOURCE{factor}": ["0"]}
    block = {
        "type": KIND,
        "parameters": {},
        "port_directions": {port: "output" if port[0] == "P" else "input" for port in wires},
        "connections": wires,
    }
    cells = {"block": block}
    for place in range(2 * FACTOR):
        cells[f"product_{place}"] = register(FIRST_PRODUCT + place, FIRST_REGISTER + place)
        cells[f"later_{place}"] = register(FIRST_REGISTER + place, FIRST_OUT + place)
    out = list(range(FIRST_OUT, FIRST_OUT + 2 * FACTOR))
    ports = {"out": {"direction": "output", "bits": out}}
    return {"modules": {"top": {"cells": cells, "ports": ports, "netnames": {}}}}


def with_factor_registers() -> dict:
    """The same with a register with an enable in front of each bit of both factors."""
    design = design_of()
    cells = design["modules"]["top"]["cells"]
    for factor, first in (("A", FIRST_A), ("B", FIRST_B)):
        for place in range(FACTOR):
            each = register(first + place, IN_FRONT + first + place)
            each["parameters"]["CEMUX"] = "CE"
            each["connections"]["CE"], each["port_directions"]["CE"] = [ENABLE], "input"
            cells[f"{factor}_{place}"] = each
        for place in range(18):
            wires = cells["block"]["connections"]
            wires[f"{factor}{place}"] = [IN_FRONT + wires[f"{factor}{place}"][0]]
    return design


def signed(bits: list[int]) -> int:
    value = sum(bit << place for place, bit in enumerate(bits))
    return value - (1 << len(bits)) if bits[-1] else value


def shown(design: dict, steps: list[tuple[int, int, int]]) -> list[int]:
    """What goes out after each clock, with these factors and this enable before it."""
    top = design["modules"]["top"]
    block = top["cells"]["block"]
    wires = block["connections"]
    registers = [cell["connections"] for cell in top["cells"].values() if cell["type"] == "TRELLIS_FF"]
    products = {wires[f"P{i}"][0]: i for i in range(PRODUCT_BITS) if f"P{i}" in wires}
    nets = {net: 0 for each in (*(each["Q"] for each in registers), products) for net in each}
    taken = {"A": 0, "B": 0}
    results = []

    def factor(name: str) -> int:
        bits = (wires[f"{name}{place}"][0] for place in range(18))
        return signed([int(bit) if isinstance(bit, str) else nets[bit] for bit in bits])

    def product() -> dict[int, int]:
        a, b = (
            taken[name] if f"REG_INPUT{name}_CLK" in block["parameters"] else factor(name) for name in "AB"
        )
        return {net: a * b >> place & 1 for net, place in products.items()}

    for a, b, enable in steps:
        nets |= {FIRST_A + place: a >> place & 1 for place in range(FACTOR)}
        nets |= {FIRST_B + place: b >> place & 1 for place in range(FACTOR)}
        nets[ENABLE] = enable
        if "REG_OUTPUT_CLK" not in block["parameters"]:
            nets |= product()
        later = {
            each["Q"][0]: nets[each["DI"][0]]
            for each in registers
            if nets[each.get("CE", [ENABLE])[0]] or "CE" not in each
        }
        if "REG_OUTPUT_CLK" in block["parameters"]:
            later |= product()
        for name in "AB":
            if enable and block["parameters"].get(f"REG_INPUT{name}_CE") == "CE1":
                taken[name] = factor(name)
        nets |= later
        results.append(signed([nets[net] for net in top["ports"]["out"]["bits"]]))
    return results


@pytest.mark.parametrize("aligned", [False, True])
def test_every_cycle_shows_the_same(aligned):
    dice = random.Random(3)
    factors = [(dice.randint(-256, 255), dice.randint(-256, 255), 1) for _ in range(50)] + [
        (-256, -256, 1),
        (0, 0, 1),
    ]
    design = design_of()
    before = copy.deepcopy(design)
    if aligned:
        assert align_factors(design, "top") == 1
    assert take_registers(design, "top") == 1
    expected = [0, *(a * b for a, b, _ in factors[:-1])]
    assert shown(before, factors) == shown(design, factors) == expected
    kinds = [cell["type"] for cell in design["modules"]["top"]["cells"].values()]
    assert kinds.count("TRELLIS_FF") == 2 * FACTOR


def test_every_cycle_shows_the_same_behind_a_factors_register():
    """One of the two factors has the block's register, the other has its own."""
    dice = random.Random(4)
    steps = [(dice.randint(-256, 255), dice.randint(-256, 255), dice.randint(0, 1)) for _ in range(80)]
    design = with_factor_registers()
    before = copy.deepcopy(design)
    assert take_registers(copy.deepcopy(design), "top", of_factors=True) == 1, (
        "copies of a sign are one register's"
    )
    align_factors(design, "top")
    assert take_registers(design, "top", of_factors=True) == 2
    assert shown(before, steps) == shown(design, steps)
    assert len(set(shown(design, steps))) > 20
    cells = design["modules"]["top"]["cells"]
    assert [name for name in cells if name[0] in "AB"] == [f"B_{place}" for place in range(FACTOR)]
    block = cells["block"]
    assert (block["parameters"]["REG_INPUTA_CLK"], block["parameters"]["REG_INPUTA_CE"]) == ("CLK0", "CE1")
    assert (block["connections"]["CE1"], block["connections"]["CE0"]) == ([ENABLE], ["1"])


def test_factors_keep_their_registers_unless_it_is_asked_for():
    design = with_factor_registers()
    assert take_registers(design, "top") == 1
    assert len([name for name in design["modules"]["top"]["cells"] if name[0] in "AB"]) == 2 * FACTOR


@pytest.mark.parametrize("change", ["another clock", "another enable", "read beside", "reset"])
def test_such_factors_keep_their_registers(change):
    design = with_factor_registers()
    align_factors(design, "top")
    cells = design["modules"]["top"]["cells"]
    for factor in "AB":
        each = cells[f"{factor}_4"]
        if change == "another clock":
            for place in range(FACTOR):
                cells[f"{factor}_{place}"]["connections"]["CLK"] = [OTHER_CLOCK]
        elif change == "another enable":
            each["connections"]["CE"] = [OTHER_CLOCK]
        elif change == "read beside":
            cells[f"beside_{factor}"] = register(each["connections"]["Q"][0], 900)
        else:
            each["connections"]["LSR"] = [7]
    assert take_registers(design, "top", of_factors=True) == 1


def test_the_register_runs_freely():
    """Its clock is the registers', its enable high and its reset low; the part's global reset does not reach it."""
    design = design_of()
    take_registers(design, "top")
    block = design["modules"]["top"]["cells"]["block"]
    assert block["parameters"] == {"REG_OUTPUT_CLK": "CLK0", "GSR": "DISABLED"}
    ports = {
        port: (block["connections"][port], block["port_directions"][port]) for port in ("CLK0", "CE0", "RST0")
    }
    assert ports == {"CLK0": ([CLOCK], "input"), "CE0": (["1"], "input"), "RST0": (["0"], "input")}
    assert take_registers(design, "top") == 0


def _enabled(cells: dict) -> None:
    cells["product_4"]["parameters"]["CEMUX"] = "CE"
    cells["product_4"]["connections"]["CE"] = [7]
    cells["product_4"]["port_directions"]["CE"] = "input"


def _reset(cells: dict) -> None:
    cells["product_4"]["connections"]["LSR"] = [7]


def _falling_edge(cells: dict) -> None:
    cells["product_4"]["parameters"]["CLKMUX"] = "INV"


def _begins_with_1(cells: dict) -> None:
    cells["product_4"]["parameters"]["REGSET"] = "SET"


def _two_clocks(cells: dict) -> None:
    cells["product_4"]["connections"]["CLK"] = [OTHER_CLOCK]


def _read_beside(cells: dict) -> None:
    cells["beside"] = register(FIRST_PRODUCT + 4, 400)


def _read_by_logic(cells: dict) -> None:
    del cells["product_4"]
    cells["logic"] = {
        "type": "LUT4",
        "parameters": {},
        "port_directions": {"A": "input", "Z": "output"},
        "connections": {"A": [FIRST_PRODUCT + 4], "Z": [FIRST_REGISTER + 4]},
    }


def _no_register(cells: dict) -> None:
    for place in range(2 * FACTOR):
        del cells[f"product_{place}"]


CHANGES = (
    _enabled,
    _reset,
    _falling_edge,
    _begins_with_1,
    _two_clocks,
    _read_beside,
    _read_by_logic,
    _no_register,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_others_stay(change):
    design = design_of()
    change(design["modules"]["top"]["cells"])
    before = copy.deepcopy(design)
    assert take_registers(design, "top") == 0
    assert design == before


def test_a_product_that_goes_out_stays():
    design = design_of()
    design["modules"]["top"]["ports"]["out"]["bits"].append(FIRST_PRODUCT)
    assert take_registers(design, "top") == 0
