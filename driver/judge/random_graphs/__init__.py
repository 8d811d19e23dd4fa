"""Random legal integer graphs: a `RandomGraph` grows by the functions of `GROWTHS`, one for each operator.

May import the IR only; what judges (the judge, tests, campaigns) imports this.
"""

from .graph import Draw, RandomGraph
from .growth import GROWTHS, random_graph

__all__ = ["GROWTHS", "Draw", "RandomGraph", "random_graph"]
