"""How nextpnr routes a placed ECP5 design.

Its router reads settings that have no option from the design's file, and lets critical connections keep wires that
others use too, to a twentieth of the price: of a full device's thousands of near-critical connections, a few hundred
never come apart. So a placement, which is made for the clock rate, is routed by wires alone; delays are their price.
"""

import json
import pathlib

SETTINGS = {
    "timing_driven": "0",
    "router": "router2",
    # Tiles around a connection in which it may be routed; what a wire that is used twice costs more in each round.
    "router2/bbMargin/x": "7",
    "router2/bbMargin/y": "7",
    "router2/currCongWeightMult": "0.7",
    "router2/histCongWeight": "1.5",
}


def prepare_routing(placed: pathlib.Path, top: str, output: pathlib.Path) -> None:
    """Copy nextpnr's JSON of a placed design with the router's settings."""
    design = json.loads(placed.read_text())
    design["modules"][top]["settings"].update(SETTINGS)
    output.write_text(json.dumps(design))


__all__ = ["SETTINGS", "prepare_routing"]
