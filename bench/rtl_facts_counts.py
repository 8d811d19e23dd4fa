"""What is known of counts in the configuration `nano`, for rtl_facts.py: of levels of queues, of rows that are split,
and of the program's fetch."""

from rtl_known import Known
from rtl_reachable import FETCH_ASKS, within_the_program
from rtl_unseen import Bit, Fact, Loose, State

WORDS_STREAMED, WORDS_BITS = "array.$signal", 13
DESCRIPTORS, MOST_DESCRIPTORS = "load.descriptors.inner_level", 32
PENDING, PENDING_READ, MOST_PENDING = "store.pending.$signal", "store.pending.$signal$2", 8
"""Levels of queues, and what they hold; whether one of STORE's was read in the cycle before."""
PLACE = 20, 5
"""Where a burst's first beat begins within the longest burst: first bit of a burst, and bits."""
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
