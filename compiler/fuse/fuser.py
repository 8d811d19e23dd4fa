"""Groups operators into layers: one pass of the machine each, with everything elementwise fused into its drain."""

import collections
import contextlib
import dataclasses
import functools
import math
from collections.abc import Hashable

from tosaic.compiler.fuse.bounds import KnownBounds
from tosaic.compiler.fuse.drain_cost import drains_too_slowly, is_bound_by_vector
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.layer_building import LayerBuilding, Members
from tosaic.compiler.fuse.microprogram import TooComplex, TooManyOperands
from tosaic.compiler.fuse.summed_rows import sums_pay, sums_rows
from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.compiler.ir.graph import parameter_inputs
from tosaic.compiler.ir.mapped_file import LARGE_BYTES, let_go
from tosaic.compiler.machine import BASES, ELEMENT, KIND, Kind
from tosaic.compiler.machine_numbers import JOINED_CHAIN_STEPS, WEIGHTS_KEY_ELEMENTS
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config


@dataclasses.dataclass
class _Group:
    operators: set[int]
    base: int | None = None


def _weights_key(graph: Graph, convolution: Operator) -> Hashable:
    """What equal weights have in common: equal constants may have several names."""
    weights = graph.tensors[convolution.inputs[1]]
    if weights.data is None:
        return weights.name
    key = weights.shape, weights.data.reshape(-1)[:WEIGHTS_KEY_ELEMENTS].tobytes()
    if weights.data.nbytes >= LARGE_BYTES:
        # A look at a few pages of a mapped file brings many more.
        let_go(weights.data)
    return key


class Fuser:
    """Decides which operators share a layer."""

    def __init__(self, graph: Graph, config: Config, *, fuse: bool = True):
        self.graph, self.config, self.fuse = graph, config, fuse
        self._weights: dict[int, int] = {}
        self._skip = frozenset[int]()
        """Operators that need no layer."""
        self._bounds = KnownBounds(graph)
        self._sums: dict[int, _Group | None] = {}
        """Sums by the operators that have been asked about (`_summed`)."""
        self.producer = {name: i for i, op in enumerate(graph.operators) for name in op.outputs}
        self._from_array: set[int] = set()
        """Elementwise operators to which elementwise operators lead from an array operator."""
        self.consumers: dict[str, list[int]] = {}
        for i, op in enumerate(graph.operators):
            for name in op.inputs:
                self.consumers.setdefault(name, []).append(i)
            sources = {self.producer[name] for name in op.inputs if name in self.producer}
            array = any(KIND.get(graph.operators[source].op) is Kind.ARRAY for source in sources)
            if KIND.get(op.op) is Kind.ELEMENTWISE and (array or not self._from_array.isdisjoint(sources)):
                self._from_array.add(i)

    def layers(self, skip: set[int]) -> list[Layer]:
        """All layers in executable order; `skip` are operators that need none (renamings, folded views)."""
        assigned, groups, self._skip = set(skip), list[tuple[int, _Group]](), frozenset(skip)
        for index in reversed(range(len(self.graph.operators))):
            if index in assigned:
                continue
            group = self._cut_where_narrow(index, self._grow(index, assigned), assigned)
            assigned |= group.operators
            groups.append((index, group))
        return [self._layer(root, group) for root, group in reversed(groups)]

    # --- growing

    def _summed(self, root: int) -> _Group | None:
        """The layer of a convolution whose rows `root` adds up; None where it does not, or had better not."""
        if root not in self._sums:
            self._sums[root] = self._found_sums(root)
        return self._sums[root]

    def _found_sums(self, root: int) -> _Group | None:
        operators, operator = self.graph.operators, self.graph.operators[root]
        if not self.fuse or not sums_rows(self.graph, operator, self.config):
            return None
        source, result = operator.inputs[0], operator.outputs[0]
        # Rows and then columns: a mean over the image.
        next_ops = [operators[i] for i in self.consumers.get(result, [])]
        columns = [each for each in next_ops if each.op == "REDUCE_SUM" and each.attributes["axis"] == 2]
        inside = not {source, result} & set(self.graph.outputs) and self.consumers[source] == [root]
        producer = self.producer.get(source)
        if len(next_ops) != 1 or not columns or not inside or producer is None:
            return None
        if KIND.get(operators[producer].op) not in (Kind.ELEMENTWISE, Kind.ARRAY):
            return None
        group = self._grow(producer, set())
        # Of a depthwise convolution more vectors come than VECTOR can add up in time.
        if group.base is None or operators[group.base].op != "CONV2D":
            return None
        if self._shape(operators[group.base]) != self.graph.tensors[source].shape:
            return None
        summed = _Group(group.operators | {root}, group.base)
        if self._problem(root, summed) is not None:
            return None
        return summed if sums_pay(self.graph, self._layer(root, summed), self.config) else None

    def _grow(self, root: int, assigned: set[int]) -> _Group:
        operators = self.graph.operators
        group = _Group({root})
        if KIND.get(operators[root].op) in BASES:
            group.base = root
        elif KIND.get(operators[root].op) is not Kind.ELEMENTWISE:
            return group
        if not self.fuse:
            return group
        if (summed := self._summed(root)) is not None:
            return summed
        rejected: set[int] = set()
        # Some of the rejected: what joins later may read the same operands, so that these need no load streams.
        waiting, grew = set[int](), False
        while True:
            candidates = self._candidates(group, assigned, rejected)
            if not candidates and not (grew and waiting):
                return group
            if not candidates:
                rejected, waiting, grew = rejected - waiting, set(), False
                continue
            index = max(candidates, key=self._weight)
            addition = self._closure(index, group.base is not None, assigned)
            grown = addition and _Group(group.operators | addition, group.base)
            if grown and grown.base is None:
                grown.base = next((i for i in addition if KIND.get(operators[i].op) in BASES), None)
            problem = self._problem(root, grown) if grown else None
            if grown and problem is None and not self._had_better_stay_out(root, index, group, grown):
                group, grew = grown, True
                continue
            if grown and isinstance(problem, TooManyOperands):
                wider = (
                    self._with_sources(index, grown, assigned, steps) for steps in (1, JOINED_CHAIN_STEPS)
                )
                further = next((each for each in wider if each and self._problem(root, each) is None), None)
                if further is not None:
                    group, grew = further, True
                    continue
            rejected.add(index)
            if isinstance(problem, TooManyOperands):
                grew = grew and bool(waiting)
                waiting.add(index)

    def _with_sources(self, index: int, group: _Group, assigned: set[int], steps: int) -> _Group | None:
        """A group with the elementwise operators that alone make the operands of its operator `index`, and, in more
        `steps`, those of these: they may read what the group reads anyway. None where there are none."""
        found, readers = set[int](), {index}
        for _ in range(steps):
            inside, sources = group.operators | found, set[int]()
            for reader in readers:
                for name in self.graph.operators[reader].inputs:
                    source = self.producer.get(name)
                    if source is None or source in inside or not set(self.consumers[name]) <= inside:
                        continue
                    if name not in self.graph.outputs and self._fuses(
                        source, self.graph.operators[reader], assigned
                    ):
                        sources.add(source)
            found, readers = found | sources, sources
        return _Group(group.operators | found, group.base) if found else None

    def _cut_where_narrow(self, root: int, group: _Group, assigned: set[int]) -> _Group:
        """A group without elementwise operators that only make an int32 operand narrow, if all these join the layer of
        an array operator that computes it: less goes through memory."""
        if not self.fuse:
            return group
        for member in sorted(group.operators):
            chain = self._narrowing(member, group)
            if not chain or chain[-1] == root or group.base in chain:
                continue
            source = self._wide_operand(member)
            assert source is not None
            less, others = _Group(group.operators - set(chain), group.base), assigned | group.operators
            if self._problem(root, less) is not None:
                continue
            before, after = self._grow(source, others), self._grow(chain[-1], others - set(chain))
            if before.base is not None and after.operators == before.operators | set(chain):
                group = less
        return group

    def _narrowing(self, index: int, group: _Group) -> list[int]:
        """Operators of a group one behind the other, from one that reads an int32 result of another layer to the first
        whose own result is narrower; empty if others read what they make."""
        source = self._wide_operand(index)
        if source is None or source in group.operators or len(self.graph.operators[index].outputs) != 1:
            return []
        chain = [index]
        while True:
            (result,) = self.graph.operators[chain[-1]].outputs
            readers = self.consumers.get(result, [])
            dtype = self.graph.tensors[result].dtype
            if dtype is not DType.INT32:
                alone = len(readers) == 1 and result not in self.graph.outputs
                return chain if alone and dtype in (DType.INT8, DType.INT16) else []
            if (
                len(readers) != 1
                or readers[0] not in group.operators
                or self._wide_operand(readers[0]) is None
            ):
                return []
            chain.append(readers[0])

    def _wide_operand(self, index: int) -> int | None:
        """Who makes the only operand of an operator that is no constant, where that is int32 and nobody else reads
        it."""
        tensors = self.graph.tensors
        names = [name for name in self.graph.operators[index].inputs if tensors[name].data is None]
        if len(names) != 1 or tensors[names[0]].dtype is not DType.INT32 or names[0] in self.graph.outputs:
            return None
        return self.producer.get(names[0]) if len(self.consumers[names[0]]) == 1 else None

    def _candidates(self, group: _Group, assigned: set[int], rejected: set[int]) -> list[int]:
        found = []
        for member in sorted(group.operators):
            for name in self.graph.operators[member].inputs:
                index = self.producer.get(name)
                if index is None or index in assigned or index in rejected or index in group.operators:
                    continue
                if name in self.graph.outputs or not set(self.consumers[name]) <= group.operators:
                    continue
                # All readers must take it from registers: a convolution reads its input from memory.
                if all(self._joins(index, reader, group) for reader in self.consumers[name]):
                    found.append(index)
        return found

    def _joins(self, index: int, member: int, group: _Group) -> bool:
        """Whether producer `index` of an operand of `member` may be in the same pass."""
        operators, tensors = self.graph.operators, self.graph.tensors
        producer, consumer = operators[index], operators[member]
        reduces = group.base is not None and KIND[operators[group.base].op] is Kind.REDUCTION
        if reduces and self._drained(index):
            return False
        if self._summed(index) is not None:
            return False
        if KIND.get(consumer.op) in BASES:
            # Into a reduction: terms computed on the way in.
            same = tensors[producer.outputs[0]].shape == tensors[consumer.inputs[0]].shape
            # A reduction of a reduction (a mean over height and width) repeats over both axes.
            joins = KIND.get(producer.op) is Kind.ELEMENTWISE or producer.op == consumer.op
            return KIND[consumer.op] is Kind.REDUCTION and joins and same
        if KIND.get(producer.op) in BASES and group.base is not None:
            return False
        if producer.outputs[0] in parameter_inputs(consumer):
            # They are read from memory, even where they have the shape of the data.
            return False
        joins = KIND.get(producer.op) in (Kind.ELEMENTWISE, *BASES)
        return joins and self._shape(producer) == self._shape(consumer)

    def _drained(self, index: int) -> bool:
        """Whether an operator makes bytes of what the array has made: it costs least on the way out of the array, where
        VECTOR waits for the sums, and a reduction that repeated it would read wider operands."""
        operator = self.graph.operators[index]
        return self.graph.tensors[operator.outputs[0]].dtype is DType.INT8 and index in self._from_array

    def _shape(self, operator: Operator) -> tuple[int, ...]:
        return self.graph.tensors[operator.outputs[0]].shape

    def _closure(self, index: int, based: bool, assigned: set[int]) -> set[int]:
        """`index` with what must not go through memory before it: the array operator whose raw accumulators it reads,
        and whatever makes its int48 operands. Empty if the layer has a base already (`based`) and would get another."""
        addition = {index}
        operator, tensors = self.graph.operators[index], self.graph.tensors
        if KIND.get(operator.op) in BASES:
            return addition
        own = False
        for name in operator.inputs:
            source = self.producer.get(name)
            if source is None:
                continue
            producer = self.graph.operators[source]
            alone = self.consumers[name] == [index] and name not in self.graph.outputs
            if KIND.get(producer.op) is Kind.ARRAY:
                if self._shape(producer) != self._shape(operator):
                    # Sums that broadcast, such as those of a zero point: a pass has the pixels of its base.
                    continue
                if based and (own or tensors[operator.outputs[0]].dtype is DType.INT48):
                    # One of two sums has to come through memory, as do further planes of an int16 convolution.
                    continue
                if based or not alone:
                    return set()
                inner = {source}
            elif tensors[name].dtype is DType.INT48 and alone and self._fuses(source, operator, assigned):
                inner = self._closure(source, based, assigned)
                if not inner:
                    return set()
            else:
                continue
            addition |= inner
            own = own or any(KIND.get(self.graph.operators[i].op) in BASES for i in inner)
            based = based or own
        return addition

    def _fuses(self, index: int, consumer: Operator, assigned: set[int]) -> bool:
        """Whether an elementwise operator is free to join the layer of `consumer`."""
        producer = self.graph.operators[index]
        same = self._shape(producer) == self._shape(consumer)
        return KIND.get(producer.op) is Kind.ELEMENTWISE and index not in assigned and same

    def _weight(self, index: int) -> int:
        """How much work an operand's chain starts with: the heaviest convolution becomes the layer's base."""
        chain: list[int] = []
        weight = None
        while weight is None:
            weight = self._weights.get(index)
            if weight is None:
                chain.append(index)
                operator = self.graph.operators[index]
                source = self._chain_source(operator)
                if source is not None:
                    index = source
                elif KIND.get(operator.op) is Kind.ARRAY:
                    weight = math.prod(self.graph.tensors[operator.inputs[1]].shape[:-1])
                else:
                    weight = 0
        self._weights |= dict.fromkeys(chain, weight)
        return weight

    def _chain_source(self, operator: Operator) -> int | None:
        """The one operator that an elementwise operator continues; None where there is none, or several."""
        if KIND.get(operator.op) is not Kind.ELEMENTWISE:
            return None
        wide = [name for name in operator.inputs if self.graph.tensors[name].dtype is DType.INT48]
        sources = [self.producer[name] for name in wide or operator.inputs if name in self.producer]
        return sources[0] if len(sources) == 1 else None

    # --- building

    def _problem(self, root: int, group: _Group) -> UnsupportedError | None:
        """Why a group is no layer."""
        try:
            self._layer(root, group)
        except UnsupportedError as error:
            return error
        return None

    def _had_better_stay_out(self, root: int, index: int, group: _Group, grown: _Group) -> bool:
        """Whether operator `index` had better be in another layer, though `grown`, which has it, is one."""
        if self._drains_too_slowly(root, index, grown):
            return True
        return group.base is not None and self._had_better_drain_before(root, index, grown)

    def _drains_too_slowly(self, root: int, index: int, group: _Group) -> bool:
        """Whether operator `index`, with the convolution whose sums it scales, had better not join what follows."""
        operators, tensors = self.graph.operators, self.graph.tensors
        operator = operators[index]
        if operator.op != "RESCALE" or self.producer.get(operator.inputs[0]) != group.base:
            return False
        narrow = tensors[operator.inputs[0]].dtype is DType.INT32
        if not narrow or group.base is None:
            return False
        stays = self._recurring[_weights_key(self.graph, operators[group.base])] > 1
        return drains_too_slowly(self.graph, self._layer(root, group), self.config, stays=stays)

    def _had_better_drain_before(self, root: int, index: int, group: _Group) -> bool:
        """Whether operator `index` ends a chain that had better follow another array operator than the base of its
        group, where VECTOR takes longer than the array anyway. The chain ends where its elements are narrowest."""
        place, sources = index, self._computed(index)
        while len(sources) == 1:
            (place,) = sources
            if place in group.operators or self._bytes(place) <= self._bytes(index):
                return False
            sources = self._computed(place)
        if not any(self._follows_array(source, group) for source in sources):
            return False
        return is_bound_by_vector(self.graph, self._layer(root, group), self.config)

    def _computed(self, index: int) -> list[int]:
        """The operators that make the operands of an elementwise operator."""
        operator = self.graph.operators[index]
        if KIND.get(operator.op) is not Kind.ELEMENTWISE:
            return []
        return [self.producer[name] for name in operator.inputs if name in self.producer]

    def _bytes(self, index: int) -> int:
        """Bytes of an element that an operator makes."""
        return ELEMENT[self.graph.tensors[self.graph.operators[index].outputs[0]].dtype].bytes

    def _follows_array(self, index: int, group: _Group) -> bool:
        """Whether an operator is an array operator that has no layer yet, or alone continues one."""
        while index not in group.operators:
            operator = self.graph.operators[index]
            if KIND.get(operator.op) is Kind.ARRAY:
                return True
            source = self._chain_source(operator)
            if source is None or len(self.consumers[operator.outputs[0]]) > 1:
                return False
            index = source
        return False

    @functools.cached_property
    def _recurring(self) -> collections.Counter[Hashable]:
        """How many convolutions have the same weights."""
        bases = (op for op in self.graph.operators if op.op == "CONV2D")
        return collections.Counter(_weights_key(self.graph, op) for op in bases)

    def _layer(self, root: int, group: _Group) -> Layer:
        operators = self.graph.operators
        members = Members(
            [operators[i] for i in sorted(group.operators)],
            operators[group.base] if group.base is not None else None,
            operators[root],
        )
        building = LayerBuilding(self.graph, self.config, members, self._bounds)
        try:
            return building.build(share=False)
        except TooComplex:
            if group.base is not None:
                raise
            turns = self._in_turn(group)
            with contextlib.suppress(TooComplex):
                return building.build(share=True)
            if not turns:
                raise
            return building.build(share=True, turns=turns)

    def _in_turn(self, group: _Group) -> frozenset[str]:
        """Two SLICEs of one tensor that only the operators of a group read, each once: their elements are as far from
        each other as those of the other one are, so one stream may bring them in turn. Empty if there are none."""
        found: dict[tuple[str, tuple[int, ...], tuple[int, ...]], str] = {}
        tensors = self.graph.tensors
        for reader in sorted(group.operators):
            for name in self.graph.operators[reader].inputs:
                place = self.producer.get(name)
                cut = self.graph.operators[place] if place is not None else None
                if cut is None or cut.op != "SLICE" or self.consumers[name] != [reader]:
                    continue
                source = self._root(cut.inputs[0])
                if place in self._skip or name in self.graph.outputs or tensors[source].data is not None:
                    continue
                key = source, tensors[cut.inputs[0]].shape, tensors[name].shape
                other = found.setdefault(key, name)
                if other != name:
                    return frozenset({other, name})
        return frozenset()

    def _root(self, name: str) -> str:
        """The tensor whose elements a RESHAPE leaves in their order."""
        while (place := self.producer.get(name)) is not None and self.graph.operators[place].op == "RESHAPE":
            name = self.graph.operators[place].inputs[0]
        return name
