"""Dynamically quantized layers, as ONNX Runtime's `quantize_dynamic` writes them, in reals.

Their weights are integers with a scale, and their activations are quantized at run time by the range that they have
just then, which no static program can. What a layer means is the product of its real input by the reals that its
weights stand for; that is what it becomes. ONNX Runtime's own rounding of the activations is left out.
"""

import collections
from collections.abc import Iterator
from typing import Any

import numpy as np

from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.errors import ModelError

_PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
_TO_FLOAT = "MatMulIntegerToFloat"
_WHOLE = "DynamicQuantizeMatMul"
_FUSED = {_TO_FLOAT: (1, 3, 5, 6), _WHOLE: (1, 2, 3, 4)}
"""Products that ONNX Runtime's optimizer writes: where weights, their scale and zero point, and the bias are."""
_LSTM = "DynamicQuantizeLSTM"
_LSTM_INPUTS = 8
"""Number of inputs of the float LSTM; scales and zero points of both weights follow."""
_FLOATS = (1, 10)
"""float32 and float16 in TensorProto.DataType."""


def expand_dynamic(model: Any) -> None:
    """Rewrites the graph of a ModelProto in place, where a DynamicQuantizeLinear feeds nothing but such layers.

    ModelError for a layer whose weights contradict each other.
    """
    kinds = {node.op_type for node in model.graph.node}
    if not kinds & {"DynamicQuantizeLinear", _LSTM, _WHOLE}:
        return
    rewriting, nodes = _Rewriting(model), []
    for node in model.graph.node:
        try:
            nodes += rewriting.rewritten(node)
        except (LookupError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(
                f"{node.op_type} {node.name!r}: its inputs do not fit the operator ({reason})"
            ) from None
    del model.graph.node[:]
    model.graph.node.extend(nodes)


class _Rewriting:
    """What is known of the graph, and which of its tensors have become real."""

    def __init__(self, model: Any) -> None:
        self.onnx, self.graph = load_onnx_package(), model.graph
        self.tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self.readers: dict[str, list[Any]] = collections.defaultdict(list)
        for reader in _all_nodes(model.graph):
            for name in reader.input:
                self.readers[name].append(reader)
        self.results = {value.name for value in model.graph.output}
        self.real: set[str] = set()
        """Results of DynamicQuantizeLinear that are their own input now."""

    def rewritten(self, node: Any) -> list[Any]:
        """What takes the node's place."""
        if node.op_type == "DynamicQuantizeLinear" and self._is_for_products(node):
            whole, scale, _ = node.output
            self.real.add(whole)
            self._constant(np.array(1, np.float32), scale)
            return [self.onnx.helper.make_node("Identity", [node.input[0]], [whole], node.name)]
        if node.op_type in _PRODUCTS and node.input[0] in self.real:
            weights = self._real_weights(node)
            kept = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
            inputs = [node.input[0], weights]
            return [
                self.onnx.helper.make_node(_PRODUCTS[node.op_type], inputs, node.output, node.name, **kept)
            ]
        if node.op_type == _WHOLE or (node.op_type == _TO_FLOAT and node.input[0] in self.real):
            return self._fused_product(node) if self._has_known_factors(node) else [node]
        if node.op_type == _LSTM and node.domain == "com.microsoft" and self._has_known_weights(node):
            return [self._lstm(node)]
        return [node]

    def _is_for_products(self, node: Any) -> bool:
        """Whether its integers and zero point are read by products with known weights only, whose results are cast."""
        whole, scale, zero_point = (*node.output, "", "")[:3]
        if not zero_point or self.results & set(node.output):
            return False
        readers = self.readers[whole] + self.readers[zero_point]
        return bool(readers) and all(
            self._is_fused_product_of(node, reader)
            or (
                reader.op_type in _PRODUCTS
                and (reader.input[0], (*reader.input, "", "")[2]) == (whole, zero_point)
                and whole not in reader.input[1:]
                and all(name in self.tensors for name in (*reader.input[1:2], *reader.input[3:4]) if name)
                and self._is_cast(reader.output[0])
            )
            for reader in readers
        )

    def _is_fused_product_of(self, node: Any, reader: Any) -> bool:
        """Whether a product that gives reals takes the integers of a DynamicQuantizeLinear, and nothing else of it."""
        if reader.op_type != _TO_FLOAT:
            return False
        whole, scale, zero_point = node.output
        given = [*reader.input, *[""] * 7][:7]
        own = (given[0], given[2], given[4]) == (whole, scale, zero_point)
        return own and whole not in given[1:] and self._has_known_factors(reader)

    def _has_known_factors(self, node: Any) -> bool:
        given = [*node.input, *[""] * 7]
        weights, scale, zero_point, _ = (given[index] for index in _FUSED[node.op_type])
        return all(name in self.tensors for name in (weights, scale)) and zero_point in (*self.tensors, "")

    def _fused_product(self, node: Any) -> list[Any]:
        """The product of the real input by the reals that the weights stand for, and the bias."""
        given = [*node.input, *[""] * 7]
        weights, scale, zero_point, bias = (given[index] for index in _FUSED[node.op_type])
        whole = self._array(weights).astype(np.float32)
        whole = whole - (self._array(zero_point).astype(np.float32) if zero_point else np.float32(0))
        stem = node.output[0]
        real = self._constant((whole * self._array(scale)).astype(np.float32), f"{stem}/weights")
        product = f"{stem}/product" if bias else stem
        nodes = [self.onnx.helper.make_node("MatMul", [node.input[0], real], [product], node.name)]
        if bias:
            nodes.append(self.onnx.helper.make_node("Add", [product, bias], [stem], f"{stem}/Add"))
        return nodes

    def _is_cast(self, name: str) -> bool:
        """Whether only casts to floats read a tensor."""
        readers = self.readers[name]
        return name not in self.results and all(
            reader.op_type == "Cast" and reader.attribute[0].i in _FLOATS for reader in readers
        )

    def _array(self, name: str) -> np.ndarray:
        return np.asarray(self.onnx.numpy_helper.to_array(self.tensors[name]))

    def _constant(self, values: np.ndarray, name: str) -> str:
        self.graph.initializer.append(self.onnx.numpy_helper.from_array(values, name))
        return name

    def _real_weights(self, node: Any) -> str:
        """Weights less their zero point: one, or one for each result channel."""
        whole = self._array(node.input[1]).astype(np.float32)
        if len(node.input) > 3 and node.input[3]:
            zero_point = self._array(node.input[3]).astype(np.float32)
            if zero_point.size > 1 and node.op_type == "ConvInteger":
                zero_point = zero_point.reshape(-1, *(1,) * (whole.ndim - 1))
            whole = whole - zero_point
        return self._constant(whole, f"{node.output[0]}/weights")

    # --- LSTM -----------------------------------------------------------------------------------------------

    def _has_known_weights(self, node: Any) -> bool:
        names = [*node.input[1:3], *node.input[_LSTM_INPUTS:]]
        return len(names) == 6 and all(name in self.tensors for name in names if name)

    def _lstm(self, node: Any) -> Any:
        """The LSTM of the default domain; this one has its weights as [directions, inputs, 4 * units]."""
        inputs = list(node.input[:_LSTM_INPUTS])
        for index, encoding in ((1, _LSTM_INPUTS), (2, _LSTM_INPUTS + 2)):
            whole = self._array(node.input[index]).astype(np.float32)
            scale, zero_point = (
                self._array(name).astype(np.float32) if name else np.zeros(1, np.float32)
                for name in node.input[encoding : encoding + 2]
            )
            if whole.ndim != 3 or {scale.ndim, zero_point.ndim} - {1, 2}:
                raise ModelError(f"{_LSTM} {node.name!r}: its weights and scales do not fit together")
            # One pair for each direction, or for each direction and column.
            lines = [
                each.reshape(each.shape[0], 1, -1 if each.ndim == 2 else 1) for each in (scale, zero_point)
            ]
            real = (whole - lines[1]) * lines[0]
            if real.shape != whole.shape:
                raise ModelError(f"{_LSTM} {node.name!r}: its weights and scales do not fit together")
            name = f"{node.output[0] or node.name}/weights_{index}"
            inputs[index] = self._constant(np.ascontiguousarray(real.transpose(0, 2, 1)), name)
        while inputs and not inputs[-1]:
            inputs.pop()
        kept = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
        return self.onnx.helper.make_node("LSTM", inputs, node.output, node.name, **kept)


def _all_nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of the graphs inside."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _all_nodes(inner)
