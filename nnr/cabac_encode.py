"""The arithmetic encoder and the mirror of `quant_tensor()`: the loops that numba compiles.

`low` holds the 9 bits of the text's register and `queue` more bits that wait to be written; a carry out of them
runs back through the bytes already written, which are all kept. A decision adds at most 7 bits to the queue, and
`low` has room for 50: `encode_levels` writes whole bytes when more than `MOST_QUEUED_BITS` wait.
"""

from tosaic.nnr.cabac_tables import GREATER, SIG, SIGN
from tosaic.nnr.jit import helper, kernel

# One level writes at most 7 * (2 + 255 + 31) + 30 bits.
MARGIN_BYTES = 264
# Above this many waiting bits whole bytes are written: seldom, and before a remainder of 30 bits finds no room.
MOST_QUEUED_BITS = 12
# The registers of `encode_levels`.
LOW, INTERVAL, QUEUE, LENGTH, NEIGHBOUR, STATE, INDEX = range(7)


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
def encode_decision(states, tables, context, value, low, interval, queue):
    """Code one bin with its context: the inverse of DecodeDecision (11.2.4.3.2). Nothing is written yet."""
    rlps, step0, step1, shifts, _ = tables
    s0 = states[2 * context]
    s1 = states[2 * context + 1]
    p = 16 * s0 + s1
    lps = rlps[(interval & 0xE0) + abs(p >> 7)]
    interval -= lps
    # As in the decoder: no branches on bins.
    less = -(value ^ (1 if p >= 0 else 0))
    low += interval & less
    interval ^= (interval ^ lps) & less
    sign = 2 * value - 1
    states[2 * context] = s0 + sign * step0[16 + (sign * s0 >> 3)]
    states[2 * context + 1] = s1 + sign * step1[16 + (sign * s1 >> 7)]
    shift = shifts[interval]
    return low << shift, interval << shift, queue + shift


@kernel
def encode_levels(levels, unary_length, dependent, states, tables, registers, out):
    """Code `levels` from register INDEX on, until all are coded or `out` is nearly full; returns the next index.

    A negative result -1 - index is a level that dependent quantization cannot reach in its state, or one whose
    remainder needs 31 prefix ones.
    """
    next_state = tables[4]
    prefix = GREATER + 2 * unary_length
    low, interval, queue, length = registers[0], registers[1], registers[2], registers[3]
    neighbour, state, index = registers[4], registers[5], registers[6]
    room = len(out) - MARGIN_BYTES
    count = len(levels)
    while index < count and length < room:
        level = levels[index]
        negative = 1 if level < 0 else 0
        size = -level if negative else level
        if dependent and size:
            if (size ^ state) & 1:
                return -1 - index
            size = (size + (state & 1)) >> 1
        significant = 1 if size else 0
        context = SIG + 3 * state + neighbour
        low, interval, queue = encode_decision(states, tables, context, significant, low, interval, queue)
        if significant:
            context = SIGN + neighbour
            low, interval, queue = encode_decision(states, tables, context, negative, low, interval, queue)
            flag = 0
            greater = 1
            while greater and flag < unary_length:
                greater = 1 if size > flag + 1 else 0
                context = GREATER + 2 * flag + negative
                low, interval, queue = encode_decision(states, tables, context, greater, low, interval, queue)
                if queue > MOST_QUEUED_BITS:
                    low, queue, length = write_queue(low, queue, out, length)
                flag += 1
            if greater:
                rest = size - unary_length - 1
                bits = 0
                while rest >= (1 << bits):
                    rest -= 1 << bits
                    context = prefix + bits
                    low, interval, queue = encode_decision(states, tables, context, 1, low, interval, queue)
                    if queue > MOST_QUEUED_BITS:
                        low, queue, length = write_queue(low, queue, out, length)
                    bits += 1
                    if bits == 31:
                        return -1 - index
                low, interval, queue = encode_decision(states, tables, prefix + bits, 0, low, interval, queue)
                # Bypass bins (11.2.4.3.4), highest first.
                low = (low << bits) + interval * rest
                queue += bits
        if queue > MOST_QUEUED_BITS:
            low, queue, length = write_queue(low, queue, out, length)
        neighbour = 1 + negative if significant else 0
        if dependent:
            state = next_state[2 * state + (size & 1)]
        index += 1
    registers[0], registers[1], registers[2], registers[3] = low, interval, queue, length
    registers[4], registers[5], registers[6] = neighbour, state, index
    return index
