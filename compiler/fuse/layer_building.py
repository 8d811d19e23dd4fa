"""Builds one layer of given operators: the expression that they compute, and its micro-program."""

import dataclasses
import itertools

import numpy as np

from tosaic.compiler.fuse.bounds import KnownBounds
from tosaic.compiler.fuse.expression import Immediate, Load, Node, Value
from tosaic.compiler.fuse.fold import constant_scalar
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.microprogram import MicroProgram, TooComplex, assemble
from tosaic.compiler.fuse.reduced_axis import reduced_axis
from tosaic.compiler.fuse.reductions import PARTIAL, reduced_value
from tosaic.compiler.fuse.rows import by_channels, by_rows
from tosaic.compiler.fuse.translate import Translator
from tosaic.compiler.fuse.windows import array_value
from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.compiler.machine import ELEMENT, KIND, WINDOWED, Kind
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import Element, Op


@dataclasses.dataclass(frozen=True)
class Members:
    """The operators of a layer."""

    operators: list[Operator]
    """The operators in the order of the graph."""
    base: Operator | None
    """The convolution, pool or reduction at the start, if any."""
    root: Operator
    """The one whose result the layer stores."""


class LayerBuilding:
    """A layer on its way."""

    def __init__(self, graph: Graph, config: Config, members: Members, bounds: KnownBounds | None = None):
        self.graph, self.config, self.members = graph, config, members
        self.bounds = bounds or KnownBounds(graph)
        self._share, self._turns = False, frozenset[str]()
        self._values: dict[str, Value] = {}

    def build(self, *, share: bool, turns: frozenset[str] = frozenset()) -> Layer:
        """The layer. With `share` a tensor that several operators read is loaded once: a register instead of streams.
        `turns`: two parts of a tensor that one stream brings in turn.

        Raises UnsupportedError where the vector unit cannot compute it, TooComplex where it might with fewer
        operators."""
        self._share, self._turns, self._values = share, turns, {}
        graph, members = self.graph, self.members
        output = members.root.outputs[0]
        has_array = self._on_array
        translator = Translator(graph, self._operand, self._uses, output, has_array=has_array)
        for operator in members.operators:
            self._values[operator.outputs[0]] = self._value(operator, translator)
        target = graph.tensors[output]
        if target.dtype not in ELEMENT:
            raise UnsupportedError(f"{members.root}: the accelerator does not store {target}")
        turning = self._loaded(min(turns)) if turns else None
        assert turning is None or isinstance(turning, Load)
        program = assemble(self._values[output], self.config, turning)
        if turns and translator.per_channel is not None:
            raise TooComplex("parts of a tensor in turn where parameters go by channels")
        reduction, continued = None, None
        if has_array and members.root.op == "REDUCE_SUM":
            # The pixels' operands come in their order, as they do without sums.
            program = dataclasses.replace(program, body_loads=0)
            before = Load(PARTIAL, ELEMENT[target.dtype])
            continued = assemble(Node(Op.ADD, self._values[output], before), self.config)
        else:
            reduction = reduced_axis(graph, self.config, members.operators, self._values[output], program)
            program = self._splatted(program)
        layer = Layer(
            members.operators,
            members.base,
            members.root,
            program,
            translator.per_channel,
            translator.table,
            translator.bias,
            reduction,
            self._lines(program),
            continued,
            self._by_rows(program, translator.per_channel is not None),
            self._by_channels(program),
        )
        self._check(layer, program)
        return layer

    @property
    def _on_array(self) -> bool:
        base = self.members.base
        return base is not None and KIND.get(base.op) is Kind.ARRAY

    # --- values

    def _value(self, operator: Operator, translator: Translator) -> Value:
        kind = KIND.get(operator.op)
        if operator is self.members.base:
            if kind is Kind.ARRAY:
                return array_value(bias=self._has_biases(operator))
            # A window slides over memory, even where that holds one value only.
            return reduced_value(self.graph, operator, self._loaded if kind is Kind.POOL else self._operand)
        if kind is Kind.ELEMENTWISE:
            return translator.translate(operator)
        if operator.op == "REDUCE_SUM" and self._on_array:
            return reduced_value(self.graph, operator, self._operand)
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

    def _has_biases(self, operator: Operator) -> bool:
        """Whether sums of an array operator begin with something: zeros take no parameters."""
        if operator.op == "MATMUL":
            return False
        biases = self.graph.tensors[operator.inputs[2]].data
        return biases is None or bool(biases.any())

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
        line = self._line(name)
        bounds = self.bounds(name) if tensor.dtype is DType.INT32 else None
        if name in self._turns:
            return Load(min(self._turns), ELEMENT[tensor.dtype], shared=True, turn=name)
        return Load(name, ELEMENT[tensor.dtype] if line is None else _narrowest(line), bounds=bounds)

    def _line(self, name: str) -> np.ndarray | None:
        """A constant operand of an array layer that differs along the channels only."""
        base, shape = self.members.base, self.graph.tensors[self.members.root.outputs[0]].shape
        data = self.graph.tensors[name].data
        if base is None or KIND.get(base.op) is not Kind.ARRAY or data is None or not data.ndim:
            return None
        along = data.size > 1 and data.shape[-1:] == shape[-1:] == (data.size,)
        return data.reshape(-1) if along and data.dtype.kind == "i" else None

    def _lines(self, program: MicroProgram) -> dict[int, np.ndarray]:
        lines = ((stream, self._line(load.tensor)) for stream, load in enumerate(program.loads))
        return {stream: line for stream, line in lines if line is not None}

    def _splatted(self, program: MicroProgram) -> MicroProgram:
        """The program of an elementwise layer, which is told what operands have one number for a whole row."""
        shape, tensors = self.graph.tensors[self.members.root.outputs[0]].shape, self.graph.tensors
        if self.members.base is not None or shape[-1:] in ((), (1,)):
            return program
        loads = enumerate(program.loads)
        splats = frozenset(stream for stream, load in loads if tensors[load.tensor].shape == (*shape[:-1], 1))
        return dataclasses.replace(program, splats=splats)

    def _by_rows(self, program: MicroProgram, per_channel: bool) -> MicroProgram | None:
        """The program for batches of rows, where operands have a number for each row."""
        output = self.graph.tensors[self.members.root.outputs[0]]
        if per_channel or not program.splats or program.turns:
            return None
        return by_rows(self._values[output.name], program, ELEMENT[output.dtype], self.config)

    def _by_channels(self, program: MicroProgram) -> MicroProgram | None:
        """The program for the pixels of a group of channels, where operands differ along the channels only."""
        tensors, output = self.graph.tensors, self.graph.tensors[self.members.root.outputs[0]]
        if program.turns:
            return None
        lines = frozenset(
            stream
            for stream, load in enumerate(program.loads)
            if _is_line(tensors[load.tensor].shape, output.shape)
        )
        if self._on_array and self.members.root.op != "REDUCE_SUM":
            lines = frozenset(self._lines(program))
        elif self.members.base is not None:
            return None
        return by_channels(self._values[output.name], program, lines, ELEMENT[output.dtype], self.config)

    # --- limits

    def _check(self, layer: Layer, program: MicroProgram) -> None:
        """Raises TooComplex where one pass cannot do all of the layer."""
        shape, kind = self.graph.tensors[(layer.base or layer.root).outputs[0]].shape, None
        for operator in layer.operators:
            if operator.attributes.get("output_unsigned") and operator is not layer.root:
                raise TooComplex("an unsigned result inside a layer")
        if layer.base is not None:
            kind = KIND[layer.base.op]
        images = [
            load
            for stream, load in enumerate(program.loads)
            if stream >= program.body_loads and stream not in layer.lines
        ]
        if kind in WINDOWED and any(self.graph.tensors[load.tensor].shape != shape for load in images):
            raise TooComplex("a broadcast operand after a window")
        if layer.per_channel is not None and kind not in (None, Kind.ARRAY):
            raise TooComplex("a per-channel RESCALE after a reduction")


def _is_line(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an operand of `shape` is the same for some neighbouring pixels of `target`, and differs along its
    channels."""
    if len(target) < 2 or len(shape) != len(target) or not shape[-1] == target[-1] > 1:
        return False
    pixels = itertools.takewhile(lambda sizes: sizes[0] == 1, zip(shape[-2::-1], target[-2::-1], strict=True))
    return any(size > 1 for _, size in pixels)


def _narrowest(values: np.ndarray) -> Element:
    """The type of the fewest bytes that holds all values: a load takes a cycle for each byte."""
    low, high = int(values.min()), int(values.max())
    types = (Element.INT8, Element.INT16, Element.INT32)
    return next(
        (each for each in types if -(1 << 8 * each.bytes - 1) <= low and high < 1 << 8 * each.bytes - 1),
        Element.INT48,
    )
