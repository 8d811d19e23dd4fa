"""Rewrites TRANSPOSE_CONV2D as a CONV2D (clause 2.3.11), in one of two forms.

Output row top + y * stride + r meets kernel rows r, r + stride, ... only, on input rows y, y - 1, ... So for each
of the `stride` remainders r there is a convolution of stride 1 with every stride-th kernel row. All of them are one
convolution with as many times the output channels, whose result is then put in order. The other form puts zeros
between the inputs and turns the kernel round: more products, but nothing to put in order.
"""

import dataclasses
import math

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine_numbers import REMAINDER_IDLE_CHANNELS, REMAINDER_MOVE_PRODUCTS


@dataclasses.dataclass(frozen=True)
class _TransposedAxis:
    """One axis of the image."""

    extent: int
    kernel: int
    stride: int
    before: int
    outputs: int

    @property
    def taps(self) -> int:
        """Kernel positions with the same remainder, at most."""
        return -(-self.kernel // self.stride)

    @property
    def first(self) -> int:
        """Position of the first outputs, in strides."""
        return -self.before // self.stride

    @property
    def positions(self) -> int:
        return (self.outputs - 1 - self.before) // self.stride - self.first + 1

    @property
    def padding(self) -> list[int]:
        """Padding of the convolution of stride 1; perhaps negative."""
        return [self.taps - 1 - self.first, self.first + self.positions - self.extent]

    @property
    def cropped(self) -> int:
        """Outputs computed before the first one that is wanted."""
        return -self.before - self.first * self.stride


def transpose_convolution(new: Rewriting) -> bool:
    """Rewrites a TRANSPOSE_CONV2D; its weights may be computed at run time, its bias not."""
    data, weight = new.operator.inputs[:2]
    (top, _, left, _), strides = new.operator.attributes["out_pad"], new.operator.attributes["stride"]
    (_, ih, iw, ic), (_, kh, kw, _) = new.shape(data), new.shape(weight)
    _, oh, ow, _ = new.shape(new.operator.outputs[0])
    rows, columns = (
        _TransposedAxis(ih, kh, strides[0], top, oh),
        _TransposedAxis(iw, kw, strides[1], left, ow),
    )
    computed = rows.positions * columns.positions * math.prod(strides)
    idle = max(1, REMAINDER_IDLE_CHANNELS // new.shape(weight)[0])
    products = idle * ic * (oh * ow * kh * kw - computed * rows.taps * columns.taps)
    if products > computed * REMAINDER_MOVE_PRODUCTS:
        _by_remainder(new, rows, columns)
    else:
        _zeros_between(new)
    return True


def _by_remainder(new: Rewriting, rows: _TransposedAxis, columns: _TransposedAxis) -> None:
    graph, operator = new.graph, new.operator
    data, weight, bias, *zero_points = operator.inputs
    (n, _, _, ic), (oc, kh, kw, _) = new.shape(data), new.shape(weight)
    sy, sx, ty, tx = rows.stride, columns.stride, rows.taps, columns.taps
    zero_point = int(graph.operand_value(operator, "weight_zp").reshape(-1)[0])
    if (ty * sy, tx * sx) != (kh, kw):
        weight = new.pad(weight, [(0, 0), (0, ty * sy - kh), (0, tx * sx - kw), (0, 0)], zero_point)
    weight = new.transpose(new.reshape(weight, (oc, ty, sy, tx, sx, ic)), (2, 4, 0, 1, 3, 5))
    weight = new.reshape(weight, (sy * sx * oc, ty, tx, ic))
    weight = new.reverse(new.reverse(weight, 1), 2)
    values = graph.const(bias)
    assert values is not None
    if values.size > 1:
        bias = new.tile(bias, [sy * sx])
    y, x = rows.positions, columns.positions
    result = new.add(
        "CONV2D",
        [data, weight, bias, *zero_points],
        (n, y, x, sy * sx * oc),
        DType.INT32,
        pad=[*rows.padding, *columns.padding],
        stride=[1, 1],
        dilation=[1, 1],
        acc_type=operator.attributes.get("acc_type"),
        local_bound=operator.attributes.get("local_bound", False),
    )
    result = new.transpose(new.reshape(result, (n, y, x, sy, sx, oc)), (0, 1, 3, 2, 4, 5))
    shape = new.shape(operator.outputs[0])
    if (n, y * sy, x * sx, oc) == shape:
        new.reshape(result, shape, operator.outputs[0])
        return
    result = new.reshape(result, (n, y * sy, x * sx, oc))
    start, size = new.sizes((0, rows.cropped, columns.cropped, 0)), new.sizes(shape)
    new.add("SLICE", [result, start, size], shape, DType.INT32, operator.outputs[0])


def _zeros_between(new: Rewriting) -> None:
    """Strided inputs with zero points between them, convolved with the kernel turned round."""
    graph, operator = new.graph, new.operator
    data, weight, bias, *zero_points = operator.inputs
    (top, bottom, left, right), (sy, sx) = operator.attributes["out_pad"], operator.attributes["stride"]
    (n, ih, iw, ic), (_, kh, kw, _) = new.shape(data), new.shape(weight)
    if sy > 1 or sx > 1:
        zero_point = int(graph.operand_value(operator, "input_zp").reshape(-1)[0])
        data = new.reshape(data, (n, ih, 1, iw, 1, ic))
        data = new.pad(data, [(0, 0), (0, 0), (0, sy - 1), (0, 0), (0, sx - 1), (0, 0)], zero_point)
        data = new.reshape(data, (n, ih * sy, iw * sx, ic))
        data = new.slice(data, (0, 0, 0, 0), (n, (ih - 1) * sy + 1, (iw - 1) * sx + 1, ic))
    turned = new.reverse(new.reverse(weight, 1), 2)
    new.add(
        "CONV2D",
        [data, turned, bias, *zero_points],
        new.shape(operator.outputs[0]),
        DType.INT32,
        operator.outputs[0],
        pad=[top + kh - 1, bottom + kh - 1, left + kw - 1, right + kw - 1],
        stride=[1, 1],
        dilation=[1, 1],
        acc_type=operator.attributes.get("acc_type"),
        local_bound=operator.attributes.get("local_bound", False),
    )
