"""The product's random graphs, and hypothesis' strategy of them."""

from hypothesis import strategies as st

from tosaic.driver.judge.random_graphs import GROWTHS, RandomGraph, random_graph

__all__ = ["GROWTHS", "random_graph", "random_graphs"]


@st.composite
def random_graphs(draw: st.DrawFn) -> RandomGraph:
    """`random_graph` for hypothesis, which finds small failing graphs."""
    return random_graph(lambda low, high: draw(st.integers(low, high)))
