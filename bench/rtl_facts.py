"""What is known of the states of the configuration `nano`, for proofs that a change is never seen (rtl_unseen.py):
which registers are not read when, and what holds always."""

import itertools
import pathlib
import re
from collections.abc import Callable, Sequence

from rtl_facts_counts import KNOWN_OF_COUNTS
from rtl_facts_sequencer import KNOWN_OF_THE_SEQUENCER
from rtl_facts_valid import KNOWN_OF_WORDS
from rtl_facts_vector import KNOWN_OF_VECTOR
from rtl_known import Known, whole
from rtl_netlist import Mutant
from rtl_places import renamed_places
from rtl_reachable import FETCH_ASKS, range_is_checked, reset_is_reported
from rtl_unseen import Bit, Fact, Loose, State, unseen

LOAD, STREAM, DELIVER, GATHER, KEEP, ROW, GROUP = 4, 5, 6, 7, 9, 11, 12
"""Bits of a slot's control (hw/array/layouts.py)."""
PLACES = range(14, 30)
"""Those of its places in the delay line, and of whether there is a vector."""
ALL_BEFORE, BEFORE_END, BEFORE_END_BITS, INPUT_ZP, OPERAND_BITS = 4, 5, 3, 8, 9
"""Bits of a slot's format: all bytes are before the image; the number of those before its end; the zero point."""
INSIDE, SECOND_INSIDE, FAR = 75, 76, 79
"""Bits of a slot with its addresses; FAR: its word ends before the image."""
IS_DEPTHWISE, COUNT, COUNT_BITS, ACCUMULATE, IDLE_ROWS, IDLE_BITS = 396, 397, 24, 441, 466, 6
"""Bits of a job."""
LOCATED = ("array.issue.b", "array.issue.slot", "array.issue.$signal$8")
FETCHED = (*(f"array.fetch.control_{stage}" for stage in range(1, 5)), "array.control$88")
SLOTS = ("array.issue.a", *LOCATED, *FETCHED)
VALID = {"array.issue.a": "array.issue.$signal$30", "array.issue.b": "array.issue.$signal$31"}
VALID |= {"array.issue.slot": "array.issue.c", "array.issue.$signal$8": "array.issue.$signal"}
VALID |= {wire: f"array.fetch.valid_{stage}" for stage, wire in enumerate(FETCHED[:-1], 1)}
VALID |= {FETCHED[-1]: "array.fetch.valid"}
"""There is a slot."""
PAIRED, SECOND = 13, 1
"""A bit of a slot's control, and one of its format: the pair's second word has bytes in the image."""
DEPTHWISE_FIELDS = range(460, 472)
"""Bits of a job: how many rows of a group, and how many are idle."""
DEPTHWISE_COUNTERS = (
    ("skip", 2),
    ("$like$38", 2),
    ("arriving", 1),
    ("pointer_1_last", 7),
    ("pointer_last", 7),
)
"""Slots before the first vector and of that, whether it has come, the last places of the
delay line; with their bits."""
BANKS, PORTS, WRITES = 4, ("vector", "array", "store"), ("vector", "load")
ADDRESSES, DENSE, DEPTHWISE = "array.addresses", "array.addresses.dense", "array.addresses.depthwise"
OUTPUTS, WAIT = f"{DEPTHWISE}.outputs", f"{DEPTHWISE}.$like$38"
OUT_WIDTH, OUT_WIDTH_BITS = 351, 16
"""Bits of a job."""
DELIVERIES = "array.addresses.deliveries"
ROWS, LAST_PHASE = 2, 3


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


def place_of_depthwise(wire: str) -> Fact:
    """Only slots of the depthwise mode have a place in the delay line, other than the first one."""
    return lambda state: state.implies(
        state.all((state.bit(VALID[wire]), state.either(state.bit(wire, bit) for bit in PLACES))),
        state.bit(wire),
    )


def zero_point(stage: int) -> Loose:
    """The zero point of a slot's bytes, of which some is in the image."""
    form = f"array.fetch.format_{stage}"

    def read(state: State) -> Bit:
        inside, some = state.either(state.bits(form, 0, 2)), state.bits(form, BEFORE_END, BEFORE_END_BITS)
        return state.all((inside, state.no(state.bit(form, ALL_BEFORE)), state.either(some)))

    return Loose(form, tuple(range(INPUT_ZP, INPUT_ZP + OPERAND_BITS)), read)


def makes_slots(state: State) -> Bit:
    flushing = state.bits("array.addresses.deliveries.flushing") + state.bits(f"{DEPTHWISE}.flushing")
    return state.either((state.bit(f"{ADDRESSES}.$signal"), *flushing))


def running(state: State, depthwise: bool) -> Bit:
    mode = state.bit(f"{DEPTHWISE}.job", IS_DEPTHWISE)
    return state.all((state.bit(f"{ADDRESSES}.$signal"), mode if depthwise else state.no(mode)))


def depthwise_runs(state: State) -> Bit:
    return running(state, True)


def place_only_depthwise(state: State) -> Bit:
    there = [state.bit(f"{DEPTHWISE}.{name}_filled") for name in ("pointer_1", "pointer")]
    there += [bit for name in ("pointer_1", "pointer") for bit in state.bits(f"{DEPTHWISE}.{name}")]
    return state.implies(state.all((makes_slots(state), state.either(there))), running(state, True))


def checked_is_pending(state: State) -> Bit:
    return state.implies(state.bit(f"{ADDRESSES}.jobs__valid"), state.bit("array.commands.$signal$6"))


def few_idle_rows(state: State) -> Bit:
    job = f"{DENSE}.first"
    offered = state.all((state.bit(f"{ADDRESSES}.jobs__valid"), state.bit(job, IS_DEPTHWISE)))
    return state.implies(offered, state.no(state.either(state.bits(job, IDLE_ROWS + 1, IDLE_BITS - 1))))


def runs_with_few_idle_rows(state: State) -> Bit:
    idle = state.bits(f"{DEPTHWISE}.job", IDLE_ROWS + 1, IDLE_BITS - 1)
    return state.implies(depthwise_runs(state), state.no(state.either(idle)))


def rows_to_load(state: State) -> Bit:
    """In the first row one or two are left, in the second one one is."""
    left, row = state.bits(f"{DEPTHWISE}.$signal"), state.bit(f"{DEPTHWISE}.row$23")
    loads = state.all((running(state, True), state.bit(f"{DEPTHWISE}.loading")))
    one = state.equals(left, 1)
    first = state.either((one, state.equals(left, 2)))
    return state.all(
        (
            state.implies(state.all((loads, row)), one),
            state.implies(state.all((loads, state.no(row))), first),
        )
    )


def rows_are_loaded(state: State) -> Bit:
    """Weights are being loaded; how many rows are left is read meanwhile alone."""
    return state.all((depthwise_runs(state), state.bit(f"{DEPTHWISE}.loading")))


def group_counts(state: State) -> Bit:
    """The first row's weights are loaded."""
    first = state.no(state.bit(f"{DEPTHWISE}.row$23"))
    return state.all((rows_are_loaded(state), first))


def first_row_is_of_first_group(state: State) -> Bit:
    return state.implies(group_counts(state), state.no(state.bit(f"{DEPTHWISE}.group")))


def loads_first_group(wire: str) -> Fact:
    """A slot that loads the weights of the first row has the first group."""

    def fact(state: State) -> Bit:
        loads = state.all((state.bit(VALID[wire]), state.bit(wire, LOAD), state.no(state.bit(wire, ROW))))
        return state.implies(loads, state.no(state.bit(wire, GROUP)))

    return fact


def first_row_has_first_group(state: State) -> Bit:
    return state.no(state.either(state.bits("array.pe_array.select.group_0")))


def lines_are_left(state: State) -> Bit:
    return state.implies(state.bit(f"{OUTPUTS}.y_some"), state.either(state.bits(f"{OUTPUTS}.y_left")))


def columns_are_left(state: State) -> Bit:
    return state.implies(state.bit(f"{OUTPUTS}.$signal$6"), state.either(state.bits(f"{OUTPUTS}.x_left")))


def outputs_have_columns(state: State) -> Bit:
    width = state.either(state.bits(f"{DEPTHWISE}.job", OUT_WIDTH, OUT_WIDTH_BITS))
    return state.implies(state.bit(f"{OUTPUTS}.any_x"), width)


def some_pixels(state: State) -> Bit:
    offered = state.bit(f"{ADDRESSES}.jobs__valid")
    count = state.either(state.bits(f"{DENSE}.first", COUNT, COUNT_BITS))
    left = state.either(state.bits(f"{DENSE}.left"))
    return state.all((state.implies(offered, count), state.implies(running(state, False), left)))


def step_ends(state: State) -> Bit:
    """The end of a step has a flag."""
    last, flag = state.equals(state.bits(f"{DENSE}.phase"), LAST_PHASE), state.bit(f"{DENSE}.$signal$13")
    dense = running(state, False)
    right = state.implies(dense, state.no(state.logic.xor(last, flag)))
    return state.all((right, state.implies(state.all((makes_slots(state), flag)), dense)))


def tile_has_rows(state: State) -> Bit:
    """From the second slot of a step on it is known how many pixels are left."""
    left, rows = state.bits(f"{DENSE}.left"), state.bits("array.addresses.deliveries.tile_rows")
    more, phase = state.either(left[1:]), state.bits(f"{DENSE}.phase")
    many = state.either((state.either(left[2:]), state.all(left[:2])))
    right = state.all(
        (
            state.logic.choose(more, state.equals(rows, ROWS), state.equals(rows, 1)),
            state.logic.xor(many, state.bit(f"{DENSE}.last_tile")),
        )
    )
    return state.implies(state.all((running(state, False), state.either(phase))), right)


def second_row_is_left(state: State) -> Bit:
    """While rows deliver, it is the last one's turn."""
    left = state.bits("array.addresses.deliveries.left")
    return state.implies(state.bit("array.addresses.deliveries.delivering"), state.equals(left, 1))


def one_is_flushed(state: State) -> Bit:
    """Of two rows one passes on what the last slot gave, while it is flushed."""
    left, flushing = state.bits(f"{DELIVERIES}.$signal"), state.bit(f"{DELIVERIES}.flushing")
    return state.all((state.no(left[1]), state.implies(flushing, left[0])))


def depthwise_is_drained(state: State) -> Bit:
    """For there is no memory for sums that are kept."""
    offered = state.all((state.bit(f"{ADDRESSES}.jobs__valid"), state.bit(f"{DENSE}.first", IS_DEPTHWISE)))
    accumulate, drain = state.bits(f"{DENSE}.first", ACCUMULATE, 2)
    return state.implies(offered, state.all((drain, state.no(accumulate))))


def runs_drained(state: State) -> Bit:
    return state.implies(running(state, True), state.bit(f"{DEPTHWISE}.job", ACCUMULATE + 1))


def keeps_nothing(wire: str) -> Fact:
    return lambda state: state.no(state.bit(wire, KEEP))


def whole_instructions(state: State) -> Bit:
    asked = state.bit(FETCH_ASKS)
    return state.implies(asked, state.all(state.bits("axi__arlen", 0, INSTRUCTION_BEATS_BITS)))


ROW_ILLEGAL = 17
"""The bit of a transfer that says so; the first one says that it is a SIGNAL (hw/dma/bursts.py)."""
INSTRUCTION_BEATS_BITS = 2
"""Log2 of the beats of an instruction."""


def while_it_works(unit: str) -> Callable[[State], Bit]:
    return lambda state: state.no(state.bit(f"{unit}.halt"))


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

KNOWN = (
    # Nothing: a register gets the same value anyway, or a memory what is there already.
    Known((".*",), ()),
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
    # Sums are caught to be delivered; partial sums are not kept, for there is no memory for them.
    Known(
        (r"array\.(pe_array|issue|fetch|addresses)",),
        (
            whole("array.accumulators", 128, read=lambda state: state.bit("array.delivered")),
            *(Loose(wire, (KEEP,)) for wire in SLOTS),
            *(whole(f"array.pe_array.{name}_{stage}", 1) for name in ("keep", "gather") for stage in (2, 3)),
            whole("array.pe_array.keep_1", 1),
        ),
    ),
    # In the depthwise mode each row passes on its sums, whether it delivers or not.
    Known(
        (r"array\.fetch",),
        (
            whole("array.accumulators", 128, read=lambda state: state.bit("array.delivered")),
            *(
                Loose(
                    wire,
                    (GATHER,),
                    lambda state, wire=wire: state.all((state.bit(VALID[wire]), state.no(state.bit(wire)))),
                )
                for wire in FETCHED
            ),
            whole(
                "array.pe_array.gather_1",
                1,
                read=lambda state: state.no(state.bit("array.pe_array.row_0.chained")),
            ),
            *(whole(f"array.pe_array.gather_{stage}", 1) for stage in (2, 3)),
        ),
        (place_only_depthwise, *map(place_of_depthwise, SLOTS)),
    ),
    # The number of a row is that of one which delivers, or loads weights.
    Known(
        (r"array\.(addresses.*|issue.*|fetch|pe_array)",),
        (
            whole(f"{DELIVERIES}.next_row", 1, read=lambda state: state.bit(f"{DELIVERIES}.delivering")),
            *(
                Loose(
                    wire,
                    (ROW,),
                    lambda state, wire=wire: state.either(
                        state.bit(wire, bit) for bit in (LOAD, DELIVER, GATHER)
                    ),
                )
                for wire in SLOTS
            ),
            whole(
                "array.pe_array.row_1",
                1,
                read=lambda state: state.either(
                    state.bit(f"array.pe_array.{name}_1") for name in ("deliver", "gather")
                ),
            ),
        ),
        (checked_is_pending, some_pixels, step_ends, tile_has_rows, second_row_is_left),
    ),
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
    # With two rows only the first one's group counts its rows.
    Known(
        (r"array\.addresses\.d.*",),
        (
            whole(
                f"{DEPTHWISE}.group_left",
                6,
                read=group_counts,
            ),
            # Fields of depthwise jobs are read by such alone.
            *(Loose(f"{DEPTHWISE}.job", (bit,), depthwise_runs) for bit in DEPTHWISE_FIELDS),
            *(whole(f"{DEPTHWISE}.{name}", bits, read=depthwise_runs) for name, bits in DEPTHWISE_COUNTERS),
            whole(f"{DEPTHWISE}.$signal", 2, read=rows_are_loaded),
            *(
                whole(f"{DEPTHWISE}.{name}", 1, read=lambda state: state.bit(f"{DEPTHWISE}.loading"))
                for name in ("group", "row$23")
            ),
            *(Loose(wire, (GROUP,), lambda state, wire=wire: state.bit(wire, LOAD)) for wire in SLOTS),
        ),
        (checked_is_pending, few_idle_rows, runs_with_few_idle_rows, rows_to_load),
    ),
    # A row without a group has one of two numbers.
    Known(
        (r"array\.pe_array\.select",),
        (
            Loose(
                "array.pe_array.select.group_1",
                (0,),
                lambda state: state.no(state.bit("array.pe_array.select.group_1", 1)),
            ),
        ),
    ),
    # The first row's weights are those of the first group.
    Known(
        (r"array\.pe_array\.select",),
        (),
        (
            *(checked_is_pending, few_idle_rows, runs_with_few_idle_rows, rows_to_load),
            *(first_row_is_of_first_group, *map(loads_first_group, SLOTS), first_row_has_first_group),
        ),
    ),
    # The number of SIGNALs, of which nothing asks but whether it is none or four.
    Known(
        (r"array\.commands\.signals",),
        (
            Loose(
                "array.commands.signals.level",
                (2,),
                other=lambda state: state.bit("array.commands.signals.level"),
            ),
        ),
    ),
    # A tile has a pixel.
    Known(
        (r"array\.addresses\.d.*",),
        (),
        (checked_is_pending, some_pixels, step_ends, tile_has_rows, second_row_is_left),
    ),
    # How many rows are left to be flushed is not read but while there is one.
    Known(
        (r"array\.addresses(\.d.*)?",),
        (whole(f"{DELIVERIES}.$signal", 1, read=lambda state: state.bit(f"{DELIVERIES}.flushing")),),
        (one_is_flushed,),
    ),
    # A depthwise job is drained: no slot keeps a partial sum.
    Known((r"array\.addresses(\.d.*)?",), (), (checked_is_pending, depthwise_is_drained, runs_drained)),
    # Of a group of one row the other bits are 0, and of one slot to wait for.
    Known(
        (r"array\.addresses\.depthwise",),
        (
            Loose(
                f"{DEPTHWISE}.group_left",
                tuple(range(1, 6)),
                lambda state: state.all((group_counts(state), state.bit(f"{DEPTHWISE}.group_left"))),
            ),
            Loose(
                f"{DEPTHWISE}.group_left",
                (0,),
                group_counts,
            ),
            Loose(
                WAIT,
                (1,),
                lambda state: state.all((depthwise_runs(state), state.no(state.bit(WAIT)))),
            ),
        ),
        (checked_is_pending, few_idle_rows, runs_with_few_idle_rows, rows_to_load),
    ),
    # Outputs are left where some are.
    Known(
        (r"array\.addresses\.depthwise\.outputs",),
        (),
        (lines_are_left, columns_are_left, outputs_have_columns),
    ),
    Known((r"array\.(fetch|issue.*|pe_array.*)",), (), (*NOTHING_KEPT, *APART)),
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
    *KNOWN_OF_VECTOR,
    *KNOWN_OF_COUNTS,
    *KNOWN_OF_THE_SEQUENCER,
    *KNOWN_OF_WORDS,
    # A program that lies within the window has no more instructions than that.
    Known((r"sequencer",), (), (range_is_checked, reset_is_reported)),
    # A row that is wrong halts its unit.
    *(
        Known(
            (rf"{unit}\.splitter",),
            (whole(f"{unit}.splitter.burst_valid", 1, read=while_it_works(unit)),),
        )
        for unit in ("load", "store")
    ),
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
