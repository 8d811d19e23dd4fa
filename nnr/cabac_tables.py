"""Tables of clause 11, and the numbering of the context variables."""

import functools

from tosaic.nnr import jit

# Width of the interval of the less probable bin (11.2.4.3.2): 8 rows, one per `ivlCurrRange & 0xe0`, of 32.
# fmt: off
RLPS = (
    128, 112, 97, 84, 74, 65, 57, 50, 45, 39, 34, 30, 27, 23, 20, 18,
    15, 14, 12, 11, 10, 9, 7, 7, 5, 5, 4, 4, 3, 3, 2, 2,
    142, 125, 108, 93, 82, 72, 63, 56, 50, 43, 38, 33, 30, 26, 22, 20,
    17, 16, 13, 12, 11, 10, 8, 8, 6, 6, 5, 5, 3, 3, 2, 2,
    156, 137, 119, 103, 90, 79, 70, 61, 55, 48, 42, 37, 33, 28, 24, 22,
    19, 17, 15, 13, 12, 11, 9, 9, 6, 6, 5, 5, 4, 4, 2, 2,
    171, 150, 130, 112, 99, 87, 76, 67, 60, 52, 46, 40, 36, 31, 27, 24,
    21, 19, 16, 15, 13, 12, 10, 10, 7, 7, 6, 6, 4, 4, 3, 3,
    185, 162, 141, 121, 107, 94, 82, 73, 65, 56, 50, 43, 39, 34, 29, 26,
    22, 21, 17, 16, 14, 13, 11, 11, 8, 8, 6, 6, 4, 4, 3, 3,
    199, 175, 152, 131, 115, 101, 89, 78, 70, 61, 54, 47, 42, 36, 31, 28,
    24, 22, 19, 17, 15, 14, 12, 12, 8, 8, 7, 7, 5, 5, 3, 3,
    213, 187, 163, 140, 123, 108, 95, 84, 75, 65, 58, 50, 45, 39, 33, 30,
    26, 24, 20, 18, 16, 15, 13, 13, 9, 9, 7, 7, 5, 5, 3, 3,
    228, 200, 174, 150, 132, 116, 102, 90, 80, 70, 62, 54, 48, 42, 36, 32,
    28, 26, 22, 20, 18, 16, 14, 14, 10, 10, 8, 8, 6, 6, 4, 4,
)
# How far a state moves (11.2.4.3.2.2), before the shift of its window.
TRANSITION = (
    2512, 2288, 2064, 1840, 1616, 1392, 1168, 944, 720, 560, 464, 368, 272, 208, 144, 80,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 0,
)
# fmt: on

# The text's shift0 = 1 leaves the table within four bins; the codec family shifts by 5 and by 4 (E-03).
SHIFT0, SHIFT1 = 5, 4

# Dependent quantization (11.1.2.4): next state for an even and for an odd level, C order (E-15).
STATE_TRANSITION = ((0, 2), (7, 5), (1, 3), (6, 4), (2, 0), (5, 7), (3, 1), (4, 6))

# Contexts, in this order: sig_flag 3 * stateId + neighbour, sign_flag, abs_level_greater_x (2 per flag),
# abs_level_greater_x2. Neighbour: 0 zero, 1 positive, 2 negative (E-11).
SIG, SIGN, GREATER = 0, 24, 27
# abs_level_greater_x2 has one context per prefix bin; 31 ones are an error (E-07).
PREFIX_CONTEXTS = 31
INT32_MAX = 2**31 - 1


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
