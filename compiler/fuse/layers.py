"""Groups operators into layers: one pass of the machine each, with everything elementwise fused into its drain."""

import dataclasses
import math

from tosaic.compiler.fuse.digits import joined, products, slots_per_channel
from tosaic.compiler.fuse.expression import Immediate, Load, Node, Value
from tosaic.compiler.fuse.fold import constant_scalar
from tosaic.compiler.fuse.indexed import INDEXED
from tosaic.compiler.fuse.microprogram import MicroProgram, TooComplex, assemble
from tosaic.compiler.fuse.moves import MOVES
from tosaic.compiler.fuse.reductions import REDUCTIONS, reduced_value
from tosaic.compiler.fuse.translate import ELEMENT, ELEMENTWISE, PerChannel, Translator
from tosaic.compiler.fuse.windows import array_value
from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import Op

ARRAY_OPERATORS = ("CONV2D", "DEPTHWISE_CONV2D", "MATMUL")
POOLS = ("AVG_POOL2D", "MAX_POOL2D")
CONTROL_FLOW = ("COND_IF", "WHILE_LOOP")
BASES = (*ARRAY_OPERATORS, *POOLS, *REDUCTIONS, "ARGMAX")
_MAX_REPEATS = (1 << 16) - 1


@dataclasses.dataclass
class Layer:
    """Operators that run as one pass; `base` is the convolution, pool or reduction at its start, if any."""

    operators: list[Operator]
    base: Operator | None
    root: Operator
    program: MicroProgram
    per_channel: PerChannel | None
    table: str | None

    @property
    def output(self) -> str:
        return self.root.outputs[0]

    @property
    def name(self) -> str:
        return self.root.outputs[0]


@dataclasses.dataclass
class _Group:
    operators: set[int]
    base: int | None = None


class Fuser:
    """Decides which operators share a layer; with `digits` also which int32 tensors between them lie as digits."""

    def __init__(self, graph: Graph, config: Config, *, fuse: bool = True, digits: bool = False):
        self.graph, self.config, self.fuse, self.digits = graph, config, fuse, digits
        self.apart: set[str] = set()
        self.producer = {name: i for i, op in enumerate(graph.operators) for name in op.outputs}
        self.consumers: dict[str, list[int]] = {}
        for i, op in enumerate(graph.operators):
            for name in op.inputs:
                self.consumers.setdefault(name, []).append(i)

    def layers(self, skip: set[int]) -> list[Layer]:
        """All layers in executable order; `skip` are operators that need none (renamings, folded views)."""
        assigned, groups = set(skip), list[tuple[int, _Group]]()
        for index in reversed(range(len(self.graph.operators))):
            if index in assigned:
                continue
            group = self._grow(index, assigned)
            assigned |= group.operators
            groups.append((index, group))
        layers = [self._layer(root, group) for root, group in reversed(groups)]
        return self._with_digits(layers, groups[::-1]) if self.digits else layers

    def _with_digits(self, layers: list[Layer], groups: list[tuple[int, _Group]]) -> list[Layer]:
        """The layers, with the bytes of int32 tensors between them apart where the array gains by it."""
        home = {index: place for place, (_, group) in enumerate(groups) for index in group.operators}
        layers = list(layers)
        for place, layer in enumerate(layers):
            name = layer.output
            readers = {home.get(index) for index in self.consumers.get(name, [])}
            if self.graph.tensors[name].dtype is not DType.INT32 or name in self.graph.outputs:
                continue
            concerned = {place: layer}
            for reader in readers:
                if reader is not None and name in (load.tensor for load in layers[reader].program.loads):
                    concerned[reader] = layers[reader]
            if len(concerned) < 1 + max(1, len(readers)):
                continue
            before = [self._slots(member) for member in concerned.values()]
            if None in before:
                continue
            self.apart.add(name)
            try:
                changed = {index: self._layer(*groups[index]) for index in concerned}
            except TooComplex:
                self.apart.discard(name)
                continue
            after = [self._slots(member) for member in changed.values()]
            if sum(slots or 0 for slots in after) < sum(slots or 0 for slots in before):
                for index, member in changed.items():
                    layers[index] = member
            else:
                self.apart.discard(name)
        return layers

    def _slots(self, layer: Layer) -> float | None:
        """Slots per pixel batch and channel of a layer on the array in dense mode, None for others."""
        terms = products(self.graph, layer.base) if layer.base is not None else None
        if terms is None:
            return None
        stored = 1 if layer.program.stores_digits else ELEMENT[self.graph.tensors[layer.output].dtype].bytes
        lane_bytes = max(stored, layer.program.load_element_bytes())
        return slots_per_channel(self.config, terms, layer.program.uops, lane_bytes)

    # --- growing

    def _grow(self, root: int, assigned: set[int]) -> _Group:
        operators = self.graph.operators
        group = _Group({root})
        if operators[root].op in BASES:
            group.base = root
        elif operators[root].op not in ELEMENTWISE:
            return group
        if not self.fuse:
            return group
        rejected: set[int] = set()
        while True:
            candidates = self._candidates(group, assigned, rejected)
            if not candidates:
                return group
            index = max(candidates, key=self._weight)
            addition = self._closure(index, group.base is not None, assigned)
            grown = addition and _Group(group.operators | addition, group.base)
            if grown and grown.base is None:
                grown.base = next((i for i in addition if operators[i].op in BASES), None)
            if grown and self._fits(root, grown):
                group = grown
            else:
                rejected.add(index)

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
        if consumer.op in BASES:
            # Into a reduction: terms computed on the way in.
            same = tensors[producer.outputs[0]].shape == tensors[consumer.inputs[0]].shape
            # A reduction of a reduction (a mean over height and width) repeats over both axes.
            return consumer.op in REDUCTIONS and producer.op in (*ELEMENTWISE, consumer.op) and same
        if producer.op in BASES and group.base is not None:
            return False
        return producer.op in (*ELEMENTWISE, *BASES) and self._shape(producer) == self._shape(consumer)

    def _shape(self, operator: Operator) -> tuple[int, ...]:
        return self.graph.tensors[operator.outputs[0]].shape

    def _closure(self, index: int, based: bool, assigned: set[int]) -> set[int]:
        """`index` with what must not go through memory before it: the array operator whose raw accumulators it reads,
        and whatever makes its int48 operands. Empty if the layer has a base already (`based`) and would get another."""
        addition = {index}
        operator, tensors = self.graph.operators[index], self.graph.tensors
        if operator.op in BASES:
            return addition
        own = False
        for name in operator.inputs:
            source = self.producer.get(name)
            if source is None:
                continue
            producer = self.graph.operators[source]
            alone = self.consumers[name] == [index] and name not in self.graph.outputs
            if producer.op in ARRAY_OPERATORS:
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
            own = own or any(self.graph.operators[i].op in BASES for i in inner)
            based = based or own
        return addition

    def _fuses(self, index: int, consumer: Operator, assigned: set[int]) -> bool:
        """Whether an elementwise operator is free to join the layer of `consumer`."""
        producer = self.graph.operators[index]
        same = self._shape(producer) == self._shape(consumer)
        return producer.op in ELEMENTWISE and index not in assigned and same

    def _weight(self, index: int) -> float:
        """How much work an operand's chain starts with: the heaviest convolution becomes the layer's base."""
        operator = self.graph.operators[index]
        while operator.op in ELEMENTWISE:
            wide = [name for name in operator.inputs if self.graph.tensors[name].dtype is DType.INT48]
            sources = [self.producer[name] for name in wide or operator.inputs if name in self.producer]
            if len(sources) != 1:
                return 0
            operator = self.graph.operators[sources[0]]
        if operator.op not in ARRAY_OPERATORS:
            return 0
        return math.prod(self.graph.tensors[operator.inputs[1]].shape[:-1])

    # --- building

    def _fits(self, root: int, group: _Group) -> bool:
        try:
            self._layer(root, group)
        except UnsupportedError:
            return False
        return True

    def _layer(self, root: int, group: _Group) -> Layer:
        try:
            return self._built(root, group, share=False)
        except TooComplex:
            if group.base is not None:
                raise
            return self._built(root, group, share=True)

    def _built(self, root: int, group: _Group, *, share: bool) -> Layer:
        """With `share` a tensor that several operators read is loaded once: a register instead of streams."""
        graph = self.graph
        order = [graph.operators[i] for i in sorted(group.operators)]
        base = graph.operators[group.base] if group.base is not None else None
        root_operator = graph.operators[root]
        values: dict[str, Value] = {}

        def uses(name: str) -> int:
            return sum(name in operator.inputs for operator in order)

        def operand(name: str) -> Value:
            if name in values:
                return values[name]
            scalar = constant_scalar(graph, name)
            if scalar is not None:
                return Immediate(scalar)
            if share and uses(name) > 1 and name not in self.apart:
                values[name] = Node(Op.MOV, loaded(name))
                return values[name]
            return loaded(name)

        def loaded(name: str) -> Value:
            if name in self.apart:
                values[name] = joined(name)
                return values[name]
            tensor = graph.tensors[name]
            if tensor.dtype not in ELEMENT:
                raise UnsupportedError(f"{root_operator}: the vector unit does not read {tensor}")
            return Load(name, ELEMENT[tensor.dtype])

        translator = Translator(graph, operand, uses, root_operator.outputs[0])
        for operator in order:
            if operator is not base and operator.op in REDUCTIONS:
                values[operator.outputs[0]] = operand(operator.inputs[0])
            elif operator is base:
                if operator.op in ARRAY_OPERATORS:
                    values[operator.outputs[0]] = array_value(bias=operator.op != "MATMUL")
                else:
                    # A window slides over memory, even where that holds one value only.
                    term = loaded if operator.op in POOLS else operand
                    values[operator.outputs[0]] = reduced_value(graph, operator, term)
            elif operator.op in ELEMENTWISE:
                values[operator.outputs[0]] = translator.translate(operator)
            elif operator.op in (*MOVES, *INDEXED):
                values[operator.outputs[0]] = operand(operator.inputs[0])
            elif operator.op in CONTROL_FLOW:
                # Its graphs become regions; there is no pass of its own.
                values[operator.outputs[0]] = Node(Op.MOV, Immediate(0))
            else:
                raise UnsupportedError(
                    f"{operator}: {operator.op} ({graph.tensors[operator.outputs[0]]}) "
                    "does not run on the accelerator yet; "
                    "replace it, or use the target golden"
                )
        result = values[root_operator.outputs[0]]
        target = graph.tensors[root_operator.outputs[0]]
        if target.dtype not in ELEMENT:
            raise UnsupportedError(f"{root_operator}: the accelerator does not store {target}")
        for operator in order:
            if (
                operator.op == "RESCALE"
                and operator.attributes.get("output_unsigned")
                and operator is not root_operator
            ):
                raise TooComplex("an unsigned result inside a layer")
        program = assemble(result, self.config, store_digits=target.name in self.apart)
        if base is not None and base.op in (*ARRAY_OPERATORS, *POOLS):
            if any(
                graph.tensors[load.tensor].shape != target.shape
                for load in program.loads[program.body_loads :]
            ):
                raise TooComplex("a broadcast operand after a window")
        repeated = {
            operator.attributes["axis"]: graph.tensors[operator.inputs[0]].shape[operator.attributes["axis"]]
            for operator in order
            if operator.op in REDUCTIONS
        }
        if len(repeated) > 1 and math.prod(repeated.values()) > _MAX_REPEATS:
            raise TooComplex("a reduction over several axes that repeats too often")
        if translator.per_channel is not None and base is not None and base.op not in ARRAY_OPERATORS:
            raise TooComplex("a per-channel RESCALE after a reduction")
        return Layer(order, base, root_operator, program, translator.per_channel, translator.table)
