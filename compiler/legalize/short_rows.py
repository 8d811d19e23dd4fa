"""Last axes of a few elements: what is reduced along them, or joined along them, has that axis first.

A vector holds elements of one row of the last axis, so rows of two leave 14 of 16 lanes idle: the sum of the squares
of complex numbers [..., 2], the largest of a few classes, channels that are stacked one by one. The same elements with
that axis first fill the lanes, and bytes are turned in blocks, several per cycle.
"""

import math
from collections.abc import Mapping

from tosaic.compiler.ir import DType, Graph, GraphIndex, Operator
from tosaic.compiler.legalize.reshapes import data_operands
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import ELEMENT, KIND, Kind
from tosaic.hw.config import Config

_LEAST_ROWS = 128
"""Fewer take little time either way."""
_LONGEST = {DType.INT8: 16, DType.BOOL: 16, DType.INT16: 8}
"""Elements of a row that is turned, by type, on 16 columns: longer ones fill the lanes, wider ones take as long to be
turned."""
_MEASURED_COLUMNS, _IDLE_COLUMNS = 16, 4
"""Columns that the longest rows are for; and columns of which short rows leave so few idle that none is turned."""
_REDUCTIONS = ("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL")
_LONGEST_CHOICE = {DType.INT8: 48, DType.INT16: 16}
"""The same where the place of the largest is wanted: its passes over partial results take longer."""
_MOST_BYTES = 2
"""Bytes that are turned at most for each element that is reduced."""
_FAR = 1 << 10


def _longest_row(kinds: Mapping[DType, int], dtype: DType, config: Config) -> int:
    """Elements of the longest rows of a type that are turned; below 2 where none is."""
    more = max(0, config.columns - _IDLE_COLUMNS)
    return kinds.get(dtype, 0) * more // (_MEASURED_COLUMNS - _IDLE_COLUMNS)


def turn_short_rows(graph: Graph, config: Config) -> Graph:
    """A graph with the same outputs; operators that nobody reads any more are left in it."""
    rules = (_joins_single_elements, _chooses_in_rows, _reduces_rows)
    if not any(rule(graph, operator, config) for operator in graph.operators for rule in rules):
        return graph
    graph = graph.copy()
    done: list[Operator] = []
    turning = _Turning(graph, config)
    for operator in graph.operators:
        new = Rewriting(graph, operator)
        if _joins_single_elements(graph, operator, config):
            _stack(new)
        elif _chooses_in_rows(graph, operator, config):
            _choose(new)
        elif _reduces_rows(graph, operator, config) and turning.bytes_of(operator.inputs[0]) <= _MOST_BYTES:
            turning.reduce(new)
        done += new.operators or [operator]
    graph.operators = done
    return graph


def _is_short(graph: Graph, name: str, config: Config) -> bool:
    """Whether a tensor has many rows of few elements."""
    shape = graph.tensors[name].shape
    return (
        len(shape) > 1
        and 1 < shape[-1] <= max(_longest_row(_LONGEST, dtype, config) for dtype in _LONGEST)
        and math.prod(shape[:-1]) >= _LEAST_ROWS
    )


def _joins_single_elements(graph: Graph, operator: Operator, config: Config) -> bool:
    """Whether a CONCAT makes rows of an element of each operand."""
    if operator.op != "CONCAT" or not _is_short(graph, operator.outputs[0], config):
        return False
    result = graph.tensors[operator.outputs[0]]
    short = result.shape[-1] <= _longest_row(_LONGEST, result.dtype, config)
    return (
        short
        and len(operator.inputs) == result.shape[-1]
        and operator.attributes["axis"] == len(result.shape) - 1
    )


def _stack(new: Rewriting) -> None:
    """Operands one after the other, then turned."""
    operator = new.operator
    shape, dtype = new.shape(operator.outputs[0]), new.dtype(operator.outputs[0])
    rows, count = math.prod(shape[:-1]), shape[-1]
    parts = [new.reshape(name, (1, rows)) for name in operator.inputs]
    whole = new.add("CONCAT", parts, (count, rows), dtype, axis=0)
    new.reshape(new.transpose(whole, (1, 0)), shape, operator.outputs[0])


def _chooses_in_rows(graph: Graph, operator: Operator, config: Config) -> bool:
    """Whether an ARGMAX is one of rows that had better be turned."""
    if operator.op != "ARGMAX":
        return False
    tensor = graph.tensors[operator.inputs[0]]
    rows, longest = math.prod(tensor.shape[:-1]), _longest_row(_LONGEST_CHOICE, tensor.dtype, config)
    last = operator.attributes["axis"] == len(tensor.shape) - 1
    return last and 1 < tensor.shape[-1] <= longest and rows >= _LEAST_ROWS


def _choose(new: Rewriting) -> None:
    """The place of the largest along the first axis."""
    operator, (result,) = new.operator, new.operator.outputs
    rank = len(new.shape(operator.inputs[0]))
    turned = new.transpose(operator.inputs[0], (rank - 1, *range(rank - 1)))
    attributes = {**operator.attributes, "axis": 0}
    new.add("ARGMAX", [turned], new.shape(result), new.dtype(result), result, **attributes)


def _reduces_rows(graph: Graph, operator: Operator, config: Config) -> bool:
    """Whether a reduction is one of short rows."""
    if operator.op not in _REDUCTIONS or not _is_short(graph, operator.inputs[0], config):
        return False
    return operator.attributes["axis"] == len(graph.tensors[operator.inputs[0]].shape) - 1


class _Turning:
    """Tensors of a graph with their last axis first, computed from the narrowest ones that lead to them."""

    def __init__(self, graph: Graph, config: Config) -> None:
        self.graph, self.config = graph, config
        self.index: GraphIndex = graph.index()
        self.turned: dict[str, str] = {}
        self.costs: dict[str, int] = {}

    def reduce(self, new: Rewriting) -> None:
        """A reduction along the first axis of what it reads."""
        operator, (result,) = new.operator, new.operator.outputs
        shape, dtype = new.shape(result), new.dtype(result)
        source = self._turned(new, operator.inputs[0])
        sums = new.add(operator.op, [source], (1, *shape[:-1]), dtype, **{**operator.attributes, "axis": 0})
        new.reshape(sums, shape, result)

    def bytes_of(self, name: str) -> int:
        """How many bytes must be turned for each row element of a tensor."""
        if name not in self.costs:
            tensor = self.graph.tensors[name]
            short = tensor.shape[-1:] == (1,) or tensor.shape[-1] <= _longest_row(
                _LONGEST, tensor.dtype, self.config
            )
            self.costs[name] = ELEMENT[tensor.dtype].bytes if tensor.dtype in ELEMENT and short else _FAR
            if tensor.data is not None or tensor.shape[-1:] == (1,):
                self.costs[name] = 0
            elif self._maker(name) is not None:
                self.costs[name] = min(self.costs[name], self._through(name))
        return self.costs[name]

    def _through(self, name: str) -> int:
        """The bytes if the operator that makes a tensor computes it in the other order."""
        maker = self._maker(name)
        assert maker is not None
        return sum(self.bytes_of(each) for each in dict.fromkeys(maker.inputs[: data_operands(maker)]))

    def _maker(self, name: str) -> Operator | None:
        """Who makes a tensor element by element, for nobody but such operators and reductions of its rows."""
        maker = self.index.producer(name)
        if maker is None or KIND.get(maker.op) is not Kind.ELEMENTWISE or len(maker.outputs) != 1:
            return None
        if maker.attributes.get("per_channel") or name in self.graph.outputs:
            return None
        rank = len(self.graph.tensors[name].shape)
        if any(len(self.graph.tensors[each].shape) != rank for each in maker.inputs[: data_operands(maker)]):
            return None
        kinds = {KIND.get(reader.op) for reader in self.index.consumers(name)}
        return maker if kinds <= {Kind.ELEMENTWISE, Kind.REDUCTION} else None

    def _turned(self, new: Rewriting, name: str) -> str:
        """A tensor with its last axis first."""
        if name not in self.turned:
            maker, shape = self._maker(name), new.shape(name)
            order = (len(shape) - 1, *range(len(shape) - 1))
            if maker is not None and self.bytes_of(name) == self._through(name):
                count = data_operands(maker)
                inputs = [self._turned(new, each) for each in maker.inputs[:count]] + maker.inputs[count:]
                there = [shape[axis] for axis in order]
                self.turned[name] = new.add(maker.op, inputs, there, new.dtype(name), **maker.attributes)
            elif shape[-1] == 1:
                self.turned[name] = new.reshape(name, [shape[axis] for axis in order])
            else:
                self.turned[name] = new.transpose(name, order)
        return self.turned[name]
