"""What is known of the states of the configuration `nano`, for proofs that a change is never seen (rtl_unseen.py):
which registers are not read when, and what holds always."""

import pathlib
import re
from collections.abc import Sequence

from rtl_facts_array import KNOWN_OF_ARRAY
from rtl_facts_bursts import KNOWN_OF_BURSTS
from rtl_facts_counts import KNOWN_OF_COUNTS
from rtl_facts_depthwise import KNOWN_OF_DEPTHWISE
from rtl_facts_reading import KNOWN_OF_READING
from rtl_facts_sequencer import KNOWN_OF_THE_SEQUENCER
from rtl_facts_slots import APART, NOTHING_KEPT
from rtl_facts_valid import KNOWN_OF_WORDS
from rtl_facts_vector import KNOWN_OF_VECTOR
from rtl_known import Known
from rtl_netlist import Mutant
from rtl_places import renamed_places
from rtl_reachable import range_is_checked, reset_is_reported
from rtl_unseen import unseen

KNOWN = (
    # Nothing: a register gets the same value anyway, or a memory what is there already.
    Known((".*",), ()),
    *KNOWN_OF_READING,
    *KNOWN_OF_ARRAY,
    *KNOWN_OF_DEPTHWISE,
    *KNOWN_OF_BURSTS,
    *KNOWN_OF_VECTOR,
    *KNOWN_OF_COUNTS,
    *KNOWN_OF_THE_SEQUENCER,
    *KNOWN_OF_WORDS,
    # A program that lies within the window has no more instructions than that.
    Known((r"sequencer",), (), (range_is_checked, reset_is_reported)),
)


def never_seen(mutants: Sequence[Mutant], folder: pathlib.Path) -> set[Mutant]:
    """Those of the netlist in `folder` that are proved not to be seen."""
    proved = set[Mutant]()
    for known in KNOWN:
        here = [
            mutant
            for mutant in mutants
            if mutant not in proved and any(re.fullmatch(each, mutant.module) for each in known.modules)
        ]
        if here:
            proved |= unseen(here, known.loose, known.facts, folder, words=known.words)
    left = [mutant for mutant in mutants if mutant not in proved]
    return proved | renamed_places(left, (*NOTHING_KEPT, *APART), folder)


__all__ = ["never_seen"]
