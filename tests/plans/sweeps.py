"""What the sweeps share: graphs by a size, each for machines, some sizes in one test."""

from collections.abc import Callable, Mapping

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import Graph

Make = Callable[[LayerBuilder, int], str | Graph]
"""Gives the tensor that goes out of what it builds, or a graph of its own."""


def swept(
    makes: Mapping[Make, tuple[str, ...]], sizes: range, together: int
) -> Callable[[Callable], Callable]:
    """Of a test of (make, machine, first): it looks at the sizes from `first` on, `together` of them."""
    cases = [
        pytest.param(make, machine, id=f"{make.__name__.strip('_')}-{machine}")
        for make, machines in makes.items()
        for machine in machines
    ]

    def mark(test: Callable) -> Callable:
        marked = pytest.mark.parametrize("make, machine", cases)(test)
        return pytest.mark.parametrize("first", range(sizes.start, sizes.stop, together))(marked)

    return mark


def graph_of(make: Make, size: int) -> Graph:
    build = LayerBuilder(size)
    made = make(build, size)
    if isinstance(made, Graph):
        return made
    build.output(made)
    return build.finish()
