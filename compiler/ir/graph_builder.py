"""Building graphs in Python: shapes and types of results follow from the operator table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.float_formats import nearest
from tosaic.compiler.ir.graph import Graph, Operator, Tensor
from tosaic.compiler.ir.operators import OPERATORS, Node
from tosaic.compiler.ir.validate import validate
from tosaic.errors import ModelError


class GraphBuilder:
    """Adds inputs, constants and operators to a graph; every method returns a tensor name.

    ```
    build = GraphBuilder("negation")
    x = build.input("x", (1, 4), DType.INT8)
    zero = build.constant([0], DType.INT8)
    build.output(build.add("NEGATE", [x, zero, zero]))
    graph = build.finish()
    ```
    """

    def __init__(self, name: str = "main") -> None:
        self.graph = Graph(name)
        self._counts: dict[str, int] = {}

    def input(self, name: str, shape: Sequence[int], dtype: DType) -> str:
        """Declares a graph input."""
        self.graph.inputs.append(self._declare(name, tuple(shape), dtype).name)
        return name

    def constant(self, values: ArrayLike, dtype: DType, name: str | None = None) -> str:
        """Adds a constant; floats are rounded to the type, ModelError if an integer does not fit it."""
        array = np.asarray(values)
        if dtype.is_integer and array.size and not dtype.min <= array.min() <= array.max() <= dtype.max:
            raise ModelError(
                f"constant {name or 'of the graph'} does not fit {dtype.spelling}: "
                f"{array.min()} to {array.max()}"
            )
        tensor = self._declare(name or self._fresh("constant"), array.shape, dtype)
        tensor.data = nearest(array, dtype) if dtype.is_float else array.astype(dtype.numpy)
        return tensor.name

    def shape(self, sizes: Sequence[int], name: str | None = None) -> str:
        """Adds a shape_t constant."""
        return self.constant(np.array(sizes, np.int64), DType.SHAPE, name or self._fresh("shape"))

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        *,
        dtype: DType | None = None,
        output: str | None = None,
        **attributes: Any,
    ) -> str:
        """Adds an operator with one output and returns its name.

        `dtype` is the output's type, needed where the inputs' types leave a choice (CAST, RESCALE, RESIZE).
        ModelError if the operator's shapes do not fit.
        """
        spec = OPERATORS[op]
        operator = Operator(
            op, list(inputs), [output or self._fresh(op.lower())], attributes, self._fresh(op)
        )
        node = Node(self.graph, operator, spec)
        if spec.infer is None:
            raise ValueError(f"the shape of {op}'s output does not follow from its inputs")
        shape = spec.infer(node)[0]
        self._declare(operator.outputs[0], tuple(shape), dtype or _result_type(node))
        self.graph.operators.append(operator)
        return operator.outputs[0]

    def output(self, name: str) -> str:
        """Declares a tensor to be a graph output."""
        self.graph.outputs.append(self.graph.tensor(name).name)
        return name

    def finish(self) -> Graph:
        """The validated graph."""
        validate(self.graph)
        return self.graph

    def _fresh(self, stem: str) -> str:
        while True:
            count = self._counts.get(stem, 0)
            self._counts[stem] = count + 1
            if f"{stem}_{count}" not in self.graph.tensors:
                return f"{stem}_{count}"

    def _declare(self, name: str, shape: tuple[int, ...], dtype: DType) -> Tensor:
        if name in self.graph.tensors:
            raise ModelError(f"tensor {name!r} is declared twice in graph {self.graph.name!r}")
        self.graph.tensors[name] = Tensor(name, shape, dtype)
        return self.graph.tensors[name]


def _result_type(node: Node) -> DType:
    """The one type that the operator's result can have, given its inputs."""
    result = node.spec.results[0]
    if isinstance(result.type, DType):
        return result.type
    known = {
        operand.type: tensor.dtype
        for operand in node.spec.operands
        if isinstance(operand.type, str)
        for tensor in node.tensors(operand.name)[:1]
    }
    fits = {
        mode.types[result.type]
        for mode in node.spec.modes
        if all(mode.types[variable] is dtype for variable, dtype in known.items() if variable in mode.types)
    }
    if len(fits) == 1:
        return fits.pop()
    if not fits:
        found = ", ".join(f"{variable}={dtype.spelling}" for variable, dtype in known.items())
        raise ModelError(f"{node.op}: no supported combination of data types has {found}")
    choices = ", ".join(sorted(dtype.name for dtype in fits))
    raise ValueError(f"{node.spec.name}: state the output's dtype, it can be {choices}")
