"""Which tests of a suite are run."""

import random

from tosaic.errors import InputError

from .case import ConformanceCase


def choose(
    cases: list[ConformanceCase], operators: list[str], sample: int | None, seed: int
) -> list[ConformanceCase]:
    """The tests of some operators (all, when the list is empty), or a sample of them; in the suite's order.

    A sample takes the same number of tests from every operator, or all where an operator has fewer, and within an
    operator from every mode and kind of error; the seed decides which. InputError for an operator that the suite does
    not test.
    """
    known = sorted({case.operator for case in cases})
    for name in operators:
        if name.upper() not in known:
            raise InputError(f"the suite has no test of {name!r}; it tests {', '.join(known)}")
    wanted = {name.upper() for name in operators} or set(known)
    chosen = [case for case in cases if case.operator in wanted]
    if sample is None or sample >= len(chosen):
        return chosen
    generator = random.Random(seed)
    piles = [_pile(chosen, name, generator) for name in sorted(wanted)]
    taken: set[int] = set()
    while len(taken) < sample:
        # Largest piles last in a round, so that a short last round favours the rare operators.
        for pile in sorted(piles, key=len):
            if pile and len(taken) < sample:
                taken.add(pile.pop())
    return [case for index, case in enumerate(chosen) if index in taken]


def _pile(cases: list[ConformanceCase], operator: str, generator: random.Random) -> list[int]:
    """Indices of an operator's tests, to be taken from the end: its modes take turns, legal graphs first."""
    modes: dict[tuple[bool, str], list[int]] = {}
    for index, case in enumerate(cases):
        if case.operator == operator:
            modes.setdefault((case.negative, case.mode), []).append(index)
    rounds: list[tuple[int, bool, float, int]] = []
    for key in sorted(modes):
        generator.shuffle(modes[key])
        rounds += [(turn, key[0], generator.random(), index) for turn, index in enumerate(modes[key])]
    return [index for *_, index in sorted(rounds, reverse=True)]
