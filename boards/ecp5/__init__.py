"""ECP5 parts: what is done to Yosys' netlist before nextpnr places and routes it."""

from .floorplan import Floorplan, FloorplanError
from .prepare import PreparedDesign, prepare
from .routing import ROUTE_AGAIN, ask_for

__all__ = ["ROUTE_AGAIN", "Floorplan", "FloorplanError", "PreparedDesign", "ask_for", "prepare"]
