"""CUSTOM operators give way to the TOSA operators that their kernels are traced to."""

from tosaic.compiler.ir import Graph


def without_custom(graph: Graph) -> Graph:
    """The graph itself, if it has no CUSTOM operator; UnsupportedError for one that has no traced kernel."""
    if not any(operator.op == "CUSTOM" for part in graph.walk() for operator in part.operators):
        return graph
    # Only here: few graphs have one.
    from tosaic.compiler.numpy_in.custom import with_traced_kernels

    return with_traced_kernels(graph)
