"""What proves mutants of some modules of the RTL (rtl_unseen.py), as rtl_facts.py lists it."""

import dataclasses

from rtl_unseen import Fact, Loose, Words


@dataclasses.dataclass(frozen=True)
class Known:
    """What proves mutants of some modules."""

    modules: tuple[str, ...]
    loose: tuple[Loose, ...]
    facts: tuple[Fact, ...] = ()
    words: tuple[Words, ...] = ()


def whole(wire: str, bits: int, **fields) -> Loose:
    return Loose(wire, tuple(range(bits)), **fields)


__all__ = ["Known", "whole"]
