"""What is known of VECTOR's states in the configuration `nano`, for rtl_facts.py."""

from collections.abc import Sequence

from rtl_known import Known, whole
from rtl_reachable import word_of_kind
from rtl_unseen import Bit, Fact, Loose, State, Words

VECTOR_STREAMS = [f"vector.streams.stream_{number}" for number in range(4)]
ELEMENTS = (
    "vector.streams.element",
    "vector.streams.element$39",
    "vector.streams.element$40",
    "vector.element",
)
INT48, EIGHT_BYTES = 5, 3
"""An element that `nano` has not, and log2 of its bytes."""
OPCODES = (
    "uop",
    "bounds",
    "stream",
    "dims",
    "param",
    "table",
    "go",
    "mark",
    "offsets",
    "test",
    "wait",
    "signal",
)
COMMANDS, FETCH = "vector.commands", "vector.fetch"
KINDS = ("bias", "narrow_bias", "multiplier", "shift", "table", "offsets", "test")
WORD_BITS = 9
"""Of the number of a word."""
ARRIVING = (*(f"{FETCH}.arriving_{stage}" for stage in range(3)), "vector.lanes.fetched")
"""Where it is on its way."""
HEAD_ELEMENT = 30
"""The first bit of VECTOR_STREAM.element in what is kept of an instruction."""
NARROWEST = (0, 3)
"""Bits of a beat of which there are some with elements of eight bytes alone: of its lanes' position, and of what is
known of that."""
_NAMED = {1: "arithmetic__enable", 5: "out_zp__enable", 7: "finish__enable"}
BEATS = (
    ("vector.pipeline.s0_issued", 54, "vector.pipeline.s0_valid"),
    *(
        (f"vector.pipeline.s{stage}_beat", 0, f"vector.{_NAMED.get(stage, f'pipeline.s{stage}_valid')}")
        for stage in range(1, 10)
    ),
    ("vector.packed", 0, "vector.pipeline.s10_valid"),
)
"""Where a beat is: wire, first bit, and the wire that tells that there is one."""


ISSUE = "vector.program.issue.memory.words"
ISSUES = "vector.busy$253"
"""There is a slot to issue."""
LOADS, STREAMS = 14, 3
"""First bit in what the issue knows of a micro-op (hw/vector/layouts.py), and bits: which stream it loads."""


def at_most_one(state: State, bits: Sequence[Bit]) -> Bit:
    return state.all(state.no(state.all((bit, state.either(bits[:place])))) for place, bit in enumerate(bits))


def lowest_moves(stream: str) -> Fact:
    """The lowest dimension with turns left moves."""

    def fact(state: State) -> Bit:
        more = state.bits(f"{stream}.$signal$16")
        lowest = [state.all((bit, state.no(state.either(more[:place])))) for place, bit in enumerate(more)]
        return state.same(state.bits(f"{stream}.moves"), lowest)

    return fact


def owners(stream: str) -> Fact:
    """A dimension has its base from the start, or where it or a higher one has it."""
    return lambda state: state.all(
        state.either(state.equals(state.bits(f"{stream}.owner_{d}"), owner) for owner in (0, *range(d, 6)))
        for d in range(1, 6)
    )


def one_command(state: State) -> Bit:
    return at_most_one(state, [state.bit(f"{COMMANDS}.is_vector_{opcode}") for opcode in OPCODES])


def one_stream(state: State, word: Sequence[Bit]) -> Bit:
    """A micro-op loads of one stream."""
    return at_most_one(state, word[LOADS : LOADS + STREAMS])


def one_stream_issues(state: State) -> Bit:
    return state.implies(state.bit(ISSUES), one_stream(state, state.bits("vector.beats.fields")))


def int48_is_illegal(state: State) -> Bit:
    taken = state.all(
        (state.bit(f"{COMMANDS}.is_vector_stream"), state.no(state.bit(f"{COMMANDS}.illegal$36")))
    )
    word = state.bits("sequencer.vector_queue.head", HEAD_ELEMENT, 3)
    return state.implies(taken, state.no(state.equals(word, INT48)))


def narrow_elements(state: State) -> Bit:
    return state.all(state.no(state.equals(state.bits(element), INT48)) for element in ELEMENTS)


def narrow_sizes(state: State) -> Bit:
    sizes = (state.bits(f"vector.beats.sizes[{number}]") for number in range(4))
    return state.all(state.no(state.equals(size, EIGHT_BYTES)) for size in sizes)


def narrow_beats(state: State) -> Bit:
    """No beat has elements of eight bytes."""
    return state.all(
        state.implies(
            state.bit(valid), state.no(state.either(state.bit(wire, first + place) for place in NARROWEST))
        )
        for wire, first, valid in BEATS
    )


def left(state: State) -> list[Bit]:
    return [state.bit(f"{FETCH}.{kind}_left") for kind in KINDS]


def fetch_is_busy(state: State) -> Bit:
    return state.implies(state.either(left(state)), state.bit("vector.busy"))


def one_fetch(state: State) -> Bit:
    """Biases of one kind, and only parameters together."""
    bias, narrow_bias, multiplier, shift, *others = left(state)
    parameters = state.either((bias, narrow_bias, multiplier, shift))
    return state.all((state.no(state.all((bias, narrow_bias))), at_most_one(state, [parameters, *others])))


def shifts_follow(state: State) -> Bit:
    return state.implies(state.bit(f"{FETCH}.multiplier_left"), state.bit(f"{FETCH}.shift_left"))


def arriving(wire: str) -> Loose:
    """The number of a word that is on its way, if it is of some kind."""
    kinds = len(KINDS)
    return Loose(
        wire, tuple(range(kinds, kinds + WORD_BITS)), lambda state: state.either(state.bits(wire, 0, kinds))
    )


KNOWN_OF_VECTOR = (
    # Where nothing is left to read, the number of the word does not matter, and that of nothing that arrives.
    Known(
        (r"vector\.fetch",),
        (
            whole(f"{FETCH}.$like", WORD_BITS, read=lambda state: state.either(left(state))),
            *map(arriving, ARRIVING),
        ),
        (one_command, fetch_is_busy, one_fetch, shifts_follow, word_of_kind),
    ),
    # Which dimension of a stream moves, and where its base is.
    Known(
        (r"vector\.streams.*",),
        (),
        tuple(rule(stream) for stream in VECTOR_STREAMS for rule in (lowest_moves, owners)),
    ),
    # There are no elements of eight bytes.
    Known(
        (r"vector(\.(streams|beats|pipeline|store|lanes.*))?",),
        (whole("vector.beats.last_of_8", 3),),
        (int48_is_illegal, narrow_elements, narrow_sizes, one_stream_issues, narrow_beats),
        (Words(ISSUE, one_stream),),
    ),
    # Words of one kind are read at a time.
    Known(
        (r"vector\.(fetch|commands|next_params)",), (), (one_command, fetch_is_busy, one_fetch, shifts_follow)
    ),
)

__all__ = ["KNOWN_OF_VECTOR"]
