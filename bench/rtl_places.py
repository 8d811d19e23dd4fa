"""Mutants that give the places of the array's delay line other names: a bit of a place is inverted on its way to the
memory, for reads as for writes, so that each word is found where it was put. It may be inverted where another bit is
0 that always is."""

import pathlib
import re
from collections.abc import Sequence

from rtl_netlist import Mutant
from rtl_unseen import Fact, Loose, Renamed, unseen

STAGES = range(1, 5)
"""Of a slot's control behind its issue; reads are made from the last but one, writes from the last one."""
FIRST_BIT, PLACE_BITS = 14, 7
"""Of the place in group 1's memory, in a slot's control (hw/array/layouts.py)."""
MEMORY = "array.fetch.delay_line.group_1"
KEEP = 9
"""A bit of it that is always 0 (rtl_facts.py)."""
_HERE = re.compile(
    rf"-mode (?:inv|cnot0(?= .* -ctrlbit {KEEP} )) "
    r".*-wire accelerator\.array\.(?:issue\.slot|fetch\.control_(?P<stage>\d)) -wirebit (?P<bit>\d+)"
)


def renamed_places(mutants: Sequence[Mutant], facts: Sequence[Fact], folder: pathlib.Path) -> set[Mutant]:
    """Those of the netlist in `folder` that are proved to do so. `facts`: that nothing is kept."""
    proved = set[Mutant]()
    for mutant in mutants:
        found = _HERE.search(mutant.change.replace("\\", ""))
        if found and 0 <= int(found["bit"]) - FIRST_BIT < PLACE_BITS:
            bit = int(found["bit"])
            loose = [inverted(stage, bit) for stage in STAGES if stage > int(found["stage"] or 0)]
            renamed = Renamed(MEMORY, (bit - FIRST_BIT,))
            proved |= unseen([mutant], loose, facts, folder, [renamed])
    return proved


def inverted(stage: int, bit: int) -> Loose:
    """A slot that is there has it inverted."""
    return Loose(
        f"array.fetch.control_{stage}",
        (bit,),
        lambda state: state.bit(f"array.fetch.valid_{stage}"),
        lambda _: "1",
    )


__all__ = ["renamed_places"]
