"""What the plans of one graph have in common, so that it is found once."""

import dataclasses
from collections.abc import Hashable

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.ir import Graph
from tosaic.compiler.tile.image_boxes import Tiling
from tosaic.compiler.tile.reduction import ReductionPlan


@dataclasses.dataclass
class PlanMemo:
    """The layers of graphs, and the boxes of layers by their content. It belongs to one task and goes with it: the
    configuration, the speed of memory and the graphs are the same for all who ask."""

    layers: dict[tuple[int, frozenset[int]], tuple[Graph, list[Layer]]] = dataclasses.field(
        default_factory=dict
    )
    """Graphs and their layers, by the identity of a graph that nobody changes any more, and the operators that need no
    layer."""
    boxes: dict[Hashable, tuple[Tiling, float]] = dataclasses.field(default_factory=dict)
    """The boxes and their predicted cycles, by all that chooses them: layers that differ in names, weights and scales
    only have the same."""
    passes: dict[Hashable, ReductionPlan] = dataclasses.field(default_factory=dict)
    """Those of reductions, by all that chooses them."""
