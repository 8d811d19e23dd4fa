"""What the tile stage hands to the emit stage: for every layer one value that says where everything is and in which
pieces the layer runs. Nothing here changes any more."""

import dataclasses
import typing

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.ir import Operator
from tosaic.compiler.place.address import Address
from tosaic.compiler.place.buffers import Buffers
from tosaic.compiler.place.placement import Arrival, Copy, Placement, Sent
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.program import LayerInfo
from tosaic.compiler.tile.convolution import ConvolutionPlan
from tosaic.compiler.tile.elementwise import ElementwisePlan
from tosaic.compiler.tile.gather_scatter import GatherScatterPlan
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.compiler.tile.layout_copy import LayoutCopy
from tosaic.compiler.tile.reduction import ReductionPlan
from tosaic.compiler.tile.row_search import RowSearchPlan


@dataclasses.dataclass(frozen=True)
class LayerParameters:
    """A layer's biases, multipliers and shifts."""

    tile_bytes: int
    """Bytes for a tile of channels; 0: there are none."""
    bias_bytes: int
    """Bytes of one bias; 0: there are none."""
    scale: bool
    address: int = 0
    """Activation-memory address of those of tile 0, when all are there."""
    source: Address | None = None
    """Where they lie in external memory, when they are brought in for some neighbouring tiles at a time."""


@dataclasses.dataclass(frozen=True)
class TablePlace:
    """A table of the vector unit in activation memory."""

    address: int
    entries: int


@dataclasses.dataclass(frozen=True)
class ArrayBody:
    """A layer on the array, box by box."""

    plan: ConvolutionPlan
    cut: ImageBoxes
    extent: Extent
    in_blocks: bool
    """One command does many output channels."""


@dataclasses.dataclass(frozen=True)
class PoolBody:
    """A pool, box by box."""

    cut: ImageBoxes
    extent: Extent


Moved = LayoutCopy | GatherScatterPlan | RowSearchPlan
Body = ArrayBody | PoolBody | ElementwisePlan | ReductionPlan | Moved


@dataclasses.dataclass(frozen=True)
class CopyThrough:
    """A tensor, or some bytes of one, to another place: straight where one side is activation memory, else piece by
    piece through a buffer."""

    source: Placement
    target: Address
    buffer: int = 0
    buffer_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class LayerWork:
    """One pass of the machine."""

    tensors: Tensors
    layer: Layer
    body: Body
    placements: dict[str, Placement]
    """Placements of what the layer reads and writes, by storage name."""
    preloads: list[Copy]
    """What is brought in whole before the layer runs."""
    result: Sent | None
    """Sends a resident result to external memory, where the host or a check wants it."""
    buffers: Buffers = dataclasses.field(default_factory=dict)
    arrivals: dict[str, Arrival] = dataclasses.field(default_factory=dict)
    """Images of which the first rows are worked on while the others come, by storage name."""
    params: LayerParameters = LayerParameters(0, 0, False)
    table: TablePlace | None = None
    """None where the layer needs none, or finds the one of an earlier layer in the unit."""
    scales: list[CopyThrough] = dataclasses.field(default_factory=list)
    """Brings multipliers and shifts that are computed at run time to their places among the parameters."""
    lines: dict[int, int] = dataclasses.field(default_factory=dict)
    """Where the layer's lines along the channels are in activation memory, by load stream."""
    saved: list[Copy] = dataclasses.field(default_factory=list)
    """What leaves for external memory when the layer, as a stripe of a cascade, has run."""

    @property
    def output(self) -> str:
        """Storage name of the result."""
        return self.tensors.storage[self.layer.output]


@dataclasses.dataclass(frozen=True)
class Stripe:
    """Some rows of one layer of a cascade."""

    number: int
    """The layer's number."""
    work: LayerWork


@dataclasses.dataclass(frozen=True)
class CascadeWork:
    """Layers that run stripe by stripe of rows: what one hands to the next is never there as a whole."""

    members: list["Step"]
    """The layers, each with the work that its stripes are parts of."""
    stripes: list[Stripe]
    """The stripes in the order in which they run."""


@dataclasses.dataclass(frozen=True)
class FlagTest:
    """The bool that branches go by, and the buffer it comes to where it is not resident."""

    flag: Placement
    buffer: int = 0


@dataclasses.dataclass(frozen=True)
class LoopWork:
    """WHILE_LOOP. What goes round lies at fixed places."""

    operator: Operator
    entry: list[CopyThrough]
    condition: "GraphPlan"
    test: FlagTest
    body: "GraphPlan"
    results: list[Copy]
    """Copies of results that stay in activation memory but are wanted outside."""


@dataclasses.dataclass(frozen=True)
class BranchWork:
    """One graph of a COND_IF, and where its results go."""

    graph: "GraphPlan"
    results: list[CopyThrough]


@dataclasses.dataclass(frozen=True)
class ChoiceWork:
    """The work of COND_IF."""

    operator: Operator
    test: FlagTest
    then: BranchWork
    otherwise: BranchWork


@dataclasses.dataclass(frozen=True)
class Step:
    """A layer at its place in the program. VECTOR_MARK tells `number` when it is complete."""

    number: int
    info: LayerInfo
    root: Operator
    work: LayerWork | CascadeWork | LoopWork | ChoiceWork
    together: bool = False
    """It runs together with the step before: VECTOR works on one while the array computes another."""


@dataclasses.dataclass
class GraphPlan:
    """The steps of one graph, in order."""

    steps: list[Step] = dataclasses.field(default_factory=list)
    hand_over: list[CopyThrough] = dataclasses.field(default_factory=list)
    """What becomes of results at the end: arguments of a loop's next turn, or states that the next run reads."""

    def walk(self) -> typing.Iterator[LayerWork | CascadeWork]:
        """The work of all layers, those of nested graphs too."""
        for step in self.steps:
            match step.work:
                case LayerWork() | CascadeWork():
                    yield step.work
                case LoopWork(condition=condition, body=body):
                    yield from condition.walk()
                    yield from body.walk()
                case ChoiceWork(then=then, otherwise=otherwise):
                    yield from then.graph.walk()
                    yield from otherwise.graph.walk()
