"""What is known of bursts in the configuration `nano`, for rtl_facts.py: LOAD's, STORE's and those of the program."""

from collections.abc import Callable

from rtl_known import Known, whole
from rtl_reachable import FETCH_ASKS
from rtl_unseen import Bit, Loose, State

ROW_ILLEGAL = 17
"""The bit of a transfer that says so; the first one says that it is a SIGNAL (hw/dma/bursts.py)."""
INSTRUCTION_BEATS_BITS = 2
"""Log2 of the beats of an instruction."""


def whole_instructions(state: State) -> Bit:
    asked = state.bit(FETCH_ASKS)
    return state.implies(asked, state.all(state.bits("axi__arlen", 0, INSTRUCTION_BEATS_BITS)))


def while_it_works(unit: str) -> Callable[[State], Bit]:
    return lambda state: state.no(state.bit(f"{unit}.halt"))


KNOWN_OF_BURSTS = (
    # Whether a SIGNAL is illegal is not looked at.
    *(
        Known(
            (rf"{unit}\.(issue|splitter)",),
            (
                Loose(
                    f"{unit}.splitter.row",
                    (ROW_ILLEGAL,),
                    lambda state, unit=unit: state.no(state.bit(f"{unit}.splitter.row")),
                ),
            ),
        )
        for unit in ("load", "store")
    ),
    # Bursts of the program are whole instructions.
    Known((r"read_arbiter|sequencer\.fetch",), (), (whole_instructions,)),
    # A row that is wrong halts its unit.
    *(
        Known(
            (rf"{unit}\.splitter",),
            (whole(f"{unit}.splitter.burst_valid", 1, read=while_it_works(unit)),),
        )
        for unit in ("load", "store")
    ),
)

__all__ = ["KNOWN_OF_BURSTS"]
