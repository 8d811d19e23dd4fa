"""What is known of ARRAY's jobs, tiles and sums in the configuration `nano`, for rtl_facts.py."""

from rtl_facts_slots import (
    ADDRESSES,
    APART,
    DELIVER,
    DELIVERIES,
    DENSE,
    DEPTHWISE,
    FETCHED,
    GATHER,
    KEEP,
    LOAD,
    NOTHING_KEPT,
    ROW,
    SLOTS,
    VALID,
    checked_is_pending,
    depthwise_is_drained,
    makes_slots,
    running,
    runs_drained,
)
from rtl_known import Known, whole
from rtl_unseen import Bit, Fact, Loose, State

PLACES = range(14, 30)
"""Bits of a slot's control: those of its places in the delay line, and of whether there is a vector."""
COUNT, COUNT_BITS = 397, 24
"""Bits of a job."""
ROWS, LAST_PHASE = 2, 3


def place_of_depthwise(wire: str) -> Fact:
    """Only slots of the depthwise mode have a place in the delay line, other than the first one."""
    return lambda state: state.implies(
        state.all((state.bit(VALID[wire]), state.either(state.bit(wire, bit) for bit in PLACES))),
        state.bit(wire),
    )


def place_only_depthwise(state: State) -> Bit:
    there = [state.bit(f"{DEPTHWISE}.{name}_filled") for name in ("pointer_1", "pointer")]
    there += [bit for name in ("pointer_1", "pointer") for bit in state.bits(f"{DEPTHWISE}.{name}")]
    return state.implies(state.all((makes_slots(state), state.either(there))), running(state, True))


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


KNOWN_OF_ARRAY = (
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
    # Slots of the two modes differ, and no slot keeps a partial sum.
    Known((r"array\.(fetch|issue.*|pe_array.*)",), (), (*NOTHING_KEPT, *APART)),
)

__all__ = ["KNOWN_OF_ARRAY"]
