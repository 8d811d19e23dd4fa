"""Random graphs of all integer operators."""

from . import control, elementwise, layout, windows
from .graph import DATA, Draw, RandomGraph

GROWTHS = {**windows.GROWTHS, **elementwise.GROWTHS, **layout.GROWTHS, **control.GROWTHS}
"""How to add each operator to a graph."""

_FAMILIES = [sorted(part.GROWTHS) for part in (elementwise, layout, windows)]


def random_graph(draw: Draw, *, wide_shifts: bool = True) -> RandomGraph:
    """A legal graph of about 3 to 12 operators: random shapes, types, constants, inputs and outputs.

    TOSA 1.0 defines what it computes where it has no `wide_shifts`, by more bits than the type has."""
    g = RandomGraph(draw)
    g.wide_shifts = wide_shifts
    g.source(g.sizes(draw(0, 6)), g.pick(DATA))
    most = draw(3, 12)
    while len(g.graph.operators) < most:
        family = g.pick(_FAMILIES) if not g.chance(4) else sorted(control.GROWTHS)
        GROWTHS[g.pick(family)](g)
    g.close()
    g.finish()
    return g
