"""Terms in place of integers: what a graph and a program compute, for all inputs at once.

A term is the value of a polynomial in independent random values, at a random point of a field. `TermEvaluation` reads a
TOSA graph from the specification's text; `TermsDomain` lets the emulator execute a program. It may import the IR and
the emulator, and nothing of the compiler or of golden.
"""

from . import operators as _operators
from . import windows as _windows
from .algebra import Algebra, Options
from .axioms import AXIOMS, LEMMAS, UndecidedError, UnknownConditionError
from .domain import TermsDomain
from .graph import READERS, Loop, TermEvaluation, evaluate, inputs_of, range_of
from .noted import PathFacts, name_of
from .values import Terms, select

__all__ = [
    "AXIOMS",
    "LEMMAS",
    "Loop",
    "READERS",
    "Algebra",
    "PathFacts",
    "TermEvaluation",
    "Options",
    "Terms",
    "TermsDomain",
    "UndecidedError",
    "UnknownConditionError",
    "evaluate",
    "inputs_of",
    "name_of",
    "range_of",
    "select",
]
del _operators, _windows
