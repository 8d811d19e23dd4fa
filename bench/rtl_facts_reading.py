"""What is known of activation memory and of what ARRAY reads there in the configuration `nano`, for rtl_facts.py."""

import itertools

from rtl_facts_slots import FAR, INSIDE, LOCATED
from rtl_known import Known, whole
from rtl_unseen import Bit, Fact, Loose, State

ALL_BEFORE, BEFORE_END, BEFORE_END_BITS, INPUT_ZP, OPERAND_BITS = 4, 5, 3, 8, 9
"""Bits of a slot's format: all bytes are before the image; the number of those before its end; the zero point."""
SECOND_INSIDE = 76
"""A bit of a slot with its addresses."""
PAIRED, SECOND = 13, 1
"""A bit of a slot's control, and one of its format: the pair's second word has bytes in the image."""
BANKS, PORTS, WRITES = 4, ("vector", "array", "store"), ("vector", "load")


def bank_read(half: str, bank: int, lane: int) -> Loose:
    """A byte of what a bank's memory has read: some port takes it, or nobody."""

    def read(state: State) -> Bit:
        taken = []
        for port in PORTS:
            odd = state.bit(f"am.{port}_read_odd_lanes", lane)
            lanes = odd if half == "odd" else state.no(odd)
            if port == "array":
                lanes = state.either((lanes, state.bit("array.fetch.format_1", SECOND)))
            granted = state.bit(f"am.{port}_read_granted")
            taken.append(state.all((granted, state.bit(f"am.{port}_read_from_{half}", bank), lanes)))
        return state.either(taken)

    return Loose(f"am.bank{bank}_{half}.memory.read_data", tuple(range(8 * lane, 8 * lane + 8)), read)


def bank_write(port: str, half: str, bank: int) -> Loose:
    return Loose(
        f"am.{port}_write_{half}_bank", (bank,), lambda state: state.bit(f"am.{port}_write_reach", bank)
    )


def reached(port: str) -> Fact:
    """An access takes the banks of the words of which it has a byte, and a pair's of both."""

    def fact(state: State) -> Bit:
        odd = state.bit(f"am.{port}_read_odd")
        both = state.either(state.bits(f"am.{port}_read_offset"))
        if port == "array":
            both = state.either((both, state.bit("array.issue.slot", PAIRED)))
        reach, facts = state.bits(f"am.{port}_read_reach"), []
        for half, used in (("even", state.no(odd)), ("odd", odd)):
            banks = state.bits(f"am.{port}_read_{half}_bank")
            facts += [
                state.implies(state.all((state.either((used, both)), there)), reaches)
                for there, reaches in zip(banks, reach, strict=True)
            ]
        return state.all(facts)

    return fact


def is_written_there(port: str, half: str) -> Fact:
    """Bytes are written in banks that the access takes."""

    def fact(state: State) -> Bit:
        some = state.either(state.bits(f"am.{port}_write_{half}_mask"))
        pairs = zip(
            state.bits(f"am.{port}_write_{half}_bank"), state.bits(f"am.{port}_write_reach"), strict=True
        )
        return state.implies(some, state.all(state.implies(bank, reach) for bank, reach in pairs))

    return fact


def second_is_paired(wire: str) -> Fact:
    return lambda state: state.implies(state.bit(wire, SECOND_INSIDE), state.bit(wire, PAIRED))


def second_word(lane: int) -> Loose:
    def read(state: State) -> Bit:
        return state.all((state.bit("array.fetch.valid_3"), state.bit("array.fetch.second_mask_3", lane)))

    return Loose("array.fetch.second_3", tuple(range(8 * lane, 8 * lane + 8)), read)


def reads_if_inside(state: State) -> Bit:
    inside = state.all((state.bit("array.issue.c"), state.either(state.bits("array.issue.slot", INSIDE, 2))))
    return state.no(state.logic.xor(inside, state.bit("array.issue.c_reads")))


def second_is_granted(state: State) -> Bit:
    """A slot with bytes of a second word has read them, but for the cycle in which the units are reset: the memory
    was reset before them."""
    there = state.all((state.bit("array.fetch.valid_1"), state.bit("array.fetch.format_1", SECOND)))
    reset = state.bit("array.addresses.deliveries.units_rst")
    return state.implies(there, state.either((state.bit("am.array_read_granted"), reset)))


def never_before(wire: str, first: int = INSIDE) -> Fact:
    """A slot with bytes in the image does not end before it. `first`: bit of its format."""
    return lambda state: state.implies(
        state.either(state.bits(wire, first, 2)), state.no(state.bit(wire, first + FAR - INSIDE))
    )


def zero_point(stage: int) -> Loose:
    """The zero point of a slot's bytes, of which some is in the image."""
    form = f"array.fetch.format_{stage}"

    def read(state: State) -> Bit:
        inside, some = state.either(state.bits(form, 0, 2)), state.bits(form, BEFORE_END, BEFORE_END_BITS)
        return state.all((inside, state.no(state.bit(form, ALL_BEFORE)), state.either(some)))

    return Loose(form, tuple(range(INPUT_ZP, INPUT_ZP + OPERAND_BITS)), read)


KNOWN_OF_READING = (
    # What a bank has read is taken in the next cycle, or by nobody; a pair's second word is for pairs.
    Known(
        ("am.*",),
        (
            *(
                bank_read(half, bank, lane)
                for half in ("even", "odd")
                for bank in range(BANKS)
                for lane in range(4)
            ),
            whole(
                "am.array_read__second_data",
                32,
                read=lambda state: state.all(
                    (state.bit("array.fetch.valid_2"), state.bit("array.fetch.format_2", SECOND))
                ),
            ),
            *(second_word(lane) for lane in range(4)),
            whole("array.fetch.delay_line.second", 36, read=lambda state: state.bit("array.fetch.valid_4")),
        ),
        (*map(reached, PORTS), *map(second_is_paired, LOCATED), reads_if_inside, second_is_granted),
    ),
    # A bank is written if the access takes it.
    Known(
        ("am",), tuple(bank_write(*each) for each in itertools.product(WRITES, ("even", "odd"), range(BANKS)))
    ),
    Known(("am",), (), tuple(is_written_there(*each) for each in itertools.product(WRITES, ("even", "odd")))),
    # A word of which no byte is in the image has no zero point.
    Known(
        (r"array\.(fetch|issue.*)",),
        (
            *map(zero_point, (1, 2)),
            Loose(
                "array.fetch.format_3",
                tuple(range(INPUT_ZP, INPUT_ZP + OPERAND_BITS)),
                lambda state: state.either(
                    bit for name in ("mask_3", "second_mask_3") for bit in state.bits(f"array.fetch.{name}")
                ),
            ),
        ),
    ),
    # A word of which no byte is in the image has a mask without a bit.
    Known(
        (r"array\.(fetch|issue.*)",),
        (
            *(
                Loose(
                    f"array.fetch.format_{stage}",
                    (FAR - INSIDE,),
                    lambda state, stage=stage: state.either(state.bits(f"array.fetch.format_{stage}", 0, 2)),
                )
                for stage in (1, 2)
            ),
            Loose("array.fetch.format_3", (FAR - INSIDE,)),
        ),
        (*map(never_before, LOCATED), *(never_before(f"array.fetch.format_{stage}", 0) for stage in (1, 2))),
    ),
)

__all__ = ["KNOWN_OF_READING"]
