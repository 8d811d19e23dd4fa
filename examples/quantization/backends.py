"""A network is a function of a backend: one trains it, the other writes it as ONNX."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import autodiff
import numpy as np
from autodiff import Variable

Parameters = dict[str, np.ndarray]
"""Weights by name; `.weight` and `.scale` are decayed, `.bias` are not."""
EPSILON = 1e-5


class Backend(Protocol):
    """The layers that networks are written with; a tensor is whatever the backend makes of it."""

    batch: Any

    def parameter(self, name: str) -> Any: ...
    def linear(self, x: Any, name: str) -> Any: ...
    def convolve(self, x: Any, name: str, stride: int = 1, pad: int = 1, depthwise: bool = False) -> Any: ...
    def add(self, a: Any, b: Any) -> Any: ...
    def scale(self, a: Any, factor: float) -> Any: ...
    def matmul(self, a: Any, b: Any) -> Any: ...
    def reshape(self, a: Any, shape: Sequence[int]) -> Any: ...
    def transpose(self, a: Any, axes: Sequence[int]) -> Any: ...
    def global_average(self, a: Any) -> Any: ...
    def mean(self, a: Any, axis: int) -> Any: ...
    def relu(self, a: Any) -> Any: ...
    def gelu(self, a: Any) -> Any: ...
    def softmax(self, a: Any) -> Any: ...
    def layer_norm(self, a: Any, name: str) -> Any: ...
    def max_pool(self, a: Any, size: int) -> Any: ...


Network = Callable[[Backend, Any], Any]
"""Logits [N, 10] of images [N, 1, 8, 8]."""


class Training:
    """Runs a network and keeps what differentiation needs."""

    def __init__(self, parameters: Parameters) -> None:
        self.variables = {name: Variable(value) for name, value in parameters.items()}
        self.batch = -1

    def parameter(self, name: str) -> Variable:
        return self.variables[name]

    def linear(self, x: Variable, name: str) -> Variable:
        return autodiff.add(
            autodiff.matmul(x, self.parameter(f"{name}.weight")), self.parameter(f"{name}.bias")
        )

    def convolve(
        self, x: Variable, name: str, stride: int = 1, pad: int = 1, depthwise: bool = False
    ) -> Variable:
        y = autodiff.convolve(x, self.parameter(f"{name}.weight"), stride, pad, depthwise)
        return autodiff.add(y, autodiff.reshape(self.parameter(f"{name}.bias"), (-1, 1, 1)))

    def layer_norm(self, a: Variable, name: str) -> Variable:
        y = autodiff.normalize(a, EPSILON)
        return autodiff.add(
            autodiff.multiply(y, self.parameter(f"{name}.scale")), self.parameter(f"{name}.bias")
        )

    def scale(self, a: Variable, factor: float) -> Variable:
        return autodiff.multiply(a, Variable(np.float32(factor) * np.ones(1, np.float32)))

    def reshape(self, a: Variable, shape: Sequence[int]) -> Variable:
        return autodiff.reshape(a, shape)

    def global_average(self, a: Variable) -> Variable:
        return autodiff.mean(a, (2, 3))

    def mean(self, a: Variable, axis: int) -> Variable:
        return autodiff.mean(a, axis)

    add = staticmethod(autodiff.add)
    matmul = staticmethod(autodiff.matmul)
    transpose = staticmethod(autodiff.transpose)
    relu = staticmethod(autodiff.relu)
    gelu = staticmethod(autodiff.gelu)
    softmax = staticmethod(autodiff.softmax)
    max_pool = staticmethod(autodiff.max_pool)


class OnnxWriter:
    """Writes a network's nodes; tensors are names. Opset 20 has Gelu and LayerNormalization."""

    def __init__(self, parameters: Parameters) -> None:
        import onnx

        self.onnx = onnx
        self.parameters, self.nodes, self.constants = parameters, [], {}  # type: ignore[var-annotated]
        self.batch = -1

    def model(self, network: Network) -> Any:
        """The ModelProto of a network with an open dimension `batch`."""
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        logits = network(self, "images")
        self._node("Identity", [logits], "logits")
        graph = helper.make_graph(
            self.nodes,
            "digits",
            [helper.make_tensor_value_info("images", kind, ["batch", 1, 8, 8])],
            [helper.make_tensor_value_info("logits", kind, ["batch", 10])],
            [self.onnx.numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    def parameter(self, name: str) -> str:
        return self._constant(name, self.parameters[name])

    def linear(self, x: str, name: str) -> str:
        product = self._node("MatMul", [x, self.parameter(f"{name}.weight")])
        return self._node("Add", [product, self.parameter(f"{name}.bias")])

    def convolve(self, x: str, name: str, stride: int = 1, pad: int = 1, depthwise: bool = False) -> str:
        weight = self.parameter(f"{name}.weight")
        groups = len(self.parameters[f"{name}.weight"]) if depthwise else 1
        inputs = [x, weight, self.parameter(f"{name}.bias")]
        return self._node("Conv", inputs, strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def add(self, a: str, b: str) -> str:
        return self._node("Add", [a, b])

    def scale(self, a: str, factor: float) -> str:
        return self._node(
            "Mul", [a, self._constant(f"factor_{len(self.nodes)}", np.array(factor, np.float32))]
        )

    def matmul(self, a: str, b: str) -> str:
        return self._node("MatMul", [a, b])

    def reshape(self, a: str, shape: Sequence[int]) -> str:
        return self._node(
            "Reshape", [a, self._constant(f"shape_{len(self.nodes)}", np.array(shape, np.int64))]
        )

    def transpose(self, a: str, axes: Sequence[int]) -> str:
        return self._node("Transpose", [a], perm=list(axes))

    def global_average(self, a: str) -> str:
        return self._node("Flatten", [self._node("GlobalAveragePool", [a])])

    def mean(self, a: str, axis: int) -> str:
        return self._node(
            "ReduceMean", [a, self._constant(f"axis_{len(self.nodes)}", np.array([axis]))], keepdims=0
        )

    def relu(self, a: str) -> str:
        return self._node("Relu", [a])

    def gelu(self, a: str) -> str:
        return self._node("Gelu", [a])

    def softmax(self, a: str) -> str:
        return self._node("Softmax", [a], axis=-1)

    def layer_norm(self, a: str, name: str) -> str:
        inputs = [a, self.parameter(f"{name}.scale"), self.parameter(f"{name}.bias")]
        return self._node("LayerNormalization", inputs, axis=-1, epsilon=EPSILON)

    def max_pool(self, a: str, size: int) -> str:
        return self._node("MaxPool", [a], kernel_shape=[size] * 2, strides=[size] * 2)

    def _constant(self, name: str, value: np.ndarray) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def _node(self, op: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        output = output or f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(op, inputs, [output], name=output, **attributes))
        return output
