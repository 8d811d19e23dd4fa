"""The arithmetic decoder and `quant_tensor()` (11.1.2, 11.2): the loops that numba compiles.

The engine is the text's: a 9-bit range, a 9-bit offset, and the position of the next bit. Nothing is read ahead,
so the position is exact when decoding ends. Callers append `PADDING_BYTES` zeros to the payload; a position past
the payload's end is noticed once per level.
"""

from tosaic.hw.nnr_tables import PREFIX_CONTEXTS
from tosaic.nnr.cabac_tables import GREATER, INT32_MAX, SIG, SIGN
from tosaic.nnr.jit import helper, kernel

# One level with cabac_unary_length 255 reads at most 7 * (2 + 255 + 31) + 30 bits.
PADDING_BYTES = 264
# `decode_levels` returns one of these.
DONE, TRUNCATED, PREFIX_TOO_LONG, LEVEL_TOO_LARGE = 0, 1, 2, 3


@helper
def decode_decision(data, states, tables, context, interval, offset, position):
    """DecodeDecision (11.2.4.3.2): the bin, then the engine's three registers."""
    rlps, step0, step1, shifts, _ = tables
    s0 = states[3 * context]
    s1 = states[3 * context + 1]
    middle = states[3 * context + 2]
    p = 16 * s0 + s1
    # Arithmetic shift first, then abs: p = -1 selects column 1, p = +1 column 0 (E-02).
    lps = rlps[(interval & 0xE0) + abs(p >> 7)]
    interval -= lps
    # Without branches, which the processor cannot foresee here: three times as fast. `less` is -1 or 0.
    less = -1 if offset >= interval else 0
    value = (1 if p >= 0 else 0) ^ (less & 1)
    offset -= interval & less
    interval ^= (interval ^ lps) & less
    sign = 2 * value - 1
    states[3 * context] = s0 + sign * step0[middle + (sign * s0 >> 3)]
    states[3 * context + 1] = s1 + sign * step1[middle + (sign * s1 >> 7)]
    shift = shifts[interval]
    byte = position >> 3
    bits = ((data[byte] << 8) | data[byte + 1]) >> (16 - shift - (position & 7))
    offset = (offset << shift) | (bits & ((1 << shift) - 1))
    interval <<= shift
    position += shift
    return value, interval, offset, position


@helper
def decode_bypass(data, count, interval, offset, position):
    """Decodes `count` bypass bins (11.2.4.3.4) as an unsigned integer; returns it, the new offset and position."""
    value = 0
    for _ in range(count):
        offset = (offset << 1) | ((data[position >> 3] >> (7 - (position & 7))) & 1)
        position += 1
        value <<= 1
        if offset >= interval:
            offset -= interval
            value |= 1
    return value, offset, position


@kernel
def decode_numbers(data, context, tables, registers, end, bits, numbers):
    """Fill `numbers`, each a flag with the one context and, behind a flag of 1, a bypass number of `bits` bits.

    A flag of 0 is the number 0, and others are 1 more than their bypass bins say. Returns whether all are before bit
    `end`.
    """
    interval, offset, position = registers[0], registers[1], registers[2]
    for index in range(len(numbers)):
        flag, interval, offset, position = decode_decision(
            data, context, tables, 0, interval, offset, position
        )
        value = 0
        if flag:
            value, offset, position = decode_bypass(data, bits, interval, offset, position)
            value += 1
        if position > end:
            return False
        numbers[index] = value
    registers[0], registers[1], registers[2] = interval, offset, position
    return True


@kernel
def decode_levels(data, unary_length, states, tables, registers, levels, positions):
    """Fills `levels` as quant_tensor() does (11.1.2.4).

    registers: range, offset, position (read and written), whether the quantization is dependent, the payload's length
    in bits; neighbour and stateId, 0 before the first level (read and written). positions: the bit position behind
    each level, if not of length 0. Returns a status and the index of the level it is about.
    """
    interval, offset, position = registers[0], registers[1], registers[2]
    dependent, end = registers[3], registers[4]
    count = len(levels)
    next_state = tables[4]
    prefix = GREATER + 2 * unary_length
    neighbour, state = registers[5], registers[6]
    note = len(positions) > 0
    for index in range(count):
        value, interval, offset, position = decode_decision(
            data, states, tables, SIG + 3 * state + neighbour, interval, offset, position
        )
        level = 0
        if value:
            negative, interval, offset, position = decode_decision(
                data, states, tables, SIGN + neighbour, interval, offset, position
            )
            level = 1
            flag = 0
            greater = 1
            while greater and flag < unary_length:
                greater, interval, offset, position = decode_decision(
                    data, states, tables, GREATER + 2 * flag + negative, interval, offset, position
                )
                level += greater
                flag += 1
            # The remainder follows only a last flag of 1 (E-06).
            if greater:
                bits = 0
                more = 1
                while more:
                    if bits == PREFIX_CONTEXTS:
                        return (TRUNCATED if position > end else PREFIX_TOO_LONG), index
                    more, interval, offset, position = decode_decision(
                        data, states, tables, prefix + bits, interval, offset, position
                    )
                    if more:
                        level += 1 << bits
                        bits += 1
                remainder, offset, position = decode_bypass(data, bits, interval, offset, position)
                level += remainder
            neighbour = 1 + negative
            parity = level & 1
            if dependent:
                level = 2 * level - (state & 1)
            if level > INT32_MAX + negative:
                return (TRUNCATED if position > end else LEVEL_TOO_LARGE), index
            if negative:
                level = -level
        else:
            neighbour = 0
            parity = 0
        if dependent:
            state = next_state[2 * state + parity]
        if position > end:
            return TRUNCATED, index
        levels[index] = level
        if note:
            positions[index] = position
    registers[0] = interval
    registers[1] = offset
    registers[2] = position
    registers[5] = neighbour
    registers[6] = state
    return DONE, count
