"""Writes a quantized network as a TOSA 1.0 integer graph, batch 1, single rounding (PRO-INT, no extension).

Each layer becomes the operators a TFLite conversion would give: CONV2D -> RESCALE -> CLAMP for a convolution
with ReLU; RESCALE, RESCALE -> ADD -> RESCALE -> CLAMP for a residual add; AVG_POOL2D; RESHAPE. A layer's last
tensor carries the layer's name, so that reports and `--check --layers` read like the network's description.
"""

from collections.abc import Mapping

import numpy as np
from digits_float import Parameters
from digits_network import CLASSES, IMAGE_SIZE, Add, AveragePool, Conv, Flatten, Layer, output_shapes
from digits_quantization import INT8_MAX, Quantization, quantize_add, quantize_conv
from numpy.typing import NDArray

from tosaic.compiler.ir import DType, Graph, Operator, Tensor

INPUT, OUTPUT = "image", "scores"


class GraphWriter:
    """Builds the graph layer by layer; every method adds the operators of one step and returns nothing."""

    def __init__(self, name: str):
        self.graph = Graph(name)

    def tensor(self, name: str, shape: tuple[int, ...], dtype: DType) -> str:
        """Declares a computed tensor."""
        self.graph.tensors[name] = Tensor(name, shape, dtype)
        return name

    def constant(self, name: str, values: NDArray[np.generic], dtype: DType) -> str:
        """Declares a constant; the same name must always mean the same values."""
        self.graph.tensors[name] = Tensor(
            name, values.shape, dtype, np.ascontiguousarray(values, dtype.numpy)
        )
        return name

    def zero_point(self, value: int, dtype: DType) -> str:
        """A zero-point operand [1], shared by everything that needs this value."""
        return self.constant(f"zero_point_{dtype.name.lower()}_{value}", np.array([value]), dtype)

    def operator(self, op: str, inputs: list[str], output: str, **attributes: object) -> None:
        """Appends an operator named after the tensor it writes."""
        self.graph.operators.append(Operator(op, inputs, [output], attributes, f"{op}_{output}"))

    def rescale(
        self,
        source: str,
        target: str,
        multiplier: NDArray[np.int32],
        shift: NDArray[np.int8],
        zero_points: tuple[int, int],
    ) -> None:
        """RESCALE from `source` to the declared `target`; zero points of input and output."""
        tensors = self.graph.tensors
        operands = [
            self.constant(f"{target}_multiplier", multiplier, DType.INT32),
            self.constant(f"{target}_shift", shift, DType.INT8),
            self.zero_point(zero_points[0], tensors[source].dtype),
            self.zero_point(zero_points[1], tensors[target].dtype),
        ]
        self.operator(
            "RESCALE",
            [source, *operands],
            target,
            scale32=True,
            rounding_mode="SINGLE_ROUND",
            per_channel=len(multiplier) > 1,
            input_unsigned=False,
            output_unsigned=False,
        )

    def rescale_to_layer(
        self,
        source: str,
        layer: Conv | Add,
        multiplier: NDArray[np.int32],
        shift: NDArray[np.int8],
        zero_point: int,
    ) -> None:
        """int32 `source` to the layer's int8 output, through CLAMP if the layer ends in ReLU."""
        shape = self.graph.tensors[source].shape
        rescaled = f"{layer.name}_rescaled" if layer.relu else layer.name
        self.tensor(rescaled, shape, DType.INT8)
        self.rescale(source, rescaled, multiplier, shift, (0, zero_point))
        if layer.relu:
            self.tensor(layer.name, shape, DType.INT8)
            self.operator("CLAMP", [rescaled], layer.name, min_val=zero_point, max_val=INT8_MAX)

    def conv(
        self, layer: Conv, source: str, shape: tuple[int, ...], parameters: Parameters,
        input_quantization: Quantization, output_quantization: Quantization,
    ) -> None:  # fmt: skip
        """CONV2D or DEPTHWISE_CONV2D with its rescale."""
        weight, bias = parameters[f"{layer.name}.weight"], parameters[f"{layer.name}.bias"]
        constants = quantize_conv(layer, weight, bias, input_quantization, output_quantization)
        accumulator = self.tensor(f"{layer.name}_accumulator", shape, DType.INT32)
        operands = [
            self.constant(f"{layer.name}_weight", constants.weight, DType.INT8),
            self.constant(f"{layer.name}_bias", constants.bias, DType.INT32),
            self.zero_point(input_quantization.zero_point, DType.INT8),
            self.zero_point(0, DType.INT8),
        ]
        self.operator(
            "DEPTHWISE_CONV2D" if layer.depthwise else "CONV2D",
            [source, *operands],
            accumulator,
            pad=list(layer.pad),
            stride=[layer.stride, layer.stride],
            dilation=[1, 1],
            local_bound=False,
            acc_type=DType.INT32,
        )
        self.rescale_to_layer(
            accumulator, layer, constants.multiplier, constants.shift, output_quantization.zero_point
        )

    def add(self, layer: Add, source: str, quantizations: Mapping[str, Quantization]) -> None:
        """Residual add: both operands to one int32 scale, ADD, and back to int8."""
        target = quantizations[layer.name]
        constants = quantize_add(quantizations[source], quantizations[layer.skip], target)
        shape = self.graph.tensors[source].shape
        wide = []
        for side, name, scale in (("left", source, constants.left), ("right", layer.skip, constants.right)):
            wide.append(self.tensor(f"{layer.name}_{side}", shape, DType.INT32))
            self.rescale(name, wide[-1], *_operands(scale), (quantizations[name].zero_point, 0))
        total = self.tensor(f"{layer.name}_sum", shape, DType.INT32)
        self.operator("ADD", wide, total)
        self.rescale_to_layer(total, layer, *_operands(constants.output), target.zero_point)

    def average_pool(self, layer: AveragePool, source: str, quantization: Quantization) -> None:
        """AVG_POOL2D over the whole image; the zero point takes part in the rounding."""
        _, height, width, channels = self.graph.tensors[source].shape
        self.tensor(layer.name, (1, 1, 1, channels), DType.INT8)
        zero_point = self.zero_point(quantization.zero_point, DType.INT8)
        self.operator(
            "AVG_POOL2D",
            [source, zero_point, zero_point],
            layer.name,
            kernel=[height, width],
            stride=[1, 1],
            pad=[0, 0, 0, 0],
            acc_type=DType.INT32,
        )

    def reshape(self, source: str, target: str, shape: tuple[int, ...]) -> None:
        """RESHAPE; the new shape is a constant operand."""
        self.tensor(target, shape, DType.INT8)
        dimensions = self.constant(f"{target}_shape", np.array(shape), DType.SHAPE)
        self.operator("RESHAPE", [source, dimensions], target)


def _operands(scale: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Makes per-tensor multiplier and shift operands [1]."""
    return np.array([scale[0]], np.int32), np.array([scale[1]], np.int8)


def build_graph(
    name: str,
    network: tuple[Layer, ...],
    parameters: Parameters,
    quantizations: Mapping[str, Quantization],
) -> Graph:
    """The integer graph: input "image" int8 [1, 8, 8, 1], output "scores" int8 [1, 10]."""
    writer, shapes = GraphWriter(name), output_shapes(network)
    source = writer.tensor(INPUT, (1, IMAGE_SIZE, IMAGE_SIZE, 1), DType.INT8)
    quantization = quantizations["input"]
    for layer in network:
        shape = (1, *shapes[layer.name])
        match layer:
            case Conv():
                writer.conv(layer, source, shape, parameters, quantization, quantizations[layer.name])
            case Add():
                writer.add(layer, source, quantizations)
            case AveragePool():
                writer.average_pool(layer, source, quantization)
            case Flatten():
                writer.reshape(source, layer.name, shape)
        source, quantization = layer.name, quantizations[layer.name]
    writer.reshape(source, OUTPUT, (1, CLASSES))
    writer.graph.inputs, writer.graph.outputs = [INPUT], [OUTPUT]
    return writer.graph
