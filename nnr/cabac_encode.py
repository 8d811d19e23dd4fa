"""The arithmetic encoder and the mirror of `quant_tensor()`: the loops that numba compiles.

`low` holds the 9 bits of the text's register and `queue` more bits that wait to be written; a carry out of them
runs back through the bytes already written, which are all kept.
"""

from tosaic.nnr.cabac_tables import GREATER, SIG, SIGN
from tosaic.nnr.jit import helper, kernel

# One level writes at most 7 * (2 + 255 + 31) + 30 bits.
MARGIN_BYTES = 264
# The registers of `encode_levels`.
LOW, INTERVAL, QUEUE, LENGTH, NEIGHBOUR, STATE = range(6)


@helper
def write_queue(low, queue, out, length):
    """Write whole bytes until fewer than 8 bits wait."""
    while queue >= 8:
        queue -= 8
        byte = low >> (9 + queue)
        low &= (1 << (9 + queue)) - 1
        if byte > 255:
            byte -= 256
            last = length - 1
            while out[last] == 255:
                out[last] = 0
                last -= 1
            out[last] += 1
        out[length] = byte
        length += 1
    return low, queue, length


@helper
def encode_decision(state0, state1, tables, context, value, low, interval, queue, out, length):
    """Code one bin with its context: the inverse of DecodeDecision (11.2.4.3.2)."""
    rlps, step0, step1, shifts, _ = tables
    s0 = state0[context]
    s1 = state1[context]
    p = 16 * s0 + s1
    lps = rlps[(interval & 0xE0) + abs(p >> 7)]
    interval -= lps
    # As in the decoder: no branches on bins.
    less = -(value ^ (1 if p >= 0 else 0))
    low += interval & less
    interval ^= (interval ^ lps) & less
    sign = 2 * value - 1
    state0[context] = s0 + sign * step0[16 + (sign * s0 >> 3)]
    state1[context] = s1 + sign * step1[16 + (sign * s1 >> 7)]
    if interval < 256:
        shift = shifts[interval]
        low <<= shift
        interval <<= shift
        queue += shift
        low, queue, length = write_queue(low, queue, out, length)
    return low, interval, queue, length


@helper
def encode_bypass(bits, value, low, interval, queue, out, length):
    """Code the `bits` (at most 30) low bits of `value`, highest first, as bypass bins."""
    low = (low << bits) + interval * value
    low, queue, length = write_queue(low, queue + bits, out, length)
    return low, queue, length


@kernel
def encode_levels(levels, start, unary_length, dependent, state0, state1, tables, registers, out):
    """Code `levels[start:]` until all are coded or `out` is nearly full; returns the index of the next level.

    A negative result -1 - index is a level that dependent quantization cannot reach in its state, or one whose
    remainder needs 31 prefix ones.
    """
    next_state = tables[4]
    prefix = GREATER + 2 * unary_length
    low, interval, queue, length = registers[0], registers[1], registers[2], registers[3]
    neighbour, state = registers[4], registers[5]
    room = len(out) - MARGIN_BYTES
    count = len(levels)
    index = start
    while index < count and length < room:
        level = levels[index]
        negative = 1 if level < 0 else 0
        size = -level if negative else level
        if dependent and size:
            if (size ^ state) & 1:
                return -1 - index
            size = (size + (state & 1)) >> 1
        significant = 1 if size else 0
        low, interval, queue, length = encode_decision(
            state0,
            state1,
            tables,
            SIG + 3 * state + neighbour,
            significant,
            low,
            interval,
            queue,
            out,
            length,
        )
        if significant:
            low, interval, queue, length = encode_decision(
                state0, state1, tables, SIGN + neighbour, negative, low, interval, queue, out, length
            )
            flag = 0
            greater = 1
            while greater and flag < unary_length:
                greater = 1 if size > flag + 1 else 0
                context = GREATER + 2 * flag + negative
                low, interval, queue, length = encode_decision(
                    state0, state1, tables, context, greater, low, interval, queue, out, length
                )
                flag += 1
            if greater:
                rest = size - unary_length - 1
                bits = 0
                while rest >= (1 << bits):
                    rest -= 1 << bits
                    low, interval, queue, length = encode_decision(
                        state0, state1, tables, prefix + bits, 1, low, interval, queue, out, length
                    )
                    bits += 1
                    if bits == 31:
                        return -1 - index
                low, interval, queue, length = encode_decision(
                    state0, state1, tables, prefix + bits, 0, low, interval, queue, out, length
                )
                low, queue, length = encode_bypass(bits, rest, low, interval, queue, out, length)
        neighbour = 1 + negative if significant else 0
        if dependent:
            state = next_state[2 * state + (size & 1)]
        index += 1
    registers[0], registers[1], registers[2], registers[3] = low, interval, queue, length
    registers[4], registers[5] = neighbour, state
    return index
