"""ECP5 parts: what is done to Yosys' netlist before nextpnr places and routes it."""

from .floorplan import Floorplan, FloorplanError
from .prepare import Prepared, prepare

__all__ = ["Floorplan", "FloorplanError", "Prepared", "prepare"]
