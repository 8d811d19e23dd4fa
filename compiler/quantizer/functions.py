"""Elementwise operators of one variable: which tensors are functions of another one, and their values."""

from collections.abc import Callable, Container

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Trait, data_inputs, operators_with
from tosaic.compiler.ir.building.float_functions import FLOAT_FUNCTIONS

Array = np.ndarray

COMPARISONS = operators_with(Trait.COMPARES)
RENAMES = operators_with(Trait.RENAMES)
PASSED_ON = ("CAST", "IDENTITY")
"""Operators between reals that change no number, rounding apart."""
_ELEMENTWISE = operators_with(Trait.ELEMENTWISE) & FLOAT_FUNCTIONS.keys()
_STRAIGHT = _ELEMENTWISE & (operators_with(Trait.LINEAR) | operators_with(Trait.BOUNDS))
"""Operators that are lines, corners apart: integers compute them without a table."""


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
            pending += data_inputs(maker)[: 2 if maker.op == "MAXIMUM" else 1]
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
            missing = [operand for operand in data_inputs(op) if operand not in known]
            if missing:
                pending += missing
                continue
            arguments = [known[operand] for operand in data_inputs(op)]
            result = np.asarray(self._apply(op, arguments))
            known[name] = result.astype(dtype) if result.dtype.kind == "f" else result
        return known[tensor]

    def _apply(self, op: Operator, arguments: list[Array]) -> Array:
        if op.op == "CLAMP":
            return np.clip(arguments[0], op.attributes["min_val"], op.attributes["max_val"])
        if op.op in PASSED_ON:
            return arguments[0]
        return FLOAT_FUNCTIONS[op.op](*arguments)

    def _root(self, op: Operator, output: str) -> str:
        if op.op not in _ELEMENTWISE and not self._transparent(op):
            return output
        if not (is_real(self.graph, output) or self.graph.tensors[output].dtype is DType.BOOL):
            return output
        found = set()
        for name in data_inputs(op):
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
        names = [op.inputs[0], op.outputs[0]] if op.op in PASSED_ON else []
        return bool(names) and all(is_real(self.graph, name) for name in names)

    def _straight(self, tensor: str, root: str) -> bool:
        """Whether only straight operators of one tensor each lead from root to tensor."""
        while tensor != root:
            op = self.producers[tensor]
            if op.op not in _STRAIGHT and not self._transparent(op):
                return False
            # A square is a product: a table would round small ones, which norms are made of.
            variable = list({name for name in data_inputs(op) if self.graph.tensors[name].data is None})
            if len(variable) != 1:
                return False
            tensor = variable[0]
        return True
