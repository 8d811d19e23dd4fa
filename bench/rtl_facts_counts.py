"""What is known of counts in the configuration `nano`, for rtl_facts.py: of levels of queues, of what is under way, of
rows that are split, and of the program's fetch."""

import functools
from collections.abc import Sequence

from rtl_known import Known
from rtl_reachable import FETCH_ASKS, within_the_program
from rtl_unseen import Bit, Fact, Loose, State

FLIGHT = (
    *((f"array.fetch.valid_{stage}", f"array.fetch.control_{stage}") for stage in range(1, 5)),
    ("array.fetch.valid", "array.control$88"),
)
"""Slots between their issue and the PE array: that there is one, and what it does."""
DELIVER, DELIVERIES = 6, (*(f"array.pe_array.deliver_{cycle}" for cycle in range(1, 4)), "array.delivered")
"""The bit of a slot that delivers a vector; vectors behind it."""
DRAIN, DRAINED, VECTORS = "array.drain", "accumulators__valid", 16
LOAD_ASKS, BURST_ENDED, NUMBER_BITS = "am.load_write__request", "load.ended_burst", 7
"""LOAD has a write; the burst of the one before it has ended; bits of a burst's number."""
WORDS_STREAMED, WORDS_BITS = "array.$signal", 13
DESCRIPTORS, MOST_DESCRIPTORS = "load.descriptors.inner_level", 32
PENDING, PENDING_READ, MOST_PENDING = "store.pending.$signal", "store.pending.$signal$2", 8
"""Levels of queues, and what they hold; whether one of STORE's was read in the cycle before."""
PLACE = 20, 5
"""Where a burst's first beat begins within the longest burst: first bit of a burst, and bits."""
GRANTED_2, MARK = "store.beats.port$13208$0", tuple(range(1, 6))
"""STORE's reads of two cycles ago, as `granted1` those of one: whether there was one, and bits of its mark."""
LAST_BEATS_BITS = 22
"""No row has more than 2^22 beats behind the first one."""
FETCH = "sequencer.fetch"
ENTRIES, ENTRIES_LEFT, FITS, ADDRESS = (f"{FETCH}.$signal{number}" for number in ("$36", "$5", "$9", ""))
BURST_ENTRIES, FIRST_BIT, PLACE_BITS, ADDRESS_BITS = 8, 4, 3, 32
LONG_BITS = 5
"""A burst of the program has no more than 2^5 beats."""
RESET_CYCLES = 16
"""Bits of the count of a soft reset."""


def count(wire: str, *where: int, bit: int) -> Loose:
    """A bit of a count is inverted in every other cycle in which it changes, and where the bits `where` are set."""
    return Loose(wire, (bit,), other=lambda state: state.all(state.bit(wire, each) for each in (0, *where)))


def at_most(wire: str, most: int) -> Fact:
    def fact(state: State) -> Bit:
        bits = state.bits(wire)
        return state.at_most(bits, ["01"[most >> place & 1] for place in range(len(bits))])

    return fact


def total(state: State, numbers: Sequence[Sequence[Bit]]) -> Sequence[Bit]:
    return functools.reduce(state.sum, numbers)


def vectors_have_places(state: State) -> Bit:
    """A place of the drain is reserved for each vector that is under way, or there."""
    parts = [[state.all((state.bit(valid), state.bit(slot, DELIVER)))] for valid, slot in FLIGHT]
    parts += [[state.bit(wire)] for wire in (*DELIVERIES, DRAINED)]
    vectors = total(state, [*parts, state.bits(f"{DRAIN}.vectors.inner_level")])
    reserved = state.bits(f"{DRAIN}.reserved")
    return state.same(vectors, [*reserved, *["0"] * (len(vectors) - len(reserved))])


def drain_is_full(state: State) -> Bit:
    full = state.equals(state.bits(f"{DRAIN}.reserved"), VECTORS)
    return state.no(state.logic.xor(state.bit(f"{DRAIN}.$signal"), full))


def first_vector_shows(state: State) -> Bit:
    return state.either(
        (state.bit(DRAINED), state.no(state.either(state.bits(f"{DRAIN}.vectors.inner_level", 1))))
    )


def bursts_are_counted(state: State) -> Bit:
    """Those that are under way are in the queue, or have ended with the write that is prepared."""
    there = [state.bit("load.descriptors.r_rdy")], [state.bit(BURST_ENDED)]
    done = state.bits("load.completion.completed_count")
    bursts = total(state, [done, state.bits(DESCRIPTORS), *there])
    return state.same(state.bits("load.completion.issued_count"), bursts[:NUMBER_BITS])


def write_is_of_a_burst(state: State) -> Bit:
    some = state.either((state.bit("load.descriptors.r_rdy"), state.bit(BURST_ENDED)))
    return state.implies(state.bit(LOAD_ASKS), some)


def beats_of_row(unit: str) -> Fact:
    """No row has more than these; behind a burst that is not the last one more is left than that has."""

    def fact(state: State) -> Bit:
        left, first = state.bits(f"{unit}.splitter.beats_left"), state.bits(f"{unit}.bursts__payload", *PLACE)
        is_last, valid = (
            state.bit(f"{unit}.splitter.burst_is_last"),
            state.bit(f"{unit}.splitter.burst_valid"),
        )
        more = state.no(state.at_most(left, list(map(state.no, first))))
        few = state.no(state.all((left[LAST_BEATS_BITS], state.either(left[:LAST_BEATS_BITS]))))
        return state.implies(valid, state.all((few, state.either((is_last, more)))))

    return fact


def read_was_there(state: State) -> Bit:
    """What was read a cycle ago is counted until now."""
    return state.implies(state.bit(PENDING_READ), state.either(state.bits(PENDING)))


def asks(state: State) -> Bit:
    return state.all((state.bit(FITS), state.no(state.bit(FETCH_ASKS))))


def burst_is_whole(state: State) -> Bit:
    """A burst of the program ends where all of it is asked for, or at a border."""
    entries, left, place = (
        state.bits(ENTRIES),
        state.bits(ENTRIES_LEFT),
        state.bits(ADDRESS, FIRST_BIT, PLACE_BITS),
    )
    to_border = state.either(
        state.all((state.equals(place, at), state.equals(entries, BURST_ENTRIES - at)))
        for at in range(BURST_ENTRIES)
    )
    all_of_it = state.same(left, [*entries, *["0"] * (len(left) - len(entries))])
    return state.implies(asks(state), state.either((to_border, all_of_it)))


def burst_has_some(state: State) -> Bit:
    return state.implies(state.bit(FITS), state.either(state.bits(ENTRIES)))


def burst_is_short(state: State) -> Bit:
    return state.no(state.either(state.bits("axi__arlen", LONG_BITS)))


KNOWN_OF_COUNTS = (
    # Of the number of streamed words nothing asks but whether it is one.
    *(Known(("array",), (count(WORDS_STREAMED, bit=bit),)) for bit in range(1, WORDS_BITS)),
    # A queue holds no more words than it has places.
    Known((r"load\.descriptors",), (), (at_most(DESCRIPTORS, MOST_DESCRIPTORS),)),
    # Nor does the array's last one; and a place is free where there is said to be one.
    Known(
        (r"array(\.(drain.*|issue|pe_array))?",),
        (),
        (vectors_have_places, drain_is_full, at_most(f"{DRAIN}.reserved", VECTORS), first_vector_shows),
    ),
    # A write of LOAD is one of a burst that is under way.
    Known(
        (r"load(\.(completion|descriptors))?",),
        (),
        (bursts_are_counted, write_is_of_a_burst, at_most(DESCRIPTORS, MOST_DESCRIPTORS)),
    ),
    # What is read is marked, if something is.
    Known(
        (r"store(\.beats)?",),
        (
            Loose("store.granted1", MARK, lambda state: state.bit("store.granted1")),
            Loose(GRANTED_2, MARK, lambda state: state.bit(GRANTED_2)),
        ),
    ),
    Known((r"store\.pending",), (), (at_most(PENDING, MOST_PENDING), read_was_there)),
    # Rows have a number of beats.
    *(Known((rf"{unit}\.splitter",), (), (beats_of_row(unit),)) for unit in ("load", "store")),
    # Where the next burst would begin does not matter behind the last one.
    Known(
        (r"sequencer\.fetch|read_arbiter",),
        (
            Loose(
                ADDRESS,
                tuple(range(FIRST_BIT, ADDRESS_BITS)),
                lambda state: state.either(state.bits(ENTRIES_LEFT)),
            ),
        ),
        (within_the_program, burst_is_whole, burst_has_some, at_most(ENTRIES, BURST_ENTRIES), burst_is_short),
    ),
    # A count that is wrong in every other cycle, and right when the bus is given up.
    Known((r"soft_reset",), (count("soft_reset.cycles", 7, bit=10),)),
)

__all__ = ["KNOWN_OF_COUNTS"]
