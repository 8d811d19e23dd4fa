"""Predicts what a plan costs, from what its layers compute and transfer.

Good enough to compare plans of one graph: it leaves out latencies, and what the units of neighbouring layers wait for
each other. The emulator predicts the cycles of a program."""

import dataclasses
from fractions import Fraction

from tosaic.compiler.machine_numbers import STRIPE_WAIT_CYCLES
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.convolution import box_work
from tosaic.compiler.tile.elementwise import ElementwisePlan
from tosaic.compiler.tile.gather_scatter import GatherScatterPlan
from tosaic.compiler.tile.layout_copy import LayoutCopy
from tosaic.compiler.tile.reduction import ReductionPlan
from tosaic.compiler.tile.work import ArrayBody, CascadeWork, GraphPlan, LayerWork, PoolBody
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Bytes between external memory and the machine. Both directions are in use at a time."""

    read: int = 0
    written: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.read + other.read, self.written + other.written)


def predicted_cycles(plan: GraphPlan, config: Config, speed: MemorySpeed) -> int:
    """Cycles of all layers, each one run once."""
    return sum(work_cycles(work, config, speed) for work in plan.walk())


def work_cycles(work: LayerWork | CascadeWork, config: Config, speed: MemorySpeed) -> int:
    """Cycles of a layer or a cascade: the longer of computing and transferring, or their sum where buffers are not
    double."""
    if isinstance(work, CascadeWork):
        return cascade_cycles([stripe.work for stripe in work.stripes], config, speed)
    moved, computing, weights = traffic(work, config), _compute_cycles(work, config), 0
    if isinstance(work.body, ArrayBody):
        weights = _fetched_weights(work.body, config)
    if not all(buffer.doubled for buffer in work.buffers.values()):
        # Weights come while the array computes, whatever else waits.
        computing, weights = max(computing, int(weights // speed.bytes_per_cycle(config))), 0
    return _together([work], computing, moved + Traffic(read=weights), speed.bytes_per_cycle(config))


def computing_cycles(work: LayerWork | CascadeWork, config: Config) -> int:
    """Cycles of a layer or a cascade whose operands are there."""
    if isinstance(work, CascadeWork):
        return sum(_compute_cycles(stripe.work, config) for stripe in work.stripes)
    return _compute_cycles(work, config)


def bus_is_free(plan: GraphPlan, config: Config, speed: MemorySpeed) -> bool:
    """Whether the bus brings all that is read in less time than the layers compute: it can bring more instructions."""
    read, weights = 0, dict[Address, int]()
    for work in plan.walk():
        for part in [stripe.work for stripe in work.stripes] if isinstance(work, CascadeWork) else [work]:
            read += traffic(part, config).read
            if isinstance(part.body, ArrayBody):
                weights[part.body.plan.weights.address] = _fetched_weights(part.body, config)
    computing = sum(computing_cycles(work, config) for work in plan.walk())
    return (read + sum(weights.values())) / speed.bytes_per_cycle(config) < computing


def cascade_cycles(stripes: list[LayerWork], config: Config, speed: MemorySpeed) -> int:
    """Cycles of a cascade's stripes. The weights of all layers come once, or for each stripe if they do not stay."""
    computing = sum(_compute_cycles(stripe, config) for stripe in stripes) + STRIPE_WAIT_CYCLES * len(stripes)
    moved = sum((traffic(stripe, config) for stripe in stripes), Traffic())
    weights = {
        stripe.body.plan.weights.address: stripe.body.plan.layout.bytes
        for stripe in stripes
        if isinstance(stripe.body, ArrayBody)
    }
    if sum(weights.values()) > config.wm_bytes:
        moved += Traffic(
            read=sum(
                weights[stripe.body.plan.weights.address]
                for stripe in stripes
                if isinstance(stripe.body, ArrayBody)
            )
        )
    else:
        moved += Traffic(read=sum(weights.values()))
    return _together(stripes, computing, moved, speed.bytes_per_cycle(config))


def _together(works: list[LayerWork], computing: int, moved: Traffic, bytes_per_cycle: Fraction) -> int:
    transferring = max(moved.read, moved.written) // bytes_per_cycle
    buffers = {key: buffer for work in works for key, buffer in work.buffers.items()}
    if not all(buffer.doubled for buffer in buffers.values()):
        return computing + transferring
    # Nothing computes while the first box comes and the last one leaves.
    ends = sum(buffer.size_bytes for buffer in buffers.values()) // bytes_per_cycle
    return max(computing, transferring) + ends


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


def _compute_cycles(work: LayerWork, config: Config) -> int:
    body, tensors, layer = work.body, work.tensors, work.layer
    if isinstance(body, ArrayBody):
        window, extent = body.cut.window, body.extent
        whole, rest = divmod(_rows(body), extent.rows)
        columns, turns = min(extent.columns, window.ow), window.n * -(-window.ow // extent.columns)
        return turns * sum(
            count * box_work(body.plan, config, rows, columns).array_cycles
            for count, rows in ((whole, extent.rows), (1, rest))
            if rows
        )
    elements, beats = tensors.elements(layer.output), layer.program.beats(tensors.element(layer.output))
    if isinstance(body, PoolBody):
        window = body.cut.window
        return elements * _rows(body) // window.oh * window.kh * window.kw * beats // config.columns
    if isinstance(body, ReductionPlan | ElementwisePlan):
        return body.cycles
    return elements


def traffic(work: LayerWork, config: Config) -> Traffic:
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
    if isinstance(body, LayoutCopy | GatherScatterPlan):
        outside = [
            (name, place.bytes)
            for name, place in work.placements.items()
            if place.address.region is not Region.ACTIVATION
        ]
        written += sum(size for name, size in outside if name == work.output)
        read += sum(size for name, size in outside if name != work.output)
    return Traffic(read, written)
