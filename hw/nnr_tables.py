"""Tables of clause 11 of NNR WD2 and how they are read, for the decoder in hardware and for the codec, `tosaic.nnr`.

The one copy of both. The codec is judged by payloads of the reference family, the hardware by the codec. Nothing here
needs Amaranth.
"""

# Width of the interval of the less probable bin (11.2.4.3.2): 8 rows, one per bits 7:5 of ivlCurrRange, of 32.
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
SHIFT0, SHIFT1 = 5, 4
"""Shifts of the two windows: the text's shift0 = 1 cannot run; the codec family's pair."""

STATE_TRANSITION = ((0, 2), (7, 5), (1, 3), (6, 4), (2, 0), (5, 7), (3, 1), (4, 6))
"""Dependent quantization (11.1.2.4): next stateId for an even and for an odd level."""

PREFIX_CONTEXTS = 31
"""Contexts of abs_level_greater_x2; int32 levels need at most 30 ones in it."""
