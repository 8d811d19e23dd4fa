"""Mutants that give the places of the array's delay line other names: a bit of a place is inverted on its way to the
memory, for reads as for writes, so that each word is found where it was put. It may be inverted where another bit is
0 that is 0 always, or with each vector."""

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
CLEAR, KEEP = 3, 9
"""Bits of it: 1 in no slot with a vector, and always 0 (rtl_facts.py)."""
_HERE = re.compile(
    rf"-mode (?:inv|cnot0(?= .* -ctrlbit (?P<with>{CLEAR}|{KEEP}) )) "
    r".*-wire accelerator\.array\.(?:issue\.slot|fetch\.control_(?P<stage>\d)) -wirebit (?P<bit>\d+)"
)


def renamed_places(mutants: Sequence[Mutant], facts: Sequence[Fact], folder: pathlib.Path) -> set[Mutant]:
    """Those of the netlist in `folder` that are proved to do so. `facts`: that nothing is kept."""
    proved = set[Mutant]()
    for mutant in mutants:
        found = _HERE.search(mutant.change.replace("\\", ""))
        if found and 0 <= int(found["bit"]) - FIRST_BIT < PLACE_BITS:
            bit = int(found["bit"])
            clear = found["with"] == str(CLEAR)
            loose = [inverted(stage, bit, clear) for stage in STAGES if stage > int(found["stage"] or 0)]
            renamed = Renamed(MEMORY, (bit - FIRST_BIT,))
            proved |= unseen([mutant], loose, facts, folder, [renamed])
    return proved


def inverted(stage: int, bit: int, unless_clear: bool = False) -> Loose:
    """A slot that is there has it inverted; `unless_clear`: but for those that clear sums."""
    slot = f"array.fetch.control_{stage}"
    return Loose(
        slot,
        (bit,),
        lambda state: state.bit(f"array.fetch.valid_{stage}"),
        lambda state: state.no(state.bit(slot, CLEAR)) if unless_clear else "1",
    )


__all__ = ["renamed_places"]
