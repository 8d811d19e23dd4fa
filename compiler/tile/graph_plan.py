"""Plans the layers of one graph in order. A graph that control flow runs has a planner of its own."""

import collections
import dataclasses
import itertools
from collections.abc import Sequence

from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.ir import Graph
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.machine_numbers import WOVEN_LAYERS
from tosaic.compiler.place.compression import WeightCoder
from tosaic.compiler.place.packed_rows import RowPacker
from tosaic.compiler.place.placement import Placement
from tosaic.compiler.place.placer import Memories, Placer
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.program import LayerInfo
from tosaic.compiler.tile.cascade import Chain
from tosaic.compiler.tile.cascade_plan import CascadePlanner
from tosaic.compiler.tile.control_flow import ControlFlowPlanner
from tosaic.compiler.tile.elementwise import writes_behind_reads
from tosaic.compiler.tile.layer_plan import LayerPlanner
from tosaic.compiler.tile.packer import Packer
from tosaic.compiler.tile.plan_memo import PlanMemo
from tosaic.compiler.tile.row_pairs import paired_pitches
from tosaic.compiler.tile.states import moves, plan_states, settle
from tosaic.compiler.tile.views import FoldedCopies
from tosaic.compiler.tile.work import CascadeWork, ChoiceWork, GraphPlan, LayerWork, LoopWork, Step, Stripe
from tosaic.hw.config import Config


@dataclasses.dataclass
class PlanContext:
    """What all graphs of a program share."""

    config: Config
    memories: Memories
    optimize: bool
    coder: WeightCoder | RowPacker | None = None
    """What codes constant weights."""
    infos: list[LayerInfo] = dataclasses.field(default_factory=list)
    """The program's layers so far; VECTOR_MARK has their index."""
    memo: PlanMemo = dataclasses.field(default_factory=PlanMemo)
    """What other plans of these graphs found."""


class GraphPlanner:
    """One graph on its way to a plan. `names` are the model's tensors: what decompositions put in between is not among
    them. `keep` leaves every layer's output in external memory. The layers of `chains` run as cascades. The results of
    a graph that is `nested` in another one stay where they are until `placer.close()`."""

    def __init__(
        self,
        graph: Graph,
        names: set[str],
        context: PlanContext,
        *,
        keep: bool = False,
        nested: bool = False,
        chains: Sequence[Chain] = (),
    ):
        self.graph, self.names, self.context = graph, names, context
        self.keep, self.nested, self._chains = keep, nested, dict(chains)
        self.tensors = Tensors(graph, context.config)
        self.placer = Placer(self.tensors, context.memories)
        self.views = FoldedCopies(self.tensors, self.placer.placements)
        self.kept: list[str] = []
        """Outputs of layers that stay in external memory."""
        renaming = {i for i, op in enumerate(graph.operators) if KIND.get(op.op) is Kind.RENAMING}
        skip, known = frozenset(renaming | self.views.folded), context.memo.layers
        if (id(graph), skip) not in known:
            fuser = Fuser(graph, context.config, fuse=context.optimize)
            known[id(graph), skip] = graph, fuser.layers(set(skip))
        self.layers = self.views.read_in_place(known[id(graph), skip][1])
        self._last = self._last_uses()
        self._beside = self._run_together()
        self._states = plan_states(self.tensors, self.layers, self._last)
        self._last |= dict.fromkeys(self._states.at_the_end.values(), len(self.layers))
        self.placer.set_uses(self._last, [self.views.reads(layer) for layer in self.layers])
        if not keep and not nested:
            self.placer.pitches = paired_pitches(self.tensors, self.layers)
        self._layer_planner = LayerPlanner(
            self.placer, Packer(self.placer, context.coder), self.views, context.memo
        )

    def plan(self) -> GraphPlan:
        """Plans every layer. Those of graphs that control flow runs are numbered before the operator that runs them.

        Raises OutOfMemory where a layer does not fit, UnsupportedError where one cannot run."""
        plan = GraphPlan()
        settle(self.placer, self._states)
        index = 0
        while index < len(self.layers):
            steps = self._cascade(index) or [self._step(index)]
            plan.steps += steps
            last = steps[0].work
            index += len(last.members) if isinstance(last, CascadeWork) else 1
        self.placer.release_pending()
        control_flow = ControlFlowPlanner(self.placer, self._nested, self._wanted_outside)
        plan.hand_over = control_flow.hand_over(*moves(self.placer, self._states))
        return plan

    def _step(self, index: int) -> Step:
        """One layer by itself."""
        layer = self.layers[index]
        self.placer.beside = self._beside.get(index)
        work, macs = self._work(index, layer)
        together = bool(self.placer.beside)
        self.placer.beside = None
        return dataclasses.replace(self._numbered(layer, work, macs), together=together)

    def _run_together(self) -> dict[int, int]:
        """For layers that run together, the number of those before in their group: an elementwise layer, whose result
        does not stay in activation memory, and the layers on the array that read it at once."""
        found: dict[int, int] = {}
        for first, layer in enumerate(self.layers):
            if self._streams(layer):
                group = itertools.takewhile(
                    lambda other: self._reads_on_array(other, layer),  # noqa: B023
                    self.layers[first + 1 : first + WOVEN_LAYERS],
                )
                numbers = range(len(list(group)) + 1)
                found |= {first + number: number for number in numbers if len(numbers) > 1}
        return found

    def _streams(self, layer: Layer) -> bool:
        """Whether an elementwise layer's result is too large to be resident."""
        plain = layer.base is None and layer.reduction is None and KIND[layer.root.op] is Kind.ELEMENTWISE
        return plain and self.tensors.size_bytes(layer.output) > self.context.memories.limit_bytes

    def _reads_on_array(self, layer: Layer, before: Layer) -> bool:
        """Whether a layer on the array reads the result of one before."""
        if layer.base is None or KIND[layer.base.op] is not Kind.ARRAY:
            return False
        return self.tensors.storage[before.output] in self.views.reads(layer)

    def _numbered(
        self, layer: Layer, work: LayerWork | LoopWork | ChoiceWork, macs: int, parts: int = 1
    ) -> Step:
        """The step that a layer is, the next one in the program."""
        name = self.shown(layer.output)
        operators = tuple(op.name for op in layer.operators)
        info = LayerInfo(layer.sources or name, (layer.base or layer.root).op, macs, name, operators, parts)
        step = Step(len(self.context.infos), info, layer.root, work)
        self.context.infos.append(info)
        # What a decomposition puts in between is not in the model, so golden does not know it.
        if self.keep:
            self.kept += [output for output in layer.root.outputs if self.shown(output) in self.names]
        return step

    def _cascade(self, first: int) -> list[Step]:
        """The cascade that begins with a layer; none if there is none, or if it does not fit."""
        last = self._chains.get(first)
        if last is None or self.tensors.storage[self.layers[last].output] in self._states.in_place:
            return []
        layers = self.layers[first : last + 1]
        wanted = [self._wanted_outside(layer.output) for layer in layers]
        planned = CascadePlanner(self._layer_planner, layers, wanted).plan()
        if planned is None:
            return []
        for index in range(first, last + 1):
            self.placer.free_after(index, planned.own_blocks if index == last else [])
        parts = collections.Counter(number for number, _ in planned.stripes)
        members = [
            self._numbered(layer, work, macs, parts[number])
            for number, (layer, work, macs) in enumerate(
                zip(layers, planned.members, planned.macs, strict=True)
            )
        ]
        stripes = [Stripe(members[number].number, work) for number, work in planned.stripes]
        end = members[-1]
        return [Step(end.number, end.info, end.root, CascadeWork(members, stripes))]

    def _work(self, index: int, layer: Layer) -> tuple[LayerWork | LoopWork | ChoiceWork, int]:
        if KIND[layer.root.op] is Kind.CONTROL_FLOW:
            self.placer.release_pending()
            work = ControlFlowPlanner(self.placer, self._nested, self._wanted_outside).plan(layer.root)
            self.placer.free_after(index, [])
            self._layer_planner.table_in_unit = None
            return work, 0
        if self._takes_over(index, layer):
            self.placer.take_over(layer.output)
        planned = self._layer_planner.plan(layer, wanted_outside=self._wanted_outside(layer.output))
        self.placer.free_after(index, planned.own_blocks)
        return planned.work, planned.macs

    def _takes_over(self, index: int, layer: Layer) -> bool:
        """Whether a layer's result may lie where a loop hands it over already: over an argument that nothing reads any
        more, or that the layer reads itself, element by element, before it writes there."""
        target = self.placer.taken_over.get(self.tensors.storage[layer.output])
        if target is None:
            return False
        readers = [name for name, place in self.placer.placements.items() if place == target]
        last = max((self._last.get(name, -1) for name in readers), default=-1)
        return last < index or (last == index and writes_behind_reads(self.tensors, layer, readers))

    def _nested(self, graph: Graph) -> "GraphPlanner":
        return GraphPlanner(graph, set(), self.context, nested=True)

    def _wanted_outside(self, name: str) -> bool:
        output, storage = self.tensors.storage[name], self.tensors.storage
        return self.keep or (
            not self.nested
            and (
                output in self._states.in_place
                or any(storage[other] == output for other in self.graph.run_outputs)
            )
        )

    def take_over(self, places: list[Placement]) -> None:
        """Results may lie at these places, one for each, where they are resident."""
        storage = [self.tensors.storage[name] for name in self.graph.outputs]
        for name, place in zip(storage, places, strict=True):
            if place.resident and storage.count(name) == 1:
                self.placer.taken_over[name] = place

    def result(self, index: int) -> Placement:
        """Where an output of the graph is."""
        return self.placer.locate(self.tensors.storage[self.graph.outputs[index]])

    def shown(self, name: str) -> str:
        """The model's name for a tensor: normalisation may have made it under another one."""
        if name in self.names:
            return name
        same = self.tensors.sharing(name)
        # After several unary operators the RESHAPE makes only the last result; the others keep their bytes.
        return next((other for other in same if other in self.names), name.removesuffix("'"))

    def _last_uses(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for index, layer in enumerate(self.layers):
            for name in [*self.views.reads(layer), *self.views.parameters(layer)]:
                last[name] = index
            for name in layer.root.outputs:
                last.setdefault(self.tensors.storage[name], index)
        if self.nested:
            last |= {self.tensors.storage[name]: len(self.layers) for name in self.graph.outputs}
        return last
