"""Emits a plan: the layers of a graph one after the other, and branches between the graphs of control flow."""

import math
from collections.abc import Callable, Sequence

from tosaic.compiler.emit.commands import Block, Blocks, Label
from tosaic.compiler.emit.convolution import ConvolutionEmission, FirstUse, WeightPacking
from tosaic.compiler.emit.elementwise import emit_elementwise
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.gather_scatter import GatherScatterEmission
from tosaic.compiler.emit.layer_emission import LayerEmission
from tosaic.compiler.emit.layout_copy import CopyEmission
from tosaic.compiler.emit.nest_go import emit_move
from tosaic.compiler.emit.pool import emit_pool
from tosaic.compiler.emit.reduction import ReductionEmission
from tosaic.compiler.emit.row_search import RowSearchEmission
from tosaic.compiler.emit.weave import Weaver
from tosaic.compiler.place.address import Region
from tosaic.compiler.place.placement import Copy
from tosaic.compiler.place.placer import Memories
from tosaic.compiler.tile.demands import bus_is_free, computing_cycles, weights_ahead, work_cycles
from tosaic.compiler.tile.elementwise import ElementwisePlan
from tosaic.compiler.tile.gather_scatter import GatherScatterPlan
from tosaic.compiler.tile.layout_copy import LayoutCopy
from tosaic.compiler.tile.reduction import ReductionPlan
from tosaic.compiler.tile.row_search import RowSearchPlan
from tosaic.compiler.tile.work import (
    ArrayBody,
    CascadeWork,
    ChoiceWork,
    CopyThrough,
    FlagTest,
    GraphPlan,
    LayerWork,
    LoopWork,
    PoolBody,
    Step,
)
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import Condition, FieldRangeError

OnLayer = Callable[[str, int, int], None]
"""Told (layer, its number, how many there are)."""
TakeWork = Callable[[list[Block]], None]
"""Takes the work of blocks that have more to come."""


class FieldOverflow(UnsupportedError):
    """A layer is so large that a count does not fit its field; with another plan it may."""


def emit(
    plan: GraphPlan,
    config: Config,
    memories: Memories,
    on_layer: OnLayer | None = None,
    take: TakeWork | None = None,
    *,
    costed: bool = False,
) -> Blocks:
    """The plan's work for the units, in blocks; of a large program it can be taken layer by layer, so that not all of
    it is there at once. External memory gets what constants emission adds. `costed`: the work tells what it costs.

    Raises FieldOverflow where a count does not fit its field."""
    emitter, layer_begins = emission_of(plan, config, memories, on_layer, take)
    emitter.costed = costed
    emit_graph(emitter, plan, layer_begins)
    return emitter.blocks


def emission_of(
    plan: GraphPlan, config: Config, memories: Memories, on_layer: OnLayer | None, take: TakeWork | None
) -> tuple[Emitter, OnLayer]:
    """An emitter for a plan, and what is to be called as each of its layers begins."""
    emitter = Emitter(config, memories.external, memories.speed)
    emitter.bus_is_free = bus_is_free(plan, config, memories.speed)
    emitter.weights_ahead = weights_ahead(plan, config, memories.speed)

    def layer_begins(name: str, number: int, count: int) -> None:
        if take is not None:
            take(emitter.blocks.all)
        if on_layer is not None:
            on_layer(name, number, count)

    return emitter, layer_begins


def emit_graph(emitter: Emitter, plan: GraphPlan, on_layer: OnLayer | None = None) -> None:
    """The layers of one graph, behind what is there already."""
    weaver: Weaver | None = None
    for index, step in enumerate(plan.steps):
        if on_layer is not None:
            on_layer(step.info.name, index, len(plan.steps))
        following = plan.steps[index + 1 : index + 2]
        emitter.woven = step.together
        if step.together or any(other.together for other in following):
            emitter.tape = []
        emit_step(emitter, step, following)
        emitter.layer = step.number
        if not isinstance(step.work, CascadeWork):
            emitter.mark(step.number)
        if emitter.tape is not None:
            weaver = weaver or Weaver(emitter)
            weaver.add(emitter.tape)
            emitter.tape, emitter.woven = None, False
            if not any(other.together for other in following):
                weaver.finish()
    emitter.layer = None
    _copy_all(emitter, plan.hand_over)


def emit_step(emitter: Emitter, step: Step, following: Sequence[Step] = ()) -> None:
    """One layer, a cascade of layers, or a control-flow operator with the layers of its graphs. `following`: the step
    that comes next, if it is known."""
    emitter.layer = step.number
    try:
        match step.work:
            case LayerWork():
                _emit_layer(emitter, step.work, _first_use(emitter, step.work, following))
            case CascadeWork():
                for stripe in step.work.stripes:
                    emitter.layer = stripe.number
                    _emit_layer(emitter, stripe.work)
                    emitter.mark(stripe.number)
            case LoopWork():
                _emit_loop(emitter, step.work)
            case ChoiceWork():
                _emit_choice(emitter, step.work)
    except FieldRangeError as error:
        raise FieldOverflow(
            f"{step.root}: {step.info.output!r} needs an instruction whose {error}; split the tensor into "
            "smaller ones"
        ) from error


def _first_use(emitter: Emitter, work: LayerWork, following: Sequence[Step]) -> FirstUse:
    """What of the result of `work` the array needs before the rest."""
    config, speed = emitter.config, emitter.speed
    for step in following:
        body = step.work.body if isinstance(step.work, LayerWork) else None
        if isinstance(body, ArrayBody) and body.cut.window.view.storage == work.output:
            assert isinstance(step.work, LayerWork)
            # Where the bus is the limit, more instructions only make it busier.
            limited = any(
                work_cycles(each, config, speed) > computing_cycles(each, config)
                for each in (work, step.work)
            )
            if limited or not emitter.bus_is_free or not work.placements[work.output].resident:
                return FirstUse.NONE
            if body.plan.layout.depthwise:
                return FirstUse.CHANNELS
            return FirstUse.NONE if body.in_blocks else FirstUse.ROWS
    return FirstUse.NONE


def _emit_layer(emitter: Emitter, work: LayerWork, first_use: FirstUse = FirstUse.NONE) -> None:
    emission = LayerEmission(emitter, work)
    packing = None
    if isinstance(work.body, ArrayBody):
        packing = WeightPacking(emission, work.body)
        packing.begin()
    # A layer that runs together with others begins with pieces as small as all others.
    early, late = (work.preloads, []) if emitter.woven else _by_use(work)
    for copy in early:
        for piece in _pieces(copy, work):
            emitter.copy(piece)
    _copy_all(emitter, work.scales)
    match work.body:
        case ArrayBody():
            assert packing is not None
            ConvolutionEmission(emission, work.body, packing, late, first_use).emit()
        case PoolBody():
            emit_pool(emission, work.body)
        case ElementwisePlan():
            emit_elementwise(emission, work.body)
        case ReductionPlan():
            ReductionEmission(emission, work.body).emit()
        case LayoutCopy():
            CopyEmission(emitter, work.body).emit()
        case GatherScatterPlan():
            GatherScatterEmission(emitter, work.body).emit()
        case RowSearchPlan():
            RowSearchEmission(emitter, work.body).emit()
    emission.arrive_fully()
    emission.finish_fully()
    for copy in work.saved:
        emitter.copy(copy)


def _pieces(copy: Copy, work: LayerWork) -> list[Copy]:
    """What is brought in, as the boxes of a reduction read it: one is reduced while the next one comes."""
    size, reduced = copy.size_bytes, work.layer.reduction
    step = size
    if isinstance(work.body, ReductionPlan) and reduced is not None:
        step = max(1, -(-size * work.body.outer_elements // math.prod(reduced.outer)))
    return [
        Copy(copy.source + start, copy.target + start, min(step, size - start))
        for start in range(0, size, step)
    ]


def _by_use(work: LayerWork) -> tuple[list[Copy], list[Copy]]:
    """What is brought in before the layer runs, and what only VECTOR needs, a convolution's parameters and its table:
    these may come behind the first weights, for which the array waits."""
    body, params, late = work.body, work.params, set[int]()
    if isinstance(body, ArrayBody) and not body.in_blocks and not work.scales:
        late |= {params.address} if params.tile_bytes and params.source is None else set()
        late |= {work.table.address} if work.table is not None else set()
    return (
        [copy for copy in work.preloads if copy.target.offset not in late],
        [copy for copy in work.preloads if copy.target.offset in late],
    )


# --- control flow


def _emit_loop(emitter: Emitter, work: LoopWork) -> None:
    _copy_all(emitter, work.entry)
    head, leave = Label(f"{work.operator} head"), Label(f"{work.operator} exit")
    emitter.place(head)
    emit_graph(emitter, work.condition)
    _test(emitter, work.test)
    emitter.branch(Condition.IF_CLEAR, leave)
    emit_graph(emitter, work.body)
    emitter.branch(Condition.ALWAYS, head)
    emitter.place(leave)
    for copy in work.results:
        emitter.copy(copy)


def _emit_choice(emitter: Emitter, work: ChoiceWork) -> None:
    otherwise, join = Label(f"{work.operator} else"), Label(f"{work.operator} end")
    _test(emitter, work.test)
    emitter.branch(Condition.IF_CLEAR, otherwise)
    emit_graph(emitter, work.then.graph)
    _copy_all(emitter, work.then.results)
    emitter.branch(Condition.ALWAYS, join)
    emitter.place(otherwise)
    emit_graph(emitter, work.otherwise.graph)
    _copy_all(emitter, work.otherwise.results)
    emitter.place(join)


def _copy_all(emitter: Emitter, copies: list[CopyThrough]) -> None:
    for copy in copies:
        source = copy.source
        inside = (source.resident, copy.target.region is Region.ACTIVATION)
        if all(inside):
            emit_move(emitter, source.address.offset, copy.target.offset, source.bytes)
            continue
        if any(inside):
            emitter.copy(Copy(source.address, copy.target, source.bytes))
            continue
        for start in range(0, source.bytes, copy.buffer_bytes):
            count = min(copy.buffer_bytes, source.bytes - start)
            emitter.load(source.address + start, copy.buffer, count)
            emitter.store(copy.buffer, copy.target + start, count)


def _test(emitter: Emitter, test: FlagTest) -> None:
    """Lets the next branches go by a bool."""
    if test.flag.resident:
        emitter.test(test.flag.address.offset)
        return
    emitter.load(test.flag.address, test.buffer, test.flag.bytes)
    emitter.test(test.buffer)
