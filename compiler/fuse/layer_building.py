"""Builds one layer of given operators: the expression that they compute, and its micro-program."""

import dataclasses

from tosaic.compiler.fuse.expression import Immediate, Load, Node, Value
from tosaic.compiler.fuse.fold import constant_scalar
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.microprogram import MicroProgram, TooComplex, assemble
from tosaic.compiler.fuse.reduced_axis import reduced_axis
from tosaic.compiler.fuse.reductions import reduced_value
from tosaic.compiler.fuse.translate import Translator
from tosaic.compiler.fuse.windows import array_value
from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.machine import ELEMENT, KIND, WINDOWED, Kind
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import Op


@dataclasses.dataclass(frozen=True)
class Members:
    """The operators of a layer."""

    operators: list[Operator]
    """In the order of the graph."""
    base: Operator | None
    """The convolution, pool or reduction at the start, if any."""
    root: Operator
    """The one whose result the layer stores."""


class LayerBuilding:
    """A layer on its way."""

    def __init__(self, graph: Graph, config: Config, members: Members):
        self.graph, self.config, self.members = graph, config, members
        self._share = False
        self._values: dict[str, Value] = {}

    def build(self, *, share: bool) -> Layer:
        """The layer. With `share` a tensor that several operators read is loaded once: a register instead of streams.

        Raises UnsupportedError where the vector unit cannot compute it, TooComplex where it might with fewer
        operators."""
        self._share, self._values = share, {}
        graph, members = self.graph, self.members
        output = members.root.outputs[0]
        base = members.base
        has_array = base is not None and KIND.get(base.op) is Kind.ARRAY
        translator = Translator(graph, self._operand, self._uses, output, has_array=has_array)
        for operator in members.operators:
            self._values[operator.outputs[0]] = self._value(operator, translator)
        target = graph.tensors[output]
        if target.dtype not in ELEMENT:
            raise UnsupportedError(f"{members.root}: the accelerator does not store {target}")
        program = assemble(self._values[output], self.config)
        reduction = reduced_axis(graph, self.config, members.operators, self._values[output], program)
        layer = Layer(
            members.operators,
            members.base,
            members.root,
            program,
            translator.per_channel,
            translator.table,
            translator.bias,
            reduction,
        )
        self._check(layer, program)
        return layer

    # --- values

    def _value(self, operator: Operator, translator: Translator) -> Value:
        kind = KIND.get(operator.op)
        if operator is self.members.base:
            if kind is Kind.ARRAY:
                return array_value(bias=operator.op != "MATMUL")
            # A window slides over memory, even where that holds one value only.
            return reduced_value(self.graph, operator, self._loaded if kind is Kind.POOL else self._operand)
        if kind is Kind.ELEMENTWISE:
            return translator.translate(operator)
        if kind in (Kind.REDUCTION, Kind.LAYOUT, Kind.GATHER_SCATTER):
            return self._operand(operator.inputs[0])
        if kind is Kind.CONTROL_FLOW:
            # Its graphs have layers of their own; there is no pass for the operator itself.
            return Node(Op.MOV, Immediate(0))
        raise UnsupportedError(
            f"{operator}: {operator.op} ({self.graph.tensors[operator.outputs[0]]}) "
            "does not run on the accelerator yet; "
            "replace it, or use the target golden"
        )

    def _uses(self, name: str) -> int:
        return sum(name in operator.inputs for operator in self.members.operators)

    def _operand(self, name: str) -> Value:
        values = self._values
        if name in values:
            return values[name]
        scalar = constant_scalar(self.graph, name)
        if scalar is not None:
            return Immediate(scalar)
        if self._share and self._uses(name) > 1:
            values[name] = Node(Op.MOV, self._loaded(name))
            return values[name]
        return self._loaded(name)

    def _loaded(self, name: str) -> Value:
        tensor = self.graph.tensors[name]
        if tensor.dtype not in ELEMENT:
            raise UnsupportedError(f"{self.members.root}: the vector unit does not read {tensor}")
        return Load(name, ELEMENT[tensor.dtype])

    # --- limits

    def _check(self, layer: Layer, program: MicroProgram) -> None:
        """TooComplex where one pass cannot do all of the layer."""
        shape, kind = self.graph.tensors[layer.output].shape, None
        for operator in layer.operators:
            if operator.attributes.get("output_unsigned") and operator is not layer.root:
                raise TooComplex("an unsigned result inside a layer")
        if layer.base is not None:
            kind = KIND[layer.base.op]
        loads = program.loads[program.body_loads :]
        if kind in WINDOWED and any(self.graph.tensors[load.tensor].shape != shape for load in loads):
            raise TooComplex("a broadcast operand after a window")
        if layer.per_channel is not None and kind not in (None, Kind.ARRAY):
            raise TooComplex("a per-channel RESCALE after a reduction")
