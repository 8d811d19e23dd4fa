"""Mutants of the RTL of which it is proved that no later cycle shows the change, though registers may differ.

Two machines, one with the change, are in the same state but for registers that are not read now: each of these has a
condition under which it is read (Loose), for example that of a valid word. A memory may have its words at other places
(Renamed). Some facts hold in every state behind the
reset (rtl_machine.py). Yosys' SAT solver proves: whatever the state, in which the facts hold, and the inputs are, after
a cycle all registers, memories and outputs are the same again, but for those that are not read then. Both begin in the
same state, one behind a reset. So an output is never another one.
"""

import pathlib
from collections.abc import Sequence

from rtl_logic import Fact, State, Words
from rtl_machine import Machine, flat_module, invariant, proved
from rtl_netlist import Mutant
from rtl_product import Loose, Product, Renamed
from rtl_unread import Bit


def unseen(
    mutants: Sequence[Mutant],
    loose: Sequence[Loose],
    facts: Sequence[Fact],
    folder: pathlib.Path,
    renamed: Sequence[Renamed] = (),
    words: Sequence[Words] = (),
) -> set[Mutant]:
    """Those of the netlist in `folder` that are proved; none if the facts are not."""
    module = flat_module(folder)
    machine = Machine(module)
    logic, then = machine.logic, machine.then
    equal = [logic.no(logic.both(each.fixed(then), each.other(then))) for each in loose if each.other]
    if not invariant(machine, facts, folder, equal, words):
        return set()
    products = [Product(module, each, loose, facts, renamed, words) for each in mutants]
    answers = proved([each.question() for each in products], folder)
    return {mutant for mutant, answer in zip(mutants, answers, strict=True) if answer}


__all__ = ["Bit", "Fact", "Loose", "Renamed", "State", "Words", "unseen"]
