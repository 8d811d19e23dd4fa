"""Predicts what a plan costs, from what its layers compute and transfer.

Good enough to compare plans of one graph: it leaves out latencies, and what the units of neighbouring layers wait for
each other. The emulator predicts the cycles of a program."""

from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.address import Region
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.convolution import box_work
from tosaic.compiler.tile.elementwise import ElementwisePlan
from tosaic.compiler.tile.gather_scatter import GatherScatterPlan
from tosaic.compiler.tile.layout_copy import LayoutCopy
from tosaic.compiler.tile.reduction import ReductionPlan
from tosaic.compiler.tile.work import ArrayBody, GraphPlan, LayerWork, PoolBody
from tosaic.hw.config import Config


def predicted_cycles(plan: GraphPlan, config: Config, speed: MemorySpeed) -> int:
    """Cycles of all layers, each one run once: of a layer the longer of computing and transferring, or their sum where
    its buffers are not double."""
    total, bytes_per_cycle = 0, speed.bytes_per_cycle(config)
    for work in plan.walk():
        computing, transferring = _compute_cycles(work, config), _bus_bytes(work, config) // bytes_per_cycle
        if all(buffer.doubled for buffer in work.buffers.values()):
            total += max(computing, transferring)
        else:
            total += computing + transferring
    return total


def _boxes(body: ArrayBody | PoolBody) -> int:
    window, extent = body.cut.window, body.extent
    rows, columns = -(-window.oh // extent.rows), -(-window.ow // extent.columns)
    return window.n * rows * columns * -(-body.cut.channels // extent.channels)


def _compute_cycles(work: LayerWork, config: Config) -> int:
    body, tensors, layer = work.body, work.tensors, work.layer
    if isinstance(body, ArrayBody):
        window, extent = body.cut.window, body.extent
        whole, rest = divmod(window.oh, extent.rows)
        columns, turns = min(extent.columns, window.ow), window.n * -(-window.ow // extent.columns)
        return turns * sum(
            count * box_work(body.plan, config, rows, columns).array_cycles
            for count, rows in ((whole, extent.rows), (1, rest))
            if rows
        )
    elements, beats = tensors.elements(layer.output), layer.program.beats(tensors.element(layer.output))
    if isinstance(body, PoolBody):
        return elements * body.cut.window.kh * body.cut.window.kw * beats // config.columns
    if isinstance(body, ReductionPlan):
        return body.cycles
    if isinstance(body, ElementwisePlan):
        return elements * beats // config.columns
    return elements


def _bus_bytes(work: LayerWork, config: Config) -> int:
    """Bytes between external memory and the machine."""
    body = work.body
    moved = sum(copy.size_bytes for copy in work.preloads)
    moved += work.result.size_bytes if work.result is not None else 0
    moved += sum(arrival.source.bytes for arrival in work.arrivals.values())
    boxes = _boxes(body) if isinstance(body, ArrayBody | PoolBody) else 1
    for key, buffer in work.buffers.items():
        if key.role in (Role.WINDOW, Role.PARAMETERS):
            moved += boxes * buffer.size_bytes
        elif key.role is not Role.PARTIALS:
            moved += work.placements[key.tensor].bytes
    if isinstance(body, ArrayBody):
        layout = body.plan.layout
        moved += layout.bytes * (boxes if layout.bytes > config.wm_bytes else 1)
    if isinstance(body, LayoutCopy | GatherScatterPlan):
        moved += sum(
            place.bytes for place in work.placements.values() if place.address.region is not Region.ACTIVATION
        )
    return moved
