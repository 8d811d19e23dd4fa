"""Tables of clause 11 as the kernels read them, and the numbering of the context variables."""

import functools

from tosaic.hw.nnr_tables import PREFIX_CONTEXTS, RLPS, SHIFT0, SHIFT1, STATE_TRANSITION, TRANSITION
from tosaic.nnr import jit

# Contexts, in this order: sig_flag 3 * stateId + neighbour, sign_flag, abs_level_greater_x (2 per flag),
# abs_level_greater_x2. Neighbour: 0 zero, 1 positive, 2 negative (E-11).
SIG, SIGN, GREATER = 0, 24, 27
INT32_MAX = 2**31 - 1
# Each context variable has a fast and a slow state (11.2.3), which lie side by side.
STATES_OF_CONTEXT = 2


def context_count(unary_length: int) -> int:
    """Number of context variables for `cabac_unary_length`."""
    return GREATER + 2 * unary_length + PREFIX_CONTEXTS


@functools.cache
def tables() -> tuple:
    """What the kernels read and never write: rLPS, steps of states 0 and 1, shift of each range, next state."""
    return (
        jit.ints(RLPS),
        jit.ints(step >> SHIFT0 for step in TRANSITION),
        jit.ints(step >> SHIFT1 for step in TRANSITION),
        jit.ints(max(0, 9 - value.bit_length()) for value in range(512)),
        jit.ints(state for row in STATE_TRANSITION for state in row),
    )
