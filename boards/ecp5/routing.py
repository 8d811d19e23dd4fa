"""How nextpnr routes an ECP5 design.

Its router reads these settings from the design's file, there are no options for them; their defaults do not end on a
full device. A connection may be routed within a margin of tiles around it. A wire that others use too costs more: at
first, in each round, and for each round in which it was so before. Of two ways the one that is shorter by estimate is
looked at first; with a weight of 1, in place of 1.25, the shortest one is found, though later.
"""

SETTINGS = {
    "router2/bbMargin/x": "20",
    "router2/bbMargin/y": "20",
    "router2/initCurrCongWeight": "6.0",
    "router2/currCongWeightMult": "0.3",
    "router2/histCongWeight": "1.0",
    "router2/estimateWeight": "1.0",
}
"""With lower costs at first, and more in each round, some 100 wires are used twice for hundreds of rounds
(decision 0043)."""
BY_WIRE_LENGTH = SETTINGS | {"router2/initCurrCongWeight": "12.0"}
"""Of a design that needs most of a part's wires: fewer of them are used twice in each round (decision 0042)."""


def set_router(design: dict, top: str, by_timing: bool = True) -> None:
    """Give module `top` of a design, Yosys' JSON, the router's settings."""
    settings = SETTINGS if by_timing else BY_WIRE_LENGTH
    design["modules"][top].setdefault("settings", {}).update(settings)


__all__ = ["BY_WIRE_LENGTH", "SETTINGS", "set_router"]
