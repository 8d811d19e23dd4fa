"""TRANSPOSEs of a few planes to channels last: the image of an ONNX or PyTorch network.

The vector unit puts three planes together pixel by pixel. To the array they are an image of one channel that has a row
for each plane, and the TRANSPOSE is a convolution whose kernel covers all rows: output channel k is one times plane k.
Pixels that share vectors (`place/pixel_groups.py`) fill the array's columns, and what is outside comes and goes while
the array computes.
"""

import dataclasses
import math

import numpy as np

from tosaic.compiler.cost.array import planes_cycles
from tosaic.compiler.cost.vector import joined_planes_cycles
from tosaic.compiler.ir import DType, Graph, GraphIndex, Operator
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.strided import is_multiplied
from tosaic.compiler.machine import group_sizes
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class _Planes:
    """What a TRANSPOSE turns: [images, count, pixels] to [images, pixels, count]."""

    images: int
    count: int
    pixels: int

    def on_vector(self, config: Config) -> int:
        """The cycles of VECTOR."""
        return joined_planes_cycles(self.images, self.count, self.pixels, config)

    def on_array(self, config: Config) -> float:
        """The cycles of the convolution."""
        shared = group_sizes(self.pixels, config.columns)
        return planes_cycles(self.images, self.count, self.pixels, shared, config)


def interleave_planes(graph: Graph, config: Config) -> Graph:
    """A graph with the same outputs; TRANSPOSEs that the array computes in fewer cycles are convolutions."""
    graph, done = graph.copy(), list[Operator]()
    index = graph.index()
    for operator in graph.operators:
        new, planes = Rewriting(graph, operator), _planes(graph, index, operator)
        if planes is not None and planes.on_array(config) < planes.on_vector(config):
            _convolve(new, planes)
        done += new.operators or [operator]
    graph.operators = done
    return graph


def _planes(graph: Graph, index: GraphIndex, operator: Operator) -> _Planes | None:
    """What a TRANSPOSE of bytes turns; None where it moves more, or MATMULs read its source as it is."""
    if operator.op != "TRANSPOSE" or graph.tensors[operator.outputs[0]].dtype is not DType.INT8:
        return None
    shape = graph.tensors[operator.inputs[0]].shape
    before = [axis for axis, size in enumerate(shape) if size > 1]
    after = [axis for axis in operator.attributes["perms"] if shape[axis] > 1]
    first = next((place for place, axis in enumerate(after) if axis != before[place]), None)
    if first is None or is_multiplied(graph, index, operator.outputs[0]):
        return None
    kept, moved = before[:first], before[first:]
    turn = moved.index(after[first])
    if after[first:] != moved[turn:] + moved[:turn]:
        return None
    return _Planes(*(math.prod(shape[axis] for axis in axes) for axes in (kept, moved[:turn], moved[turn:])))


def _convolve(new: Rewriting, planes: _Planes) -> None:
    """A convolution by ones, and a RESCALE by one that makes bytes of its sums."""
    (result,), int8, int32 = new.operator.outputs, DType.INT8, DType.INT32
    count, shape = planes.count, (planes.images, 1, planes.pixels, planes.count)
    rows = new.reshape(new.operator.inputs[0], (planes.images, count, planes.pixels, 1))
    ones = new.constant(np.eye(count, dtype=np.int8).reshape(count, count, 1, 1), int8)
    none = new.zeros(1, int8)
    sums = new.add(
        "CONV2D",
        [rows, ones, new.zeros(count, int32), none, none],
        shape,
        int32,
        stride=[1, 1],
        pad=[0, 0, 0, 0],
        dilation=[1, 1],
        acc_type=int32,
        local_bound=False,
    )
    multiplier, shift = new.constant(np.array([1 << 30]), int32), new.constant(np.array([30]), int8)
    pixels = new.add(
        "RESCALE",
        [sums, multiplier, shift, new.zeros(1, int32), none],
        shape,
        int8,
        scale32=True,
        rounding_mode="SINGLE_ROUND",
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
    )
    new.reshape(pixels, new.shape(result), result)
