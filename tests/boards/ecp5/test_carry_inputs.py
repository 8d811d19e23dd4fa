"""A carry cell whose low inputs are tied high gives the same sums and carries, by Lattice's equations of the cell."""

import copy
import itertools
import random

import pytest

from tosaic.boards.ecp5.carry_inputs import KIND, tie_high, without_inputs

NAMES = [f"{name}{half}" for half in "01" for name in "ABCD"]


def cell_of(tables: tuple[str, str], low: list[str], high: list[str]) -> dict:
    nets = {name: [10 + place] for place, name in enumerate(NAMES)}
    nets |= {name: ["0"] for name in low} | {name: ["1"] for name in high}
    return {
        "type": KIND,
        "parameters": {"INIT0": tables[0], "INIT1": tables[1], "INJECT1_0": "NO", "INJECT1_1": "NO"},
        "connections": nets | {"CIN": [30], "COUT": [31], "S0": [32], "S1": [33]},
    }


def outputs(cell: dict, values: dict[int, int], carry: int) -> tuple[int, ...]:
    """S0, S1 and COUT."""
    sums = []
    for half in "01":
        wires = [cell["connections"][f"{name}{half}"][0] for name in "ABCD"]
        a, b, c, d = (int(wire) if isinstance(wire, str) else values[wire] for wire in wires)
        entries = cell["parameters"][f"INIT{half}"][::-1]
        four, two = int(entries[a + 2 * b + 4 * c + 8 * d]), int(entries[a + 2 * b])
        sums.append(four ^ carry)
        carry = carry if four else two
    return *sums, carry


@pytest.mark.parametrize("seed", range(20))
def test_sums_and_carries_stay(seed):
    dice = random.Random(seed)
    tables = tuple("".join(dice.choice("01") for _ in range(16)) for _ in range(2))
    constants = dice.sample(NAMES, dice.randint(1, 6))
    low = [name for name in constants if dice.random() < 0.7]
    cell = cell_of(tables, low, [name for name in constants if name not in low])
    before = copy.deepcopy(cell)
    design = {"modules": {"top": {"cells": {"carry": cell}}}}
    assert tie_high(design, "top") == len(low)
    assert all(cell["connections"][name] != ["0"] for name in NAMES)
    for bits in itertools.product((0, 1), repeat=9):
        values = {10 + place: bit for place, bit in enumerate(bits[:8])}
        assert outputs(cell, values, bits[8]) == outputs(before, values, bits[8])
    assert tie_high(design, "top") == 0


def test_tables():
    """Entry 0 is the last one of the text, A the lowest bit of an entry's number."""
    assert without_inputs("1001011010101010", ["A", "C"]) == "1100110000000000"
    assert without_inputs("1001011010101010", ["B"]) == "0101101010101010"
    assert without_inputs("1001011010101010", []) == "1001011010101010"


def test_others_stay():
    """A carry into the chain is no input of a table, and other cells' constants are not looked at."""
    carry = cell_of(("1" * 16, "0" * 16), [], [])
    carry["connections"]["CIN"] = ["0"]
    logic = {"type": "LUT4", "parameters": {"INIT": "10" * 8}, "connections": {"A": ["0"], "Z": [40]}}
    design = {"modules": {"top": {"cells": {"carry": carry, "logic": logic}}}}
    before = copy.deepcopy(design)
    assert tie_high(design, "top") == 0
    assert design == before
