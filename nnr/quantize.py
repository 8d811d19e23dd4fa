"""Quantizes on the encoder's side (10.1): uniform, dependent (trellis) and codebook."""

import numpy as np

from tosaic.hw.nnr_tables import STATE_TRANSITION
from tosaic.nnr import jit
from tosaic.nnr.errors import NnrError
from tosaic.nnr.payload import check_qp_density, step_size

# The trellis codes at most these levels, so that QuantParam stays inside int32.
LARGEST_LEVEL = 2**30 - 1
STATES = len(STATE_TRANSITION)


def qp_for_step(step: float, qp_density: int = 2) -> int:
    """The qp whose step size (5.2.2) is the largest not above `step`. Raises NnrError unless step > 0."""
    check_qp_density(qp_density)
    if not 0 < step < float("inf"):
        raise NnrError(f"a quantization step must be positive and finite, not {step}")
    density = 1 << qp_density
    mantissa, exponent = np.frexp(step)
    # step = m * 2**e with m in [1, 2): mul = density * m, rounded down.
    mul = int(np.floor(2 * mantissa * density))
    return (int(exponent) - 1) * density + mul - density


def quantize_uniform(weights: np.ndarray, qp: int, qp_density: int = 2) -> np.ndarray:
    """Returns the nearest multiples of the step size (10.1.1): QuantParam, int32, of the weights' shape."""
    scaled = np.rint(_scaled(weights, qp, qp_density))
    _check_range(scaled, 2**31 - 1)
    return scaled.astype(np.int32)


def quantize_dependent(
    weights: np.ndarray,
    qp: int,
    qp_density: int = 2,
    rate_weight: float = 0.0,
    *,
    keep_zeros: bool = False,
) -> np.ndarray:
    """Dependent scalar quantization (10.1.3): the QuantParam values of the best path through the 8 states.

    Minimises squared error in steps plus `rate_weight` times an estimate of the bits. The values are those that
    `encode_tensor(..., dq=True)` takes. At one qp they take fewer bytes than uniform ones and err more: each state
    reaches every other multiple of the step. Compare at equal bytes, with a qp one factor 2 lower. `keep_zeros`: zero
    weights stay zero; otherwise the path may leave zero to reach a better state.
    """
    from tosaic.nnr.trellis import search_trellis, trace_back

    if not 0 <= rate_weight < float("inf"):
        raise NnrError(f"the weight of the rate must not be negative, not {rate_weight}")
    scaled = _scaled(weights, qp, qp_density)
    _check_range(scaled, 2 * LARGEST_LEVEL)
    flat = scaled.reshape(-1)
    count = flat.size
    choices = np.zeros((count, STATES), np.int32)
    origins = np.zeros((count, STATES), np.int8)
    best = int(
        search_trellis(
            flat if jit.COMPILED else flat.tolist(),
            float(rate_weight),
            int(keep_zeros),
            jit.ints(state for row in STATE_TRANSITION for state in row),
            choices,
            origins,
        )
    )
    levels = np.empty(count, np.int64)
    trace_back(best, choices, origins, levels)
    return levels.astype(np.int32).reshape(scaled.shape)


def quantize_codebook(
    weights: np.ndarray, size: int, iterations: int = 20
) -> tuple[np.ndarray, np.ndarray, int]:
    """A codebook of at most `size` float32 values by Lloyd's method (10.1.2).

    Returns indices (int32, the weights' shape), the codebook in ascending order, and codebook_zero_offset: the
    entry nearest to zero, so that small weights get small levels. Exact when there are at most `size` values.
    """
    if not 1 <= size <= 65535:
        raise NnrError(f"codebook_size must be 1..65535, not {size}")
    values = np.asarray(weights, np.float32)
    _check_finite(values)
    flat = values.reshape(-1).astype(np.float64)
    if not flat.size:
        return np.empty(values.shape, np.int32), np.empty(0, np.float32), 0
    ordered = np.sort(flat)
    book = np.unique(ordered)
    if book.size > size:
        book = np.unique(ordered[np.linspace(0, flat.size - 1, size).astype(np.int64)])
        for _ in range(iterations):
            # Sorted weights fall into runs, one per entry: means from sums up to each boundary.
            cuts = np.searchsorted(ordered, (book[1:] + book[:-1]) / 2)
            ends = np.concatenate([cuts, [flat.size]])
            sums = np.concatenate([[0.0], np.cumsum(ordered)])[np.concatenate([[0], ends])]
            counts = np.diff(np.concatenate([[0], ends]))
            book = np.where(counts, np.diff(sums) / np.maximum(counts, 1), book)
            book = np.unique(book)
    codebook = np.unique(book.astype(np.float32))
    middles = (codebook[1:].astype(np.float64) + codebook[:-1]) / 2
    indices = np.searchsorted(middles, flat, side="right").astype(np.int32)
    # u(8): with more entries below zero the levels are no longer centred, which costs bits and nothing else.
    offset = min(int(np.argmin(np.abs(codebook))), 255)
    return indices.reshape(values.shape), codebook, offset


def _scaled(weights: np.ndarray, qp: int, qp_density: int) -> np.ndarray:
    check_qp_density(qp_density)
    values = np.asarray(weights, np.float64)
    _check_finite(values)
    mul, exponent = step_size(qp, qp_density)
    return np.ldexp(values / mul, -exponent)


def _check_finite(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise NnrError("weights with NaN or infinity cannot be quantized; code them as raw_float32")


def _check_range(scaled: np.ndarray, largest: int) -> None:
    if scaled.size and not np.abs(scaled).max() <= largest:
        raise NnrError(
            f"the quantization step is too fine: a level of {np.abs(scaled).max():.4g} exceeds int32"
        )
