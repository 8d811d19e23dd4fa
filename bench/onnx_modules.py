"""Networks of ONNX files as PyTorch modules that torch.export takes: every shape is known when the module is made."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from torch.nn import functional

Operator = Callable[[Mapping[str, Any], Sequence[Any]], torch.Tensor]


class OnnxModule(torch.nn.Module):
    """Computes what the file computes; `shapes` are those of its inputs, by name, in forward()'s order."""

    def __init__(self, path: pathlib.Path, shapes: Mapping[str, Sequence[int]]):
        super().__init__()
        graph = _folded(path, shapes).graph
        self.sources, self.results = list(shapes), [each.name for each in graph.output]
        self.constants: dict[str, np.ndarray] = {}
        for each in graph.initializer:
            array = numpy_helper.to_array(each)
            self.constants[each.name] = array
            if _is_tensor(array):
                self.register_buffer(_buffer(each.name), torch.from_numpy(array.copy()))
        self.nodes = []
        for node in graph.node:
            if node.op_type not in OPERATORS:
                raise NotImplementedError(f"no module for {node.op_type} of {path.name}")
            attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
            self.nodes.append((node.op_type, attributes, list(node.input), node.output[0]))

    def forward(self, *inputs: torch.Tensor) -> Any:
        values = dict(zip(self.sources, inputs, strict=True))

        def operand(name: str) -> Any:
            if name in values or not name:
                return values.get(name)
            array = self.constants[name]
            if array.dtype.kind == "f":
                return getattr(self, _buffer(name)) if _is_tensor(array) else array.item()
            return array.reshape(-1).tolist()

        for op, attributes, names, result in self.nodes:
            values[result] = OPERATORS[op](attributes, [operand(name) for name in names])
        found = tuple(values[name] for name in self.results)
        return found[0] if len(found) == 1 else found


def _is_tensor(array: np.ndarray) -> bool:
    """Whether a constant is no number and no shape."""
    return array.dtype.kind == "f" and array.ndim > 0


def _buffer(name: str) -> str:
    return "constant_" + "".join(c if c.isalnum() else "_" for c in name)


def _folded(path: pathlib.Path, shapes: Mapping[str, Sequence[int]]) -> Any:
    """The model with these shapes, and what depends on shapes only computed by ONNX Runtime."""
    model = onnx.load(path)
    for port in model.graph.input:
        for axis, size in zip(port.type.tensor_type.shape.dim, shapes.get(port.name, ()), strict=False):
            axis.ClearField("dim_param")
            axis.dim_value = size
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    folded = path.with_suffix(".folded.onnx")
    options.optimized_model_filepath = str(folded)
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    return onnx.load(folded)


def _padded(a: Mapping[str, Any], x: torch.Tensor, value: float) -> tuple[torch.Tensor, list[int]]:
    """ONNX pads begin and end; PyTorch's operators pad both alike, with the rest before them."""
    pads = list(a.get("pads", [0] * (2 * (x.ndim - 2))))
    begin, end = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    if b"SAME" in a.get("auto_pad", b""):
        raise NotImplementedError("auto_pad")
    if begin == end:
        return x, begin
    both = [size for pair in zip(reversed(begin), reversed(end), strict=True) for size in pair]
    return functional.pad(x, both, value=value), [0] * len(begin)


def _conv(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    x, pad = _padded(a, given[0], 0.0)
    convolution = functional.conv2d if x.ndim == 4 else functional.conv1d
    bias = given[2] if len(given) > 2 else None
    rest = [list(a.get(name, [1] * (x.ndim - 2))) for name in ("strides", "dilations")]
    return convolution(x, given[1], bias, rest[0], pad, rest[1], a.get("group", 1))


def _max_pool(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    x, pad = _padded(a, given[0], -torch.inf)
    strides = a.get("strides", [1, 1])
    return functional.max_pool2d(x, a["kernel_shape"], strides, pad, ceil_mode=bool(a.get("ceil_mode", 0)))


def _gemm(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    weights = given[1] if a.get("transB", 0) else given[1].T
    return functional.linear(given[0], weights, given[2] if len(given) > 2 else None)


def _batch_norm(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    x, scale, bias, mean, variance = given
    return functional.batch_norm(x, mean, variance, scale, bias, eps=a.get("epsilon", 1e-5))


def _clip(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    low, high = (float(each) for each in (given[1:] if len(given) > 1 else (a["min"], a["max"])))
    return functional.hardtanh(given[0], low, high)


def _mean(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    axes = given[1] if len(given) > 1 else a["axes"]
    return given[0].mean(list(axes), keepdim=bool(a.get("keepdims", 1)))


def _greatest(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    axes = given[1] if len(given) > 1 else a["axes"]
    return given[0].amax(list(axes), keepdim=bool(a.get("keepdims", 1)))


def _squeeze(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    return torch.squeeze(given[0], tuple(given[1] if len(given) > 1 else a["axes"]))


def _unsqueeze(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    x = given[0]
    for axis in sorted(given[1] if len(given) > 1 else a["axes"]):
        x = x.unsqueeze(axis)
    return x


def _pad(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    pads = given[1] if len(given) > 1 else a["pads"]
    rank = len(pads) // 2
    return functional.pad(given[0], [pads[i + end] for i in reversed(range(rank)) for end in (0, rank)])


def _reshape(a: Mapping[str, Any], given: Sequence[Any]) -> torch.Tensor:
    x, shape = given
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)])


OPERATORS: dict[str, Operator] = {
    "Conv": _conv,
    "MaxPool": _max_pool,
    "Gemm": _gemm,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "ReduceMean": _mean,
    "ReduceMax": _greatest,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Pad": _pad,
    "Reshape": _reshape,
    "GlobalAveragePool": lambda a, given: given[0].mean(list(range(2, given[0].ndim)), keepdim=True),
    "Relu": lambda a, given: torch.relu(given[0]),
    "LeakyRelu": lambda a, given: functional.leaky_relu(given[0], a.get("alpha", 0.01)),
    "Sigmoid": lambda a, given: torch.sigmoid(given[0]),
    "HardSigmoid": lambda a, given: torch.clamp(
        given[0] * a.get("alpha", 0.2) + a.get("beta", 0.5), 0.0, 1.0
    ),
    "Softmax": lambda a, given: torch.softmax(given[0], a.get("axis", -1)),
    "Transpose": lambda a, given: given[0].permute(list(a["perm"])),
    "Flatten": lambda a, given: given[0].flatten(a.get("axis", 1)),
    "Add": lambda a, given: given[0] + given[1],
    "Sub": lambda a, given: given[0] - given[1],
    "Mul": lambda a, given: given[0] * given[1],
    "Div": lambda a, given: given[0] / given[1],
    "Max": lambda a, given: torch.maximum(given[0], given[1]),
    "Sqrt": lambda a, given: torch.sqrt(given[0]),
    "Pow": lambda a, given: given[0] ** float(given[1]),
}
