"""Mutants that give the places of the array's delay line other names: a bit of a place is inverted on its way to the
memory, for reads as for writes, so that each word is found where it was put. It may be inverted where another bit is
0 or 1 that is so with each vector."""

import pathlib
import re
from collections.abc import Sequence

from rtl_netlist import Mutant
from rtl_unseen import Bit, Fact, Loose, Renamed, State, unseen

STAGES = range(1, 5)
"""Of a slot's control behind its issue; reads are made from the last but one, writes from the last one."""
FIRST_BIT, PLACE_BITS = 14, 7
"""Of the place in group 1's memory, in a slot's control (hw/array/layouts.py)."""
MEMORY = "array.fetch.delay_line.group_1"
ALWAYS = 0
"""The bit of it that each slot with a vector has (rtl_facts.py)."""
NEVER = (1, 2, 3, 9)
"""Bits that none has."""
_HERE = re.compile(
    rf"-mode (?:inv|cnot0(?= .* -ctrlbit (?P<never>{'|'.join(map(str, NEVER))}) )|cnot1(?= .* -ctrlbit {ALWAYS} )) "
    r".*-wire accelerator\.array\.(?:issue\.slot|fetch\.control_(?P<stage>\d)) -wirebit (?P<bit>\d+)"
)


def renamed_places(mutants: Sequence[Mutant], facts: Sequence[Fact], folder: pathlib.Path) -> set[Mutant]:
    """Those of the netlist in `folder` that are proved to do so. `facts`: what is known of slots with a vector."""
    proved = set[Mutant]()
    for mutant in mutants:
        found = _HERE.search(mutant.change.replace("\\", ""))
        if found and 0 <= int(found["bit"]) - FIRST_BIT < PLACE_BITS:
            bit, never = int(found["bit"]), found["never"] and int(found["never"])
            plain = "-mode inv" in mutant.change
            loose = [
                inverted(stage, bit, plain, never) for stage in STAGES if stage > int(found["stage"] or 0)
            ]
            renamed = Renamed(MEMORY, (bit - FIRST_BIT,))
            proved |= unseen([mutant], loose, facts, folder, [renamed])
    return proved


def inverted(stage: int, bit: int, plain: bool, never: int | None) -> Loose:
    """A slot that is there has it inverted: each (`plain`), or where the bit `never` is 0, or ALWAYS is 1."""
    slot = f"array.fetch.control_{stage}"

    def other(state: State) -> Bit:
        if plain:
            return "1"
        return state.bit(slot, ALWAYS) if never is None else state.no(state.bit(slot, never))

    return Loose(slot, (bit,), lambda state: state.bit(f"array.fetch.valid_{stage}"), other)


__all__ = ["renamed_places"]
