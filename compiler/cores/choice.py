"""Which layers form a segment, and how its results are cut: the choices with the fewest predicted cycles."""

import dataclasses
import math
from collections.abc import Hashable

from tosaic.compiler.cores.grids import Grid, grids
from tosaic.compiler.cores.share import Share
from tosaic.compiler.cores.share_plan import SharePlanner, any_addresses
from tosaic.compiler.cost.transfers import segment_border_cycles
from tosaic.compiler.cut.boxes import NotCut
from tosaic.compiler.ir import Graph
from tosaic.compiler.machine_numbers import SEGMENT_CONSTANT_ELEMENTS, SEGMENT_MOST_LAYERS
from tosaic.compiler.place.external import ExternalMemory
from tosaic.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class Segment:
    """Layers [first, last), the results of which are cut by a grid."""

    first: int
    last: int
    grid: Grid
    cycles: int
    """Predicted cycles."""


class Chooser:
    """Chooses the segments of a network for `cores` cores."""

    def __init__(self, planner: SharePlanner, cores: int):
        self.planner, self.cores = planner, cores
        self._addresses = any_addresses(planner.network)
        self._known: dict[Hashable, int | None] = {}
        """Predicted cycles of shares, which come again in other segments."""
        self._refused: set[tuple[int, int, Grid]] = set()

    def segments(self) -> list[Segment]:
        """The segments that together take the fewest predicted cycles, in order."""
        count = len(self.planner.network.layers)
        best: list[tuple[int, Segment | None]] = [(0, None)] * (count + 1)
        for first in reversed(range(count)):
            found: tuple[int, Segment | None] | None = None
            for last in range(first + 1, min(first + SEGMENT_MOST_LAYERS, count) + 1):
                rest = self.border_cycles + best[last][0]
                for grid in grids(self.cores):
                    most = math.inf if found is None else found[0] - rest
                    segment = self.segment(first, last, grid, most)
                    if segment is not None and segment.cycles < most:
                        found = (segment.cycles + rest, segment)
            if found is None:
                raise UnsupportedError(f"layer {first} of the network does not fit a core")
            best[first] = found
        chosen, first = [], 0
        while first < count:
            segment = best[first][1]
            assert segment is not None
            chosen.append(segment)
            first = segment.last
        return chosen

    def refuse(self, segment: Segment) -> None:
        """The segment is chosen no more: a share of it has no plan at its addresses, though the heaviest had one."""
        self._refused.add((segment.first, segment.last, segment.grid))

    @property
    def border_cycles(self) -> int:
        return segment_border_cycles(self.planner.choices.speed)

    def segment(self, first: int, last: int, grid: Grid, most: float = math.inf) -> Segment | None:
        """Layers [first, last) cut by a grid, with the cycles of the core that has most to do. None where they cannot
        be cut so, or surely take more than `most` cycles."""
        planner, config = self.planner, self.planner.choices.config
        if (first, last, grid) in self._refused:
            return None
        shares = planner.shares(first, last, grid)
        if isinstance(shares, NotCut) or len(shares) < min(2, grid.cores):
            return None
        heaviest = max(shares.values(), key=lambda share: multiplications(share.graph))
        if multiplications(heaviest.graph) > most * config.rows * config.columns:
            return None
        key = (grid.cores, _signature(heaviest.graph))
        if key not in self._known:
            self._known[key] = self._planned(heaviest, grid)
        cycles = self._known[key]
        return None if cycles is None else Segment(first, last, grid, cycles)

    def _planned(self, share: Share, grid: Grid) -> int | None:
        choices = self.planner.choices
        speed = choices.speed.shared(choices.config, grid.cores)
        choices = dataclasses.replace(choices, speed=speed, coder=None)
        try:
            return self.planner.plan(share, ExternalMemory(), self._addresses, choices).cycles
        except UnsupportedError:
            return None


def multiplications(graph: Graph) -> int:
    """About as many as the array has to do, and one for each element of other results."""
    total = 0
    for operator in graph.operators:
        size = math.prod(graph.tensors[operator.outputs[0]].shape)
        if operator.op == "CONV2D":
            size *= math.prod(graph.tensors[operator.inputs[1]].shape[1:])
        total += size
    return total


def _signature(graph: Graph) -> Hashable:
    """Equal for graphs that take the same cycles: all but names and the values of large constants."""
    numbers: dict[str, int] = {}

    def seen(name: str) -> Hashable:
        tensor, number = graph.tensors[name], numbers.setdefault(name, len(numbers))
        small = tensor.data is not None and tensor.data.size <= SEGMENT_CONSTANT_ELEMENTS
        values = tensor.data.tobytes() if small and tensor.data is not None else tensor.data is None
        return number, tuple(tensor.shape), tensor.dtype, values

    operators = tuple(
        (
            operator.op,
            str(sorted(operator.attributes.items(), key=lambda item: item[0])),
            tuple(map(seen, operator.inputs)),
            tuple(map(seen, operator.outputs)),
        )
        for operator in graph.operators
    )
    return operators, tuple(map(seen, graph.inputs)), tuple(map(seen, graph.outputs))
