"""Adds operators to a graph on behalf of one that they replace."""

from typing import Any

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Tensor


class Rewriting:
    """The operators that replace `operator`. New tensors are called like its result with "'" and a number behind it."""

    def __init__(self, graph: Graph, operator: Operator, planes: dict[str, tuple[str, str]] | None = None):
        """`planes`: the byte planes that int16 tensors of the graph already have, see `planes.py`."""
        self.graph, self.operator = graph, operator
        self.planes = {} if planes is None else planes
        self.operators: list[Operator] = []
        self._count = 0

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.tensors[name].shape

    def constant(self, values: np.ndarray, dtype: DType) -> str:
        """A constant; its name."""
        return self.declare(values.shape, dtype, np.array(values, dtype.numpy, order="C"))

    def zeros(self, count: int, dtype: DType) -> str:
        return self.constant(np.zeros(count, np.int64), dtype)

    def sizes(self, values: list[int] | tuple[int, ...]) -> str:
        """A shape_t constant."""
        return self.constant(np.array(values, np.int64), DType.SHAPE)

    def add(
        self,
        op: str,
        inputs: list[str],
        shape: tuple[int, ...],
        dtype: DType,
        output: str | None = None,
        **attributes: Any,
    ) -> str:
        """An operator that writes a new tensor, or `output`; the tensor's name."""
        name = output or self.declare(shape, dtype)
        self.operators.append(Operator(op, inputs, [name], attributes, self.operator.name))
        return name

    def reshape(self, name: str, shape: tuple[int, ...], output: str | None = None) -> str:
        tensor = self.graph.tensors[name]
        if tensor.data is not None and output is None:
            return self.constant(tensor.data.reshape(shape), tensor.dtype)
        return self.add("RESHAPE", [name, self.sizes(shape)], shape, tensor.dtype, output)

    def reverse(self, name: str, axis: int) -> str:
        tensor = self.graph.tensors[name]
        if tensor.data is not None:
            return self.constant(np.flip(tensor.data, axis), tensor.dtype)
        return self.add("REVERSE", [name], tensor.shape, tensor.dtype, axis=axis)

    def transpose(self, name: str, order: tuple[int, ...], output: str | None = None) -> str:
        tensor = self.graph.tensors[name]
        if tensor.data is not None and output is None:
            return self.constant(tensor.data.transpose(order), tensor.dtype)
        shape = tuple(tensor.shape[i] for i in order)
        return self.add("TRANSPOSE", [name], shape, tensor.dtype, output, perms=list(order))

    def tiled(self, name: str, times: int) -> str:
        """A constant vector, so many times."""
        tensor = self.graph.tensors[name]
        assert tensor.data is not None
        return self.constant(np.tile(tensor.data, times), tensor.dtype)

    def slice(self, name: str, start: tuple[int, ...], size: tuple[int, ...]) -> str:
        tensor = self.graph.tensors[name]
        if tensor.data is not None:
            box = tuple(slice(i, i + count) for i, count in zip(start, size, strict=True))
            return self.constant(tensor.data[box], tensor.dtype)
        return self.add("SLICE", [name, self.sizes(start), self.sizes(size)], size, tensor.dtype)

    def pad(self, name: str, padding: list[int], fill: int) -> str:
        """`padding`: elements before and behind, axis by axis."""
        tensor = self.graph.tensors[name]
        shape = tuple(n + padding[2 * i] + padding[2 * i + 1] for i, n in enumerate(tensor.shape))
        if tensor.data is not None:
            pairs = list(zip(padding[::2], padding[1::2], strict=True))
            return self.constant(np.pad(tensor.data, pairs, constant_values=fill), tensor.dtype)
        value = self.constant(np.array([fill]), tensor.dtype)
        return self.add("PAD", [name, self.sizes(padding), value], shape, tensor.dtype)

    def declare(self, shape: tuple[int, ...], dtype: DType, data: np.ndarray | None = None) -> str:
        """A new tensor; its name."""
        while True:
            name = f"{self.operator.outputs[0]}'{self._count}"
            self._count += 1
            if name not in self.graph.tensors:
                break
        self.graph.tensors[name] = Tensor(name, tuple(shape), dtype, data)
        return name
