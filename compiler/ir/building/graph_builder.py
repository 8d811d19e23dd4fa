"""Building graphs in Python: shapes and types of results follow from the operator table."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.float_formats import nearest
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.operators import OPERATORS, OpView
from tosaic.compiler.ir.tensors import Operator, Tensor
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
        self.label = ""
        """What the labels of the operators begin with, before a "/"."""
        self._counts: dict[str, int] = {}
        self._replaced: Operator | None = None
        self._gathered: list[Operator] = []

    @classmethod
    def replacing(cls, graph: Graph, operator: Operator) -> Self:
        """A builder of the operators that take the place of one: the caller puts `operators` into the graph.

        New tensors stand in the graph at once. They are called like the operator's result, with "'" and a number.
        """
        builder = cls(graph.name)
        builder.graph, builder._replaced = graph, operator
        return builder

    @property
    def operators(self) -> list[Operator]:
        """The operators of the graph; of a builder that replaces one, those that it made."""
        return self.graph.operators if self._replaced is None else self._gathered

    def input(self, name: str, shape: Sequence[int], dtype: DType) -> str:
        """Declares a graph input."""
        self.graph.inputs.append(self._declare(name, tuple(shape), dtype).name)
        return name

    def constant(self, values: ArrayLike, dtype: DType, name: str | None = None) -> str:
        """Adds a constant; floats are rounded to the type, ModelError if an integer does not fit it."""
        data = constant_data(values, dtype, f"constant {name or 'of the graph'}")
        tensor = self._declare(name or self._fresh("constant"), data.shape, dtype)
        tensor.data = data
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

        `dtype` is the output's type, needed where the inputs' types leave a choice (CAST, RESCALE, RESIZE); `output`
        its name, which may be that of a tensor of this shape and type that has no definition yet. ModelError if the
        operator's shapes do not fit.
        """
        spec = OPERATORS[op]
        if spec.infer is None:
            raise ValueError(f"the shape of {op}'s output does not follow from its inputs")
        operator = Operator(
            op, list(inputs), [output or self._fresh(op.lower())], attributes, self._label(op)
        )
        view = OpView(self.graph, operator, spec)
        shape = tuple(spec.infer(view)[0])
        dtype = dtype or _result_type(view)
        name = operator.outputs[0]
        known = self.graph.tensors.get(name) if self._replaced else None
        if known is None:
            self._declare(name, shape, dtype)
        elif (known.shape, known.dtype) != (shape, dtype):
            raise ModelError(f"{operator} makes {Tensor(name, shape, dtype)}, which the graph has as {known}")
        self.operators.append(operator)
        return name

    def declare(self, shape: tuple[int, ...], dtype: DType) -> str:
        """A new tensor that nothing defines yet; its name."""
        return self._declare(self._fresh("tensor"), tuple(shape), dtype).name

    def output(self, name: str) -> str:
        """Declares a tensor to be a graph output."""
        self.graph.outputs.append(self.graph.tensor(name).name)
        return name

    def finish(self) -> Graph:
        """The validated graph."""
        validate(self.graph)
        return self.graph

    def _label(self, op: str) -> str:
        if self._replaced is not None:
            return self._replaced.name
        return f"{self.label}/{self._fresh(op)}" if self.label else self._fresh(op)

    def _fresh(self, stem: str) -> str:
        """A name that no tensor has."""
        stem = f"{stem}_" if self._replaced is None else f"{self._replaced.outputs[0]}'"
        while True:
            count = self._counts.get(stem, 0)
            self._counts[stem] = count + 1
            if f"{stem}{count}" not in self.graph.tensors:
                return f"{stem}{count}"

    def _declare(self, name: str, shape: tuple[int, ...], dtype: DType) -> Tensor:
        if name in self.graph.tensors:
            raise ModelError(f"tensor {name!r} is declared twice in graph {self.graph.name!r}")
        self.graph.tensors[name] = Tensor(name, shape, dtype)
        return self.graph.tensors[name]


def constant_data(values: ArrayLike, dtype: DType, what: str) -> np.ndarray:
    """The data of a constant: floats are rounded to the type; ModelError naming `what` if an integer does not fit."""
    array = np.asarray(values)
    if dtype.is_integer and array.size and not dtype.min <= array.min() <= array.max() <= dtype.max:
        raise ModelError(f"{what} does not fit {dtype.spelling}: {array.min()} to {array.max()}")
    return nearest(array, dtype) if dtype.is_float else array.astype(dtype.numpy)


def fresh_name(graph: Graph, stem: str) -> str:
    """A name that no tensor of the graph has: `stem`, or with a number."""
    name, count = stem, 0
    while name in graph.tensors:
        count += 1
        name = f"{stem}_{count}"
    return name


def add_constant(graph: Graph, stem: str, values: ArrayLike, dtype: DType = DType.FP32) -> str:
    """Adds a constant to a graph that is there; its name, which begins with `stem`."""
    name = fresh_name(graph, stem)
    data = constant_data(values, dtype, f"constant {name}")
    graph.tensors[name] = Tensor(name, data.shape, dtype, data)
    return name


def _result_type(node: OpView) -> DType:
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
