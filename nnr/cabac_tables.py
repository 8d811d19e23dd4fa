"""Tables of clause 11 as the kernels read them, and the numbering of the context variables."""

import functools
from typing import Any

from tosaic.hw.nnr_tables import PREFIX_CONTEXTS, RLPS, SHIFT0, SHIFT1, STATE_TRANSITION, TRANSITION
from tosaic.nnr import jit

# Contexts, in this order: sig_flag 3 * stateId + neighbour, sign_flag, abs_level_greater_x (2 per flag),
# abs_level_greater_x2. Neighbour: 0 zero, 1 positive, 2 negative (E-11).
SIG, SIGN, GREATER = 0, 24, 27
INT32_MAX = 2**31 - 1
# Each context variable has a fast and a slow state (11.2.3), which lie side by side.
STATES_OF_CONTEXT = 2
# The decoder keeps a third number behind them: where the steps of the context's windows begin in the tables.
ENTRIES_OF_CONTEXT = 3
# States 0 and 1 of a context select entry MIDDLE of their windows' steps; more probable ones select entries above.
MIDDLE, STEPS = 16, 32
# Windows of the published editions' contexts (published_payload.py), as shifts of states 0 and 1; the draft's first.
WINDOWS = ((SHIFT0, SHIFT1), (4, 5), (6, 6), (7, 5))


def context_count(unary_length: int) -> int:
    """Number of context variables for `cabac_unary_length`."""
    return GREATER + 2 * unary_length + PREFIX_CONTEXTS


def draft_contexts(unary_length: int) -> Any:
    """The decoder's contexts at the start of a payload of the draft: both states 0, the first windows."""
    return jit.ints((0, 0, MIDDLE) * context_count(unary_length))


@functools.cache
def tables() -> tuple:
    """What the kernels read and never write: rLPS, steps of states 0 and 1, shift of each range, next state."""
    return (
        jit.ints(RLPS),
        jit.ints(step >> shift for shift, _ in WINDOWS for step in TRANSITION),
        jit.ints(step >> shift for _, shift in WINDOWS for step in TRANSITION),
        jit.ints(max(0, 9 - value.bit_length()) for value in range(512)),
        jit.ints(state for row in STATE_TRANSITION for state in row),
    )
