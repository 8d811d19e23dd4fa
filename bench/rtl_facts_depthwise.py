"""What is known of ARRAY's depthwise mode in the configuration `nano`, for rtl_facts.py."""

from rtl_facts_slots import (
    ADDRESSES,
    DENSE,
    DEPTHWISE,
    GROUP,
    IS_DEPTHWISE,
    LOAD,
    ROW,
    SLOTS,
    VALID,
    checked_is_pending,
    depthwise_runs,
    running,
)
from rtl_known import Known, whole
from rtl_unseen import Bit, Fact, Loose, State

IDLE_ROWS, IDLE_BITS = 466, 6
OUT_WIDTH, OUT_WIDTH_BITS = 351, 16
"""Bits of a job."""
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
OUTPUTS, WAIT = f"{DEPTHWISE}.outputs", f"{DEPTHWISE}.$like$38"


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


KNOWN_OF_DEPTHWISE = (
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
    # The first row's weights are those of the first group.
    Known(
        (r"array\.pe_array\.select",),
        (),
        (
            *(checked_is_pending, few_idle_rows, runs_with_few_idle_rows, rows_to_load),
            *(first_row_is_of_first_group, *map(loads_first_group, SLOTS), first_row_has_first_group),
        ),
    ),
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
)

__all__ = ["KNOWN_OF_DEPTHWISE"]
