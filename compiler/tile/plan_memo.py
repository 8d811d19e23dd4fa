"""What the plans of one graph have in common, so that it is found once."""

import dataclasses
from collections.abc import Hashable, Set

from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.ir import Graph
from tosaic.compiler.tile.image_boxes import Extent
from tosaic.hw.config import Config


@dataclasses.dataclass
class PlanMemo:
    """The layers of graphs, and the boxes of layers by their content. It belongs to one task and goes with it: the
    configuration, the speed of memory and the graphs are the same for all who ask."""

    boxes: dict[Hashable, Extent] = dataclasses.field(default_factory=dict)
    """Boxes by all that chooses them: two layers that differ in names, weights and scales only have the same."""
    _layers: dict[tuple[int, bool, frozenset[int]], tuple[Graph, list[Layer]]] = dataclasses.field(
        default_factory=dict
    )

    def layers(self, graph: Graph, config: Config, skip: Set[int], *, fuse: bool) -> list[Layer]:
        """The layers of a graph that nobody changes any more; `skip` as of `Fuser.layers`."""
        key = (id(graph), fuse, frozenset(skip))
        if key not in self._layers:
            self._layers[key] = graph, Fuser(graph, config, fuse=fuse).layers(set(skip))
        return self._layers[key][1]
