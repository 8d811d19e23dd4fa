"""Factors that move within their multiplier have the product that they had."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tosaic.boards.ecp5.multipliers import FACTOR_BITS, KIND, PRODUCT_BITS, align_factors

WIDTHS = st.integers(1, FACTOR_BITS)
FIRST_OF_PRODUCT = 100
"""Net of the product's lowest bit."""


def design_of(widths: tuple[int, int], signed: tuple[bool, bool] = (True, True)) -> dict:
    """A multiplier of two factors: A's bits are nets 2, 3, ..., B's 50, 51, ...; every bit of the product goes out."""
    wires = {f"P{place}": [FIRST_OF_PRODUCT + place] for place in range(PRODUCT_BITS)}
    for factor, first, width, sign in zip("AB", (2, 50), widths, signed, strict=True):
        nets = list(range(first, first + width))
        nets += [nets[-1] if sign else "0"] * (FACTOR_BITS - width)
        wires |= {f"{factor}{place}": [net] for place, net in enumerate(nets)}
        wires |= {f"SIGNED{factor}": ["1" if sign else "0"], f"SOURCE{factor}": ["0"]}
    cell = {
        "type": KIND,
        "parameters": {},
        "port_directions": {port: "output" if port[0] == "P" else "input" for port in wires},
        "connections": wires,
    }
    out = list(range(FIRST_OF_PRODUCT, FIRST_OF_PRODUCT + PRODUCT_BITS))
    ports = {"out": {"direction": "output", "bits": out}}
    netnames = {"product": {"bits": list(out)}}
    return {"modules": {"top": {"cells": {"multiply": cell}, "ports": ports, "netnames": netnames}}}


def number(bits: list[int], signed: bool) -> int:
    value = sum(bit << place for place, bit in enumerate(bits))
    return value - (1 << len(bits)) if signed and bits[-1] else value


def product(design: dict, nets: dict[int, int]) -> int:
    """What goes out, as the block computes it."""
    (cell,) = design["modules"]["top"]["cells"].values()
    wires = cell["connections"]

    def bit(port: str) -> int:
        (wire,) = wires[port]
        return int(wire) if isinstance(wire, str) else nets[wire]

    a, b = (
        number([bit(f"{factor}{place}") for place in range(FACTOR_BITS)], bool(bit(f"SIGNED{factor}")))
        for factor in "AB"
    )
    driven = {wires[f"P{i}"][0]: a * b >> i & 1 for i in range(PRODUCT_BITS) if f"P{i}" in wires}
    return number([driven[net] for net in design["modules"]["top"]["ports"]["out"]["bits"]], signed=True)


@given(widths=st.tuples(WIDTHS, WIDTHS), data=st.data())
def test_the_product_stays(widths, data):
    design = design_of(widths)
    a, b = (data.draw(st.integers(-(1 << width - 1), (1 << width - 1) - 1)) for width in widths)
    nets = {2 + place: a >> place & 1 for place in range(widths[0])}
    nets |= {50 + place: b >> place & 1 for place in range(widths[1])}
    before = copy.deepcopy(design)
    assert align_factors(design, "top") == (widths != (FACTOR_BITS, FACTOR_BITS))
    assert product(before, nets) == product(design, nets) == a * b
    top = design["modules"]["top"]
    assert top["netnames"]["product"]["bits"] == top["ports"]["out"]["bits"]


def test_each_bit_goes_to_one_input():
    design = design_of((9, 9))
    align_factors(design, "top")
    wires = design["modules"]["top"]["cells"]["multiply"]["connections"]
    for factor, first in (("A", 2), ("B", 50)):
        bits = [wires[f"{factor}{place}"][0] for place in range(FACTOR_BITS)]
        assert bits == ["0"] * 9 + list(range(first, first + 9))
    assert [wires[f"P{place}"] for place in range(18, 36)] == [
        [FIRST_OF_PRODUCT + place] for place in range(18)
    ]


@pytest.mark.parametrize("change", ["unsigned", "with registers"])
def test_others_stay(change):
    design = design_of((9, 9), signed=(change != "unsigned",) * 2)
    if change == "with registers":
        design["modules"]["top"]["cells"]["multiply"]["parameters"] = {"REG_OUTPUT_CLK": "CLK0"}
    before = copy.deepcopy(design)
    assert align_factors(design, "top") == 0
    assert design == before
