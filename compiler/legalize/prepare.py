"""From a graph of any TOSA operators to one of operators that layers are made of."""

from tosaic.compiler.ir import Graph
from tosaic.compiler.legalize.decompose import decompose
from tosaic.compiler.legalize.normalise import normalise
from tosaic.compiler.legalize.oversize import split_oversize
from tosaic.hw.config import Config


def prepare(graph: Graph, config: Config, *, fused: bool = False) -> Graph:
    """A graph with the same outputs; the argument is unchanged. Graphs that its control flow runs are left for later:
    what they can become depends on the place they are run from. With `fused`, operators may stay that only fit as part
    of a layer."""
    return normalise(split_oversize(decompose(normalise(graph)), config, fused=fused))
