"""All that is done to the netlist of a design, in the order in which it must be done."""

import collections
import dataclasses
from typing import Any

from .block_registers import take_registers
from .carry_inputs import tie_high
from .fan_out import copy_drivers
from .floorplan import Floorplan
from .free_rows import keep_free
from .local_constants import place_constants
from .multipliers import align_factors
from .routing import set_router


@dataclasses.dataclass(frozen=True)
class PreparedDesign:
    """`cells`: how many of each type the design takes, without those that only keep places free. `blocks`: cells that
    the floorplan has placed, and `copies` those that were made of drivers; 0 without a floorplan."""

    cells: collections.Counter[str]
    blocks: int
    copies: int


def prepare(design: dict[str, Any], top: str, plan: Floorplan | None) -> PreparedDesign:
    """Change module `top` of a design, Yosys' JSON. FloorplanError if the design does not have what `plan` names."""
    by_timing = plan is None or plan.by_timing
    blocks, copies = 0, 0
    align_factors(design, top)
    take_registers(design, top, of_factors=not by_timing)
    if plan:
        blocks = plan.place(design, top)
        copies = copy_drivers(design, top, passing_on=plan.passing_on, for_each_end=plan.for_each_end)
    if not by_timing:
        place_constants(design, top)
    tie_high(design, top)
    set_router(design, top, by_timing)
    cells = collections.Counter[str](cell["type"] for cell in design["modules"][top]["cells"].values())
    if plan and plan.free_rows:
        keep_free(design, top, plan.free_rows, plan.free_columns)
    return PreparedDesign(cells, blocks, copies)


__all__ = ["PreparedDesign", "prepare"]
