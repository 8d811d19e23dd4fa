"""Operators that need more on-chip memory than a configuration has, as graphs of smaller ones with the same results."""

from collections.abc import Callable

from tosaic.compiler.ir import Graph
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.split_kernel import split_kernel
from tosaic.compiler.legalize.split_matmul import split_matmul
from tosaic.compiler.legalize.split_pool import split_pool
from tosaic.compiler.legalize.split_reduction import split_reduction
from tosaic.compiler.machine import Kind, operators_of
from tosaic.hw.config import Config

_RULES: dict[str, Callable[[Rewriting, Config], bool]] = {
    "CONV2D": split_kernel,
    "DEPTHWISE_CONV2D": split_kernel,
    "MATMUL": split_matmul,
    "AVG_POOL2D": split_pool,
    "MAX_POOL2D": split_pool,
    **dict.fromkeys(operators_of(Kind.REDUCTION, Kind.ARGMAX), split_reduction),
}


def split_oversize(graph: Graph, config: Config) -> Graph:
    """A graph with the same outputs; operators that fit stay as they are. The argument is unchanged."""
    graph, rewritten = graph.copy(), True
    while rewritten:
        # What an operator became is looked at when it is in the graph: a rule may ask for its readers.
        rewritten, operators = False, []
        for operator in graph.operators:
            rewriting = Rewriting(graph, operator)
            rule = _RULES.get(operator.op)
            found = rule is not None and rule(rewriting, config)
            operators += rewriting.operators if found else [operator]
            rewritten = rewritten or found
        graph.operators = operators
    return graph
