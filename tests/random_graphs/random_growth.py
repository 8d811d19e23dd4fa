"""Random graphs of all integer operators."""

import random_control
import random_elementwise
import random_layout
import random_windows
from hypothesis import strategies as st
from random_graph import DATA, Draw, RandomGraph

GROWTHS = {
    **random_windows.GROWTHS,
    **random_elementwise.GROWTHS,
    **random_layout.GROWTHS,
    **random_control.GROWTHS,
}
"""How to add each operator to a graph."""

_FAMILIES = [sorted(part.GROWTHS) for part in (random_elementwise, random_layout, random_windows)]


def random_graph(draw: Draw) -> RandomGraph:
    """A legal graph of about 3 to 12 operators: random shapes, types, constants, inputs and outputs."""
    g = RandomGraph(draw)
    g.source(g.sizes(draw(0, 6)), g.pick(DATA))
    most = draw(3, 12)
    while len(g.graph.operators) < most:
        family = g.pick(_FAMILIES) if not g.chance(4) else sorted(random_control.GROWTHS)
        GROWTHS[g.pick(family)](g)
    g.close()
    g.finish()
    return g


@st.composite
def random_graphs(draw: st.DrawFn) -> RandomGraph:
    """`random_graph` for hypothesis, which finds small failing graphs."""
    return random_graph(lambda low, high: draw(st.integers(low, high)))
