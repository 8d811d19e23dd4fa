"""The trellis of dependent quantization (10.1.3): the loops that numba compiles."""

from tosaic.nnr.jit import kernel


@kernel
def search_trellis(values, rate_weight, keep_zeros, next_state, choices, origins):
    """Viterbi over the 8 states: the cheapest last state; `choices` are QuantParam values, `origins` states."""
    infinity = 1e300
    cost = [infinity] * 8
    cost[0] = 0.0
    for index in range(len(values)):
        value = values[index]
        following = [infinity] * 8
        for state in range(8):
            if cost[state] >= infinity:
                continue
            odd = state & 1
            # Two neighbours in this state's quantizer: their levels k differ by one, so one of each parity.
            size = abs(value)
            low = int((size + odd) / 2)
            for step in range(3):
                # Zero is worth trying where it is no neighbour: it is the cheapest to code.
                k = low + step if step < 2 else 0
                if (step == 2 and low == 0) or (keep_zeros and value == 0 and k):
                    continue
                level = 2 * k - odd if k else 0
                bits = 1.0
                rest = k
                while rest:
                    bits += 2.0
                    rest >>= 1
                total = cost[state] + (size - level) * (size - level) + rate_weight * bits
                target = next_state[2 * state + (k & 1)]
                if total < following[target]:
                    following[target] = total
                    choices[index, target] = -level if value < 0 else level
                    origins[index, target] = state
        cost = following
    best = 0
    for state in range(8):
        if cost[state] < cost[best]:
            best = state
    return best


@kernel
def trace_back(state, choices, origins, levels):
    """Follow the path that ends in `state` back to the first value."""
    for index in range(len(levels) - 1, -1, -1):
        levels[index] = choices[index, state]
        state = origins[index, state]
