"""ONNX networks that bring their encodings, node by node."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Pairs:
    """Writes float nodes between pairs; weights are integers with one scale for each output channel."""

    def __init__(self, kind: str = "int8", seed: int = 3) -> None:
        self.kind, self.random = np.dtype(kind), np.random.default_rng(seed)
        self.nodes, self.constants = [], {}

    def constant(self, value) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def node(self, op: str, *inputs: str, **attributes) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def pair(self, x: str, scale: float, zero_point: int) -> str:
        offset = 128 if self.kind == np.uint8 else 0
        parameters = (self.constant(np.float32(scale)), self.constant(self.kind.type(zero_point + offset)))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, *parameters), *parameters)

    def weight(self, shape, axis: int = 0, scale: float = 0.01) -> str:
        values = self.random.integers(-127, 128, shape, dtype=np.int8)
        scales = (scale * self.random.uniform(0.5, 2, shape[axis])).astype(np.float32)
        zeros = np.zeros(shape[axis], np.int8)
        return self.node("DequantizeLinear", *(self.constant(c) for c in (values, scales, zeros)), axis=axis)

    def model(self, shape, output: str):
        graph = helper.make_graph(
            [*self.nodes, helper.make_node("Identity", [output], ["y"])],
            "pairs",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
