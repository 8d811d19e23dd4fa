"""The passes that turn a graph of any TOSA operators into one of operators that layers are made of."""

import dataclasses
from collections.abc import Callable

from tosaic.compiler.ir import Graph
from tosaic.compiler.legalize.agreed_axes import agree_on_axes
from tosaic.compiler.legalize.bias_terms import add_to_biases
from tosaic.compiler.legalize.byte_sums import sum_rows_on_array
from tosaic.compiler.legalize.cheaper_pool import cheaper_pools
from tosaic.compiler.legalize.custom import without_custom
from tosaic.compiler.legalize.decompose import decompose
from tosaic.compiler.legalize.few_rows import turn_few_rows
from tosaic.compiler.legalize.folded_pads import fold_pads
from tosaic.compiler.legalize.integers import require_lanes
from tosaic.compiler.legalize.interleaved_planes import interleave_planes
from tosaic.compiler.legalize.interpolated import interpolate_by_convolutions
from tosaic.compiler.legalize.joined_transposes import join_transposes
from tosaic.compiler.legalize.narrow_constants import narrow_constants
from tosaic.compiler.legalize.normalise import normalise
from tosaic.compiler.legalize.oversize import split_oversize
from tosaic.compiler.legalize.parted_channels import part_convolutions
from tosaic.compiler.legalize.parted_concats import part_concats
from tosaic.compiler.legalize.picked_operands import pick_operands
from tosaic.compiler.legalize.port_orders import order_ports
from tosaic.compiler.legalize.short_rows import turn_short_rows
from tosaic.compiler.legalize.sunk_transposes import sink_transposes
from tosaic.compiler.legalize.tabulated import tabulate
from tosaic.compiler.legalize.verify import verify
from tosaic.compiler.legalize.widened import widen_at_readers
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class Pass:
    """A rewrite of a graph: the same outputs, the argument unchanged."""

    name: str
    run: Callable[[Graph, Config], Graph]
    optional: bool = False
    """The graph runs without it, too, and shows more of the model's tensors."""
    turns_ports: bool = False
    """Inputs and outputs may have other axes behind it, as `Graph.orders` tells: a whole program's only."""


def _of_concats(run: Callable[[Graph], Graph]) -> Callable[[Graph, Config], Graph]:
    """A rewrite that leaves a graph without CONCATs as it is."""
    return lambda graph, config: run(graph) if any(op.op == "CONCAT" for op in graph.operators) else graph


PASSES = (
    Pass("fold constants, sink reshapes", lambda graph, config: normalise(graph)),
    Pass(
        "interpolate by convolutions",
        lambda graph, config: interpolate_by_convolutions(graph),
        optional=True,
    ),
    Pass("pick from what is put together", _of_concats(pick_operands), optional=True),
    Pass("add constants to biases", lambda graph, config: add_to_biases(graph), optional=True),
    Pass(
        "work in the order of axes that turns least",
        lambda graph, config: agree_on_axes(graph),
        optional=True,
    ),
    Pass("pad in convolutions", lambda graph, config: fold_pads(graph), optional=True),
    Pass("turn once what is turned twice", lambda graph, config: join_transposes(graph), optional=True),
    Pass("multiply few rows by matrices as they are", turn_few_rows),
    Pass("turn tensors where they are smallest", lambda graph, config: sink_transposes(graph), optional=True),
    Pass(
        "lay inputs and outputs out as they are read and made",
        lambda graph, config: order_ports(graph),
        optional=True,
        turns_ports=True,
    ),
    Pass("turn rows of a few elements", turn_short_rows, optional=True),
    Pass("look chains of tables up at once", lambda graph, config: tabulate(graph), optional=True),
    Pass(
        "add constants of few values as bytes", lambda graph, config: narrow_constants(graph), optional=True
    ),
    Pass("convolve by parts of channels", part_convolutions, optional=True),
    Pass("put together behind what reads parts", _of_concats(part_concats), optional=True),
    Pass("decompose operators that the machine has not", lambda graph, config: decompose(graph)),
    Pass("turn images of planes on the array", interleave_planes, optional=True),
    Pass("pool where it takes the fewest cycles", cheaper_pools, optional=True),
    Pass("sum rows of bytes on the array", sum_rows_on_array, optional=True),
    Pass("split what exceeds the memory", lambda graph, config: split_oversize(graph, config)),
    Pass("widen bytes where they are read", lambda graph, config: widen_at_readers(graph), optional=True),
    Pass("fold what these left", lambda graph, config: normalise(graph, again=True)),
)


def legalize(
    graph: Graph,
    config: Config,
    on_pass: Callable[[str, Graph], None] | None = None,
    *,
    optimize: bool = True,
    turn_ports: bool = False,
) -> Graph:
    """Puts traced kernels in the place of CUSTOM, then runs all passes (without `optimize` only those that are needed),
    and verifies the graph after each one; `on_pass` is told its name and the graph. `turn_ports`: inputs and
    outputs may get other axes (`Graph.orders`). Graphs that its control flow runs are left for later: what they can
    become depends on the place they are run from. UnsupportedError for integers wider than the configuration's
    lanes."""
    graph, verified = without_custom(graph), False
    for step in PASSES:
        if step.optional and not optimize or step.turns_ports and not turn_ports:
            continue
        before, graph = graph, step.run(graph, config)
        verify(graph, after=step.name, before=before if verified else None)
        verified = True
        if on_pass is not None:
            on_pass(step.name, graph)
    require_lanes(graph, config)
    return graph
