"""The compiler's intermediate representation: a TOSA graph in its 1.0 meaning.

Parameters that 0.30 keeps in attributes (zero points, multipliers, shifts, padding, tables, shapes) are
constant operands here. CONST and CONST_SHAPE are not operators: their value is the `data` of a tensor.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.operators import OPERATORS
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.errors import ModelError, UnsupportedError


@dataclass(frozen=True)
class State:
    """What a model remembers from run to run: what it starts as, and the output that is the input in the next run."""

    output: str
    initial: np.ndarray


@dataclass(frozen=True)
class Declared:
    """What a function that a graph was traced from says of an input or an output: NumPy's type and shape, and what its
    values lie in. Of an input that is what the graph was made for: other values give wrong integers."""

    dtype: str
    shape: tuple[int, ...]
    low: int
    high: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "Declared":
        """What `dataclasses.asdict` made of one, out of JSON."""
        return cls(
            str(fields["dtype"]), tuple(map(int, fields["shape"])), int(fields["low"]), int(fields["high"])
        )

    def fits(self, shape: Sequence[int], dtype: DType) -> bool:
        """Whether a tensor of that shape and type may be it: another model of the same name may have other ones."""
        own = np.dtype(self.dtype)
        held = (
            DType.INT32
            if own.itemsize == 8
            else DType.BOOL
            if own == np.bool_
            else DType[f"INT{8 * own.itemsize}"]
        )
        return dtype is held and (self.shape or (1,)) == tuple(shape)


@dataclass
class Graph:
    """A TOSA graph, or one branch of a control-flow operator.

    `operators` are in topological order. `version` is the (major, minor, patch) of the file it came from.
    `subgraphs` holds the branches by region name; every level of nesting shares the one dictionary of the
    outermost graph's reader, so that any operator finds its branches in its own graph. `states` are the inputs that
    carry something from run to run, by name: TOSA's variables, and what other formats have of the kind.
    """

    name: str
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    version: tuple[int, ...] = (1, 0, 0)
    subgraphs: dict[str, "Graph"] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    labels: dict[str, list[str | int]] = field(default_factory=dict)
    """Class labels by output, of a classifier: what its elements stand for. Not in a .tosa file."""
    why_floats: str = ""
    """Why a model that brings encodings has not become integers: the refusal of whoever needs these. Not in a file."""
    declared: dict[str, Declared] = field(default_factory=dict)
    """Of a traced function, by input or output. Not in a .tosa file."""
    orders: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Inputs and outputs that the compiler has turned: the model's axes in the order that they have here."""

    @property
    def run_inputs(self) -> list[str]:
        """The inputs that a run is given: those that are no states."""
        return [name for name in self.inputs if name not in self.states]

    @property
    def run_outputs(self) -> list[str]:
        """The outputs that a run gives: those that are not left for the next run."""
        left = {state.output for state in self.states.values()}
        return [name for name in self.outputs if name not in left]

    def tensor(self, name: str) -> Tensor:
        """The tensor called `name`; ModelError if there is none."""
        try:
            return self.tensors[name]
        except KeyError:
            raise ModelError(f"graph {self.name!r} has no tensor {name!r}") from None

    def const(self, name: str) -> np.ndarray | None:
        """Value of the constant tensor `name`; None if the tensor is computed at run time."""
        return self.tensor(name).data

    def index(self) -> "GraphIndex":
        """Who writes and who reads each tensor, as the graph is now; a pass that asks more than once makes one."""
        return GraphIndex(self)

    def producer(self, name: str) -> Operator | None:
        """The operator that writes tensor `name`; None for inputs and constants. It looks at all: see `index`."""
        return next((op for op in self.operators if name in op.outputs), None)

    def consumers(self, name: str) -> list[Operator]:
        """The operators that read tensor `name`, in order. It looks at all operators: see `index`."""
        return [op for op in self.operators if name in op.inputs]

    def operand(self, op: Operator, operand_name: str) -> str | None:
        """Name of the tensor that is operand `operand_name` (such as "input_zp") of `op`.

        None when the operand is optional and absent. An unknown operand name is a ValueError: it is a
        mistake of the caller, not of the model.
        """
        index = OPERATORS[op.op].operand_index(operand_name)
        return op.inputs[index] if index < len(op.inputs) else None

    def operand_value(self, op: Operator, operand_name: str) -> np.ndarray:
        """Returns the value of a constant operand.

        Raises ModelError if the operand is missing and UnsupportedError if it is not a constant.
        """
        name = self.operand(op, operand_name)
        if name is None:
            raise ModelError(f"{op}: operand {operand_name} is missing")
        value = self.const(name)
        if value is None:
            raise UnsupportedError(
                f"{op}: operand {operand_name} ({self.tensor(name)}) is computed at run time; "
                "only constants are supported there"
            )
        return value

    def walk(self) -> Iterator["Graph"]:
        """This graph, then every subgraph once."""
        yield self
        yield from self.subgraphs.values()

    def copy(self) -> "Graph":
        """A graph that can be changed without changing this one; constant data is shared, not copied."""
        subgraphs: dict[str, Graph] = {}
        for name, subgraph in self.subgraphs.items():
            subgraphs[name] = subgraph._copy_one(subgraphs)
        return self._copy_one(subgraphs)

    def _copy_one(self, subgraphs: dict[str, "Graph"]) -> "Graph":
        tensors = {name: Tensor(t.name, t.shape, t.dtype, t.data) for name, t in self.tensors.items()}
        operators = [
            Operator(
                op.op,
                list(op.inputs),
                list(op.outputs),
                {
                    key: list(value) if isinstance(value, list) else value
                    for key, value in op.attributes.items()
                },
                op.name,
            )
            for op in self.operators
        ]
        return Graph(
            self.name,
            list(self.inputs),
            list(self.outputs),
            tensors,
            operators,
            self.version,
            subgraphs,
            dict(self.states),
            dict(self.labels),
            self.why_floats,
            dict(self.declared),
            dict(self.orders),
        )


class GraphIndex:
    """Producers and consumers of a graph's tensors at the moment when it was made: O(1) each, O(operators) to make.

    A pass that changes the graph tells the index with `add` and `remove`, or makes a new one.
    """

    def __init__(self, graph: Graph) -> None:
        self._producers: dict[str, Operator] = {}
        self._consumers: dict[str, list[Operator]] = {}
        for op in graph.operators:
            self.add(op)

    def producer(self, name: str) -> Operator | None:
        """The operator that writes tensor `name`; None for inputs and constants."""
        return self._producers.get(name)

    def consumers(self, name: str) -> list[Operator]:
        """The operators that read tensor `name`, each once, in the order in which the index met them."""
        return self._consumers.get(name, [])

    def add(self, op: Operator) -> None:
        """The graph has a new operator."""
        self._producers.update(dict.fromkeys(op.outputs, op))
        for name in dict.fromkeys(op.inputs):
            self._consumers.setdefault(name, []).append(op)

    def remove(self, op: Operator) -> None:
        """The graph has lost an operator; call it before the operator's operands are changed."""
        for name in op.outputs:
            del self._producers[name]
        for name in dict.fromkeys(op.inputs):
            self._consumers[name] = [other for other in self._consumers[name] if other is not op]


def parameter_inputs(operator: Operator) -> list[str]:
    """Zero points, tables and scales: inputs that are not broadcast to the result, but read as they are."""
    operands = OPERATORS[operator.op].operands
    return [name for name, operand in zip(operator.inputs, operands, strict=False) if operand.ranks == (1, 1)]
