"""A slot of ARRAY's pipeline in the configuration `nano`: where its bits are, when there is one, and what no slot of
one mode has of the other; for rtl_facts.py."""

from rtl_unseen import Bit, Fact, State

LOAD, STREAM, DELIVER, GATHER, KEEP, ROW, GROUP = 4, 5, 6, 7, 9, 11, 12
"""Bits of a slot's control (hw/array/layouts.py)."""
INSIDE, FAR = 75, 79
"""Bits of a slot with its addresses, the first of its format and one that says that its word ends before the image."""
IS_DEPTHWISE, ACCUMULATE = 396, 441
"""Bits of a job."""
LOCATED = ("array.issue.b", "array.issue.slot", "array.issue.$signal$8")
FETCHED = (*(f"array.fetch.control_{stage}" for stage in range(1, 5)), "array.control$88")
SLOTS = ("array.issue.a", *LOCATED, *FETCHED)
VALID = {"array.issue.a": "array.issue.$signal$30", "array.issue.b": "array.issue.$signal$31"}
VALID |= {"array.issue.slot": "array.issue.c", "array.issue.$signal$8": "array.issue.$signal"}
VALID |= {wire: f"array.fetch.valid_{stage}" for stage, wire in enumerate(FETCHED[:-1], 1)}
VALID |= {FETCHED[-1]: "array.fetch.valid"}
"""There is a slot."""
ADDRESSES, DENSE, DEPTHWISE = "array.addresses", "array.addresses.dense", "array.addresses.depthwise"
DELIVERIES = "array.addresses.deliveries"


def makes_slots(state: State) -> Bit:
    flushing = state.bits("array.addresses.deliveries.flushing") + state.bits(f"{DEPTHWISE}.flushing")
    return state.either((state.bit(f"{ADDRESSES}.$signal"), *flushing))


def running(state: State, depthwise: bool) -> Bit:
    mode = state.bit(f"{DEPTHWISE}.job", IS_DEPTHWISE)
    return state.all((state.bit(f"{ADDRESSES}.$signal"), mode if depthwise else state.no(mode)))


def depthwise_runs(state: State) -> Bit:
    return running(state, True)


def checked_is_pending(state: State) -> Bit:
    return state.implies(state.bit(f"{ADDRESSES}.jobs__valid"), state.bit("array.commands.$signal$6"))


def depthwise_is_drained(state: State) -> Bit:
    """For there is no memory for sums that are kept."""
    offered = state.all((state.bit(f"{ADDRESSES}.jobs__valid"), state.bit(f"{DENSE}.first", IS_DEPTHWISE)))
    accumulate, drain = state.bits(f"{DENSE}.first", ACCUMULATE, 2)
    return state.implies(offered, state.all((drain, state.no(accumulate))))


def runs_drained(state: State) -> Bit:
    return state.implies(running(state, True), state.bit(f"{DEPTHWISE}.job", ACCUMULATE + 1))


def keeps_nothing(wire: str) -> Fact:
    return lambda state: state.no(state.bit(wire, KEEP))


def sums_are_flushed(state: State) -> Bit:
    """Before slots of the other mode come."""
    return state.implies(state.bit(f"{DEPTHWISE}.flushing"), state.no(running(state, False)))


def no_multiplication(wire: str) -> Fact:
    """A slot of the depthwise mode is none of the other one."""
    return lambda state: state.implies(
        state.all((state.bit(VALID[wire]), state.bit(wire))), state.no(state.either(state.bits(wire, 1, 3)))
    )


def streams_are_depthwise(wire: str) -> Fact:
    return lambda state: state.implies(
        state.all((state.bit(VALID[wire]), state.bit(wire, STREAM))), state.bit(wire)
    )


NOTHING_KEPT = (checked_is_pending, depthwise_is_drained, runs_drained, *map(keeps_nothing, SLOTS))
APART = (sums_are_flushed, *map(no_multiplication, SLOTS), *map(streams_are_depthwise, SLOTS))

__all__ = [
    "ACCUMULATE",
    "ADDRESSES",
    "APART",
    "DELIVER",
    "DELIVERIES",
    "DENSE",
    "DEPTHWISE",
    "FAR",
    "FETCHED",
    "GATHER",
    "GROUP",
    "INSIDE",
    "IS_DEPTHWISE",
    "KEEP",
    "LOAD",
    "LOCATED",
    "NOTHING_KEPT",
    "ROW",
    "SLOTS",
    "VALID",
    "checked_is_pending",
    "depthwise_is_drained",
    "depthwise_runs",
    "makes_slots",
    "running",
    "runs_drained",
]
