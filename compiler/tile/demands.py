"""What the layers of a plan ask of the units, and what they are predicted to cost (`compiler/cost/layers.py`)."""

from collections.abc import Hashable, Iterator
from fractions import Fraction

from tosaic.compiler.cost.layers import (
    BufferDemand,
    Demand,
    Traffic,
    Weights,
    cascade_cycles,
    is_bus_free,
    layer_cycles,
)
from tosaic.compiler.cost.vector import window_cycles
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.address import Region
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.convolution import box_work
from tosaic.compiler.tile.elementwise import ElementwisePlan
from tosaic.compiler.tile.gather_scatter import GatherScatterPlan
from tosaic.compiler.tile.layout_copy import LayoutCopy
from tosaic.compiler.tile.reduction import ReductionPlan
from tosaic.compiler.tile.row_search import RowSearchPlan
from tosaic.compiler.tile.work import ArrayBody, CascadeWork, GraphPlan, LayerWork, PoolBody
from tosaic.hw.config import Config


def predicted_cycles(plan: GraphPlan, config: Config, speed: MemorySpeed) -> int:
    """Cycles of all layers, each one run once."""
    return sum(work_cycles(work, config, speed) for work in plan.walk())


def work_cycles(work: LayerWork | CascadeWork, config: Config, speed: MemorySpeed) -> int:
    """Cycles of a layer or a cascade."""
    if isinstance(work, CascadeWork):
        return cascade_cycles([*demands_of(work, config)], config, speed)
    return layer_cycles(demand_of(work, config), config, speed)


def computing_cycles(work: LayerWork | CascadeWork, config: Config) -> int:
    """Cycles of a layer or a cascade whose operands are there."""
    return sum(demand.computing_cycles for demand in demands_of(work, config))


def bus_is_free(plan: GraphPlan, config: Config, speed: MemorySpeed) -> bool:
    """Whether the bus brings all that is read in less time than the layers compute: it can bring more instructions."""
    demands = (demand for work in plan.walk() for demand in demands_of(work, config))
    return is_bus_free(demands, config, speed)


def weights_ahead(plan: GraphPlan, config: Config, speed: MemorySpeed) -> frozenset[Hashable]:
    """Names of the weights that the bus brings, behind all that it brings before, in less time than their layers, and
    those before, take to compute."""
    rate, found = speed.bytes_per_cycle(config), dict[Hashable, bool]()
    brought, computed = Fraction(0), Fraction(0)
    for work in plan.walk():
        for demand in demands_of(work, config):
            weights, computing = demand.weights, demand.computing_cycles
            brought += demand.moved.read / rate
            there = max(computed, brought) + computing
            if weights is not None and weights.name not in found:
                brought += weights.fetched_bytes / rate
                ahead = found[weights.name] = brought <= computed + computing
                # The array follows weights that do not come ahead.
                there = max(computed, brought) + computing if ahead else max(there, brought)
            computed = there
    return frozenset(name for name, ahead in found.items() if ahead)


def demands_of(work: LayerWork | CascadeWork, config: Config) -> Iterator[Demand]:
    """Yields that of a layer, or those of a cascade's stripes."""
    for each in [stripe.work for stripe in work.stripes] if isinstance(work, CascadeWork) else [work]:
        yield demand_of(each, config)


def demand_of(work: LayerWork, config: Config) -> Demand:
    """Returns that of a layer, or of a stripe of one."""
    weights, body = None, work.body
    if isinstance(body, ArrayBody):
        plan = body.plan
        weights = Weights(plan.weights.address, plan.layout.bytes, _fetched_weights(body, config))
    buffers: dict[Hashable, BufferDemand] = {
        key: BufferDemand(buffer.size_bytes, buffer.doubled) for key, buffer in work.buffers.items()
    }
    return Demand(_computing(work, config), traffic(work), buffers, weights)


def _rows(body: ArrayBody | PoolBody) -> int:
    """Output rows that the boxes cover."""
    first, last = body.cut.rows or (0, body.cut.window.oh)
    return last - first


def _boxes(body: ArrayBody | PoolBody) -> int:
    window, extent = body.cut.window, body.extent
    rows, columns = -(-_rows(body) // extent.rows), -(-window.ow // extent.columns)
    return window.n * rows * columns * -(-body.cut.channels // extent.channels)


def _fetched_weights(body: ArrayBody, config: Config) -> int:
    """Bytes of weights that come. Those of a box's channels stay for the next box, or come again."""
    size, groups = body.plan.layout.bytes, -(-body.cut.channels // body.extent.channels)
    return size * (_boxes(body) // groups if size > groups * config.wm_bytes else 1)


def _computing(work: LayerWork, config: Config) -> int:
    body, tensors, layer = work.body, work.tensors, work.layer
    elements, beats = tensors.elements(layer.output), layer.program.beats(tensors.element(layer.output))
    if isinstance(body, ArrayBody):
        window, extent = body.cut.window, body.extent
        beats = layer.drain_beats(tensors.element(layer.output), window.oh * window.ow, config)
        whole, rest = divmod(_rows(body), extent.rows)
        columns, turns = min(extent.columns, window.ow), window.n * -(-window.ow // extent.columns)
        boxes = [(count, rows) for count, rows in ((whole, extent.rows), (1, rest)) if rows]
        found = [(count, rows * columns, box_work(body.plan, config, rows, columns)) for count, rows in boxes]
        return turns * sum(
            count * max(box.array_cycles, box.tiles * pixels * beats) for count, pixels, box in found
        )
    if isinstance(body, PoolBody):
        window = body.cut.window
        return window_cycles(elements * _rows(body) // window.oh, window.kh * window.kw, beats, config)
    if isinstance(body, ReductionPlan | ElementwisePlan | RowSearchPlan | LayoutCopy):
        return body.cycles
    return elements


def traffic(work: LayerWork) -> Traffic:
    """Bytes that a layer, or a stripe of one, transfers, but for its weights."""
    body = work.body
    boxes, share = 1, 1.0
    if isinstance(body, ArrayBody | PoolBody):
        boxes, share = _boxes(body), _rows(body) / body.cut.window.oh
    read = sum(copy.size_bytes for copy in work.preloads)
    read += sum(arrival.source.bytes for arrival in work.arrivals.values())
    written = work.result.size_bytes - work.result.first_byte if work.result is not None else 0
    written += sum(copy.size_bytes for copy in work.saved)
    for key, buffer in work.buffers.items():
        if key.role in (Role.WINDOW, Role.PARAMETERS):
            read += boxes * buffer.size_bytes
        elif key.role is Role.RESULT:
            written += int(share * work.placements[key.tensor].bytes)
        elif key.role is not Role.PARTIALS:
            read += int(share * work.placements[key.tensor].bytes)
    if isinstance(body, RowSearchPlan) and body.rows is not None:
        written += body.output.bytes
    if isinstance(body, LayoutCopy | GatherScatterPlan):
        outside = [
            (name, place.bytes)
            for name, place in work.placements.items()
            if place.address.region is not Region.ACTIVATION
        ]
        written += sum(size for name, size in outside if name == work.output)
        read += sum(size for name, size in outside if name != work.output)
    return Traffic(read, written)
