"""The layers of a network, and what passes from one to the next."""

import dataclasses

from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.ir import Graph
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.views import FoldedCopies
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class Network:
    """A legalized graph in layers, as one core would run it."""

    graph: Graph
    tensors: Tensors
    layers: list[Layer]
    operators: list[frozenset[int]]
    """Numbers of the operators of each layer."""
    free: frozenset[int]
    """Numbers of the operators that need no layer. A share has those that it needs."""
    last_reader: dict[str, int]
    """The last layer that reads each result of a layer, or the number of layers for a result of the network."""

    def results(self, first: int, last: int) -> list[str]:
        """What layers [first, last) leave for those behind them."""
        made = [layer.output for layer in self.layers[first:last]]
        return [name for name in made if self.last_reader.get(name, -1) >= last]

    def numbers(self, first: int, last: int) -> frozenset[int]:
        """The operators of layers [first, last)."""
        return frozenset().union(*self.operators[first:last])


def network_of(graph: Graph, config: Config) -> Network:
    """The layers of a graph without control flow and states."""
    tensors = Tensors(graph, config)
    renaming = {number for number, op in enumerate(graph.operators) if KIND.get(op.op) is Kind.RENAMING}
    free = frozenset(renaming | FoldedCopies(tensors, {}).folded)
    layers = Fuser(graph, config).layers(set(free))
    numbers = {id(operator): number for number, operator in enumerate(graph.operators)}
    operators = [frozenset(numbers[id(operator)] for operator in layer.operators) for layer in layers]
    roots = _roots(graph, free)
    last: dict[str, int] = {}
    for index, members in enumerate(operators):
        for number in members:
            for name in graph.operators[number].inputs:
                for root in roots.get(name, (name,)):
                    last[root] = index
    for name in graph.outputs:
        for root in roots.get(name, (name,)):
            last[root] = len(layers)
    return Network(graph, tensors, layers, operators, free, last)


def _roots(graph: Graph, free: frozenset[int]) -> dict[str, tuple[str, ...]]:
    """Results of free operators -> the tensors that they are made from."""
    roots: dict[str, tuple[str, ...]] = {}
    for number, operator in enumerate(graph.operators):
        if number in free:
            found = [root for name in operator.inputs for root in roots.get(name, (name,))]
            computed = dict.fromkeys(name for name in found if graph.tensors[name].data is None)
            roots |= {name: tuple(computed) for name in operator.outputs}
    return roots
