"""The largest size whose buffers fit."""

from collections.abc import Callable

from tosaic.compiler.place.arena import Arena
from tosaic.compiler.place.buffers import Sizes, try_buffers


def largest_fit(
    arena: Arena, most_steps: int, whole: int, step: int, sizes_of: Callable[[int], Sizes]
) -> int | None:
    """The largest multiple of `step`, at most `most_steps` of them, whose buffers fit twice, or at least once.

    Once is enough for a size that is the `whole`. None where not even one step fits."""
    low, high, best = 1, most_steps, None
    while low <= high:
        middle = (low + high) // 2
        fits = try_buffers(arena, sizes_of(middle * step))
        if fits is None:
            high = middle - 1
            continue
        doubled = middle * step >= whole or fits
        if doubled or best is None or middle == 1:
            best = middle
        if doubled:
            low = middle + 1
        else:
            high = middle - 1
    return None if best is None else best * step
