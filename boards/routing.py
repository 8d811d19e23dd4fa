"""How nextpnr routes a placed ECP5 design.

Its router reads settings that have no option from the design's file; their defaults do not end on a full device.
"""

import json
import pathlib

SETTINGS = {
    "router": "router2",
    # Tiles around a connection in which it may be routed.
    "router2/bbMargin/x": "5",
    "router2/bbMargin/y": "5",
    # The price of a wire that others use too: at first, more in each round, and more for each round it was so before.
    "router2/initCurrCongWeight": "2.0",
    "router2/currCongWeightMult": "0.7",
    "router2/histCongWeight": "0.7",
}


def prepare_routing(placed: pathlib.Path, top: str, clock_hz: float, output: pathlib.Path) -> None:
    """Copy nextpnr's JSON of a placed design with the router's settings.

    `clock_hz`: the machine's clock. Behind a PLL nextpnr knows it only while it packs; and against its default of
    12 MHz every connection is critical, and critical ones pay a twentieth for wires that others use too.
    """
    design = json.loads(placed.read_text())
    design["modules"][top]["settings"].update(SETTINGS, target_freq=f"{clock_hz:f}")
    output.write_text(json.dumps(design))


__all__ = ["SETTINGS", "prepare_routing"]
