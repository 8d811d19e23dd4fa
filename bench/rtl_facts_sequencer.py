"""What is known of the sequencer's states in the configuration `nano`, for rtl_facts.py."""

from rtl_known import Known, whole
from rtl_unseen import Bit, Loose, State

DISPATCH = "sequencer.dispatch"
IDLE, RUN, ERROR, BRANCH = 0, 1, 3, 4
"""States of it (hw/sequencer/dispatch.py)."""
START = "array.clear"
FAULT, UNIT, UNIT_BITS, LAST_UNIT = f"{DISPATCH}.fault", 5, 3, 4
"""First bit of a fault's unit, and the number of STORE; the first bit of all tells that there is a fault."""
INDEX_BITS = 24
WRONG, WRONG_BITS = 0, 3
"""Bits of an action with one of which it is no instruction (hw/sequencer/classify.py); those behind them follow."""
MISMATCH, LEAVES, ACTION_BITS = 4, 5, 13


def state_is(state: State, number: int) -> Bit:
    return state.equals(state.bits(f"{DISPATCH}._state"), number)


def state_is_one(state: State) -> Bit:
    return state.at_most(state.bits(f"{DISPATCH}._state"), ["01"[BRANCH >> place & 1] for place in range(3)])


def found_is_an_error(state: State) -> Bit:
    return state.implies(state.bit(f"{DISPATCH}.just_found"), state_is(state, ERROR))


def start_is_idle(state: State) -> Bit:
    """A program is started while none runs, and behind no error."""
    return state.implies(state.bit(START), state_is(state, IDLE))


def fault_is_of_a_unit(state: State) -> Bit:
    return state.at_most(
        state.bits(FAULT, UNIT, UNIT_BITS), ["01"[LAST_UNIT >> place & 1] for place in range(UNIT_BITS)]
    )


def is_held(state: State) -> Bit:
    return state.all((state.bit(f"{DISPATCH}._held"), state_is(state, RUN)))


def action(bit: int, before: int) -> Loose:
    """A bit of an action, which is read if none of those `before` it is set."""

    def read(state: State) -> Bit:
        wrong = state.either(state.bits(f"{DISPATCH}._action", WRONG, before))
        return state.all((is_held(state), state.no(wrong)))

    return Loose(f"{DISPATCH}._action", (bit,), read)


def fault_that_is() -> Loose:
    return Loose(FAULT, tuple(range(1, UNIT + UNIT_BITS)), lambda state: state.bit(FAULT))


KNOWN_OF_THE_SEQUENCER = (
    # Who runs is not started; a fault is of some unit, or of nobody.
    Known(
        (r"sequencer(\..*)?",),
        (fault_that_is(),),
        (state_is_one, found_is_an_error, start_is_idle, fault_is_of_a_unit),
    ),
    # Which instruction is taken next is read while some are taken, or behind a branch; what is held while it is.
    Known(
        (r"sequencer(\.(dispatch.*|fetch))?",),
        (
            whole(
                f"{DISPATCH}._taken",
                INDEX_BITS,
                read=lambda state: state.either((state_is(state, RUN), state_is(state, BRANCH))),
            ),
            # One error hides what comes behind it.
            action(1, 1),
            action(2, 1),
            action(3, WRONG_BITS),
            action(MISMATCH, MISMATCH),
            action(LEAVES, LEAVES),
            *(action(bit, WRONG_BITS) for bit in range(LEAVES + 1, ACTION_BITS)),
        ),
        (state_is_one, found_is_an_error, start_is_idle),
    ),
)

__all__ = ["KNOWN_OF_THE_SEQUENCER"]
