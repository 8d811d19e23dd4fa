"""Elementwise operators of one variable: which tensors are functions of another one, and their values."""

import math
from collections.abc import Callable, Container

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator

Array = np.ndarray

_erf = np.vectorize(math.erf, otypes=[float])


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "ABS": np.abs,
    "ADD": np.add,
    "CEIL": np.ceil,
    "COS": np.cos,
    "EQUAL": np.equal,
    "ERF": _erf,
    "EXP": np.exp,
    "FLOOR": np.floor,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LOG": np.log,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_NOT": np.logical_not,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_XOR": np.logical_xor,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "MUL": np.multiply,
    "NEGATE": np.negative,
    "POW": np.power,
    "RECIPROCAL": lambda x: 1.0 / x,
    "RSQRT": lambda x: 1.0 / np.sqrt(x),
    "SELECT": np.where,
    "SIGMOID": _sigmoid,
    "SIN": np.sin,
    "SUB": np.subtract,
    "TANH": np.tanh,
    "CLAMP": np.clip,
}
ELEMENTWISE = frozenset({*_FUNCTIONS, "CAST", "IDENTITY"})
"""Operators whose results depend on one element of each operand."""
_DATA_OPERANDS = {"MUL": 2, "NEGATE": 1}
COMPARISONS = ("EQUAL", "GREATER", "GREATER_EQUAL")
_STRAIGHT = {"MUL", "NEGATE", "ADD", "SUB", "CLAMP", "MAXIMUM", "MINIMUM"}
"""Operators that are lines, corners apart: integers compute them without a table."""


def data_operands(op: Operator) -> list[str]:
    """The operands that hold numbers, not shifts and zero points."""
    return op.inputs[: _DATA_OPERANDS.get(op.op, len(op.inputs))]


def is_real(graph: Graph, tensor: str) -> bool:
    """Whether a tensor holds floats."""
    return graph.tensors[tensor].dtype.is_float


def less_its_maximum(op: Operator, producer: Callable[[str], Operator | None]) -> bool:
    """Whether a SUB takes the maximum of its first operand from it, as softmax does, or more."""
    pending = [op.inputs[1]] if op.op == "SUB" else []
    while pending:
        maker = producer(pending.pop())
        if maker is not None and maker.op == "REDUCE_MAX" and maker.inputs[0] == op.inputs[0]:
            return True
        if maker is not None and maker.op in ("RESHAPE", "TILE", "IDENTITY", "REDUCE_MAX", "MAXIMUM"):
            pending += data_operands(maker)[: 2 if maker.op == "MAXIMUM" else 1]
    return False


class UnaryFunctions:
    """Finds tensors that are functions, element by element, of one other tensor: their root.

    A tensor that is computed otherwise, or from two tensors, is its own root. Constants of one element take part
    in functions; a tensor of another shape than its root (broadcast) does not. Of the tensors in `whole`, which hold
    whole numbers, comparisons are exact: no table begins before one.
    """

    def __init__(self, graph: Graph, whole: Container[str] = ()) -> None:
        self.graph, self.whole = graph, whole
        self.producers = {name: op for op in graph.operators for name in op.outputs}
        self.roots: dict[str, str] = {}
        for op in graph.operators:
            for name in op.outputs:
                self.roots[name] = self._root(op, name)

    def root(self, tensor: str) -> str:
        """The tensor that `tensor` is a function of; itself if there is no other."""
        return self.roots.get(tensor, tensor)

    def is_table(self, tensor: str) -> bool:
        """Whether a tensor is best computed by a table from its root: a function that is no chain of lines."""
        root = self.root(tensor)
        if root == tensor or tensor in self.whole or not is_real(self.graph, tensor):
            return False
        return not self._straight(tensor, root)

    def __call__(self, tensor: str, values: Array, dtype: type[np.floating] = np.float64) -> Array:
        """The function's values at values of the root, computed in `dtype`; never NaN or infinite."""
        known: dict[str, Array] = {self.root(tensor): np.asarray(values, dtype)}
        with np.errstate(all="ignore"):
            result = self._value(tensor, known, dtype)
        return np.nan_to_num(np.asarray(result, dtype), nan=0.0)

    def _value(self, tensor: str, known: dict[str, Array], dtype: type[np.floating]) -> Array:
        pending = [tensor]
        while pending:
            name = pending[-1]
            if name in known:
                pending.pop()
                continue
            data = self.graph.tensors[name].data
            if data is not None:
                known[name] = np.asarray(data.reshape(-1)[0], dtype if data.dtype.kind == "f" else data.dtype)
                continue
            op = self.producers[name]
            missing = [operand for operand in data_operands(op) if operand not in known]
            if missing:
                pending += missing
                continue
            arguments = [known[operand] for operand in data_operands(op)]
            result = np.asarray(self._apply(op, arguments))
            known[name] = result.astype(dtype) if result.dtype.kind == "f" else result
        return known[tensor]

    def _apply(self, op: Operator, arguments: list[Array]) -> Array:
        if op.op == "CLAMP":
            return np.clip(arguments[0], op.attributes["min_val"], op.attributes["max_val"])
        if op.op in ("CAST", "IDENTITY"):
            return arguments[0]
        return _FUNCTIONS[op.op](*arguments)

    def _root(self, op: Operator, output: str) -> str:
        if op.op not in _FUNCTIONS and not self._transparent(op):
            return output
        if not (is_real(self.graph, output) or self.graph.tensors[output].dtype is DType.BOOL):
            return output
        found = set()
        for name in data_operands(op):
            tensor = self.graph.tensors[name]
            if tensor.data is not None:
                if tensor.data.size != 1:
                    return output
                continue
            found.add(self.roots.get(name, name))
        if len(found) != 1:
            return output
        root = found.pop()
        if root in self.whole and op.op in COMPARISONS:
            return output
        same = self.graph.tensors[root].shape == self.graph.tensors[output].shape
        return root if same and is_real(self.graph, root) else output

    def _transparent(self, op: Operator) -> bool:
        names = [op.inputs[0], op.outputs[0]] if op.op in ("CAST", "IDENTITY") else []
        return bool(names) and all(is_real(self.graph, name) for name in names)

    def _straight(self, tensor: str, root: str) -> bool:
        """Whether only straight operators of one tensor each lead from root to tensor."""
        while tensor != root:
            op = self.producers[tensor]
            if op.op not in _STRAIGHT and not self._transparent(op):
                return False
            # A square is a product: a table would round small ones, which norms are made of.
            variable = list({name for name in data_operands(op) if self.graph.tensors[name].data is None})
            if len(variable) != 1:
                return False
            tensor = variable[0]
        return True
