"""How nextpnr routes an ECP5 design.

Its router reads these settings from the design's file, there are no options for them; their defaults do not end on a
full device. A connection may be routed within a margin of tiles around it. A wire that others use too costs more: at
first, in each round, and for each round in which it was so before. Of two ways the one that is shorter by estimate is
looked at first; with a weight of 1, in place of 1.25, the shortest one is found, though later.
"""

import collections
from typing import Any

from .wires import REGISTER, Cells


def _margin(tiles: int) -> dict[str, str]:
    return {"router2/bbMargin/x": str(tiles), "router2/bbMargin/y": str(tiles)}


SETTINGS = _margin(20) | {
    "router2/initCurrCongWeight": "12.0",
    "router2/currCongWeightMult": "0.3",
    "router2/histCongWeight": "0.5",
    "router2/estimateWeight": "1.0",
}
"""Settings of the router. With lower costs at first, and more in each round, some 100 wires are used twice
for hundreds of rounds (decision 0043).
"""
BY_WIRE_LENGTH = SETTINGS | {"router2/histCongWeight": "1.0"}
"""Settings for a design that needs most of a part's wires: fewer of them are used twice in each round
(decision 0042).
"""
ROUTE_AGAIN = "--tmg-ripup"
"""Option of nextpnr: what is later than the clock asked for is routed once more."""


def set_router(design: dict[str, Any], top: str, by_timing: bool = True) -> None:
    """Give module `top` of a design, Yosys' JSON, the router's settings."""
    settings = SETTINGS if by_timing else BY_WIRE_LENGTH
    design["modules"][top].setdefault("settings", {}).update(settings)


def ask_for(design: dict[str, Any], top: str, clock_hz: float) -> str:
    """A line of a file of constraints that asks for this clock, of the net that most registers of module `top` take."""
    module = design["modules"][top]
    cells: Cells = module["cells"]
    clocks = collections.Counter(
        cell["connections"]["CLK"][0] for cell in cells.values() if cell["type"] == REGISTER
    )
    ((net, _),) = clocks.most_common(1)
    name = min(name for name, wire in module["netnames"].items() if wire["bits"] == [net])
    return f'FREQUENCY NET "{name}" {clock_hz / 1e6:g} MHZ;\n'


__all__ = ["BY_WIRE_LENGTH", "ROUTE_AGAIN", "SETTINGS", "ask_for", "set_router"]
