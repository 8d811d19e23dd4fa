"""Which mutants of the RTL's netlist change nothing: no state that can be reached and no input shows them."""

import pathlib
from collections.abc import Sequence

from rtl_machine import flat_module, proved
from rtl_netlist import Mutant
from rtl_product import Product
from rtl_reachable import reachable


def equivalents(mutants: Sequence[Mutant], folder: pathlib.Path) -> set[Mutant]:
    """Those of the netlist in `folder` after which all registers, memories and outputs are the same in the next cycle,
    whatever the memories hold. Those for which the solver takes long count as faults."""
    module = flat_module(folder)
    facts = reachable(module, folder)
    answers = proved([Product(module, each, (), facts).question() for each in mutants], folder)
    return {mutant for mutant, answer in zip(mutants, answers, strict=True) if answer}
