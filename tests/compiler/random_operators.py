"""One operator of the table with random shapes, attributes and values, as golden evaluates it."""

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.ir import OPERATORS, DType, Graph, Operator, Tensor, Trait, operators_with
from tosaic.compiler.ir.operators import Operand, OpView
from tosaic.sim.golden import evaluate_operator

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator in a graph of its own, and the values of its operands."""

    graph: Graph
    operator: Operator
    values: list[np.ndarray]

    @property
    def shape(self) -> Shape:
        return self.graph.tensors[self.operator.outputs[0]].shape

    def results(self, values: Sequence[np.ndarray] | None = None, **attributes: Any) -> list[np.ndarray]:
        """Golden's results, perhaps of other values and with other attributes."""
        dtypes = [self.graph.tensors[name].dtype for name in self.operator.outputs]
        given = self.values if values is None else values
        return evaluate_operator(self.operator.op, given, self.operator.attributes | attributes, dtypes)


class Dice:
    """Random shapes and values of an operator's operands."""

    def __init__(self, seed: int):
        self.choose, self.random = random.Random(seed), np.random.default_rng(seed)
        self.graph, self.inputs, self.values = Graph("case"), list[str](), list[np.ndarray]()

    def shape(self, least: int = 0, most: int = 4) -> Shape:
        return tuple(self.choose.randint(1, 6) for _ in range(self.choose.randint(least, most)))

    def number(self, low: int, high: int) -> int:
        return self.choose.randint(low, high)

    def numbers(self, count: int, low: int, high: int) -> list[int]:
        return [self.number(low, high) for _ in range(count)]

    def operand(self, shape: Sequence[int], dtype: DType, low: int = -50, high: int = 50) -> None:
        """Random values, between the bounds; small whole ones of floating-point types, whose sums are exact."""
        if dtype is DType.BOOL:
            low, high = 0, 1
        self.given(self.random.integers(low, high, tuple(shape), endpoint=True), dtype, constant=False)

    def given(self, values: Any, dtype: DType, *, constant: bool = True) -> None:
        """These values, a constant."""
        array = np.asarray(values).astype(dtype.numpy)
        name = f"x{len(self.inputs)}"
        self.graph.tensors[name] = Tensor(name, array.shape, dtype, array if constant else None)
        self.inputs.append(name)
        self.values.append(array)

    def zeros(self, dtype: DType, count: int = 1) -> None:
        """Zero points."""
        for _ in range(count):
            self.given([self.number(-9, 9) if dtype is DType.INT8 else 0], dtype)

    def broadcast(self, shape: Shape) -> Shape:
        """The shape of an operand that is broadcast to another."""
        return tuple(1 if self.number(0, 3) == 0 else extent for extent in shape)

    def case(self, op: str, attributes: dict[str, Any], *dtypes: DType) -> Case:
        spec, graph = OPERATORS[op], self.graph
        operator = Operator(op, self.inputs, [], attributes, f"{op}_0")
        assert spec.infer is not None
        shapes = spec.infer(OpView(graph, operator, spec))
        for number, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
            operator.outputs.append(f"y{number}")
            graph.tensors[f"y{number}"] = Tensor(f"y{number}", tuple(shape), dtype)
        graph.operators, graph.outputs = [operator], list(operator.outputs)
        graph.inputs = [name for name in self.inputs if graph.tensors[name].data is None]
        return Case(graph, operator, self.values)


Recipe = Callable[[Dice, str], Case]


def _elementwise(**given: Any) -> Recipe:
    """An operator of which all operands are broadcast to the result, as the table says; in its first mode."""

    def make(dice: Dice, op: str) -> Case:
        spec, shape = OPERATORS[op], dice.shape()
        mode = spec.modes[0].types

        def type_of(operand: Operand) -> DType:
            return operand.type if isinstance(operand.type, DType) else mode[operand.type]

        for number, operand in enumerate(spec.operands):
            if operand.ranks == (1, 1):
                dice.given([0], type_of(operand))
            else:
                # Legal for all: shifts, divisors, powers.
                dice.operand(dice.broadcast(shape) if number else shape, type_of(operand), 1, 20)
        attributes = {each.name: each.default for each in spec.attributes if each.name not in given}
        return dice.case(op, attributes | given, type_of(spec.results[0]))

    return make


def _table(dice: Dice, op: str) -> Case:
    dice.operand(dice.shape(), DType.INT8, -128, 127)
    dice.operand((256,), DType.INT8, -128, 127)
    return dice.case(op, {}, DType.INT8)


def _rescale(dice: Dice, op: str) -> Case:
    each = dice.number(0, 1) == 1
    shape = dice.shape(int(each))
    count = shape[-1] if each else 1
    dice.operand(shape, DType.INT32, -(1 << 20), 1 << 20)
    dice.given(dice.numbers(count, 1 << 30, (1 << 31) - 1), DType.INT32)
    dice.given(dice.numbers(count, 38, 44), DType.INT8)
    dice.given([0], DType.INT32)
    dice.zeros(DType.INT8)
    signs = dict(input_unsigned=False, output_unsigned=False)
    return dice.case(
        op, dict(scale32=True, rounding_mode="SINGLE_ROUND", per_channel=each, **signs), DType.INT8
    )


def _window(dice: Dice, axes: int, taps: list[int], dilation: list[int], *, pool: bool) -> dict[str, Any]:
    """Padding and strides, and how large an image is that divides into them: `image`."""
    stride = dice.numbers(axes, 1, 3)
    image, pad = [], []
    for i in range(axes):
        reach = (taps[i] - 1) * dilation[i] + 1
        limit = taps[i] - 1 if pool else reach
        before, behind = dice.numbers(2, 0, min(limit, 3))
        outputs = dice.number(1, 6)
        size = (outputs - 1) * stride[i] + reach - before - behind
        while size < 1:
            size += stride[i]
        image, pad = [*image, size], [*pad, before, behind]
    return dict(image=image, pad=pad, stride=stride, dilation=dilation)


def _convolution(dice: Dice, op: str) -> Case:
    axes = 3 if op == "CONV3D" else 2
    taps, dilation = dice.numbers(axes, 1, 3), dice.numbers(axes, 1, 2)
    window = _window(dice, axes, taps, dilation, pool=False)
    n, channels, outputs = dice.number(1, 2), dice.number(1, 4), dice.number(1, 5)
    dice.operand((n, *window.pop("image"), channels), DType.INT8)
    if op == "DEPTHWISE_CONV2D":
        outputs = dice.number(1, 3)
        dice.operand((*taps, channels, outputs), DType.INT8)
        outputs *= channels
    else:
        dice.operand((outputs, *taps, channels), DType.INT8)
    dice.operand((outputs if dice.number(0, 3) else 1,), DType.INT32)
    dice.zeros(DType.INT8, 2)
    return dice.case(op, window | dict(acc_type=DType.INT32, local_bound=False), DType.INT32)


def _transposed(dice: Dice, op: str) -> Case:
    taps, channels, outputs = dice.numbers(2, 1, 4), dice.number(1, 3), dice.number(1, 4)
    dice.operand((dice.number(1, 2), *dice.numbers(2, 2, 5), channels), DType.INT8)
    dice.operand((outputs, *taps, channels), DType.INT8)
    dice.operand((outputs,), DType.INT32)
    dice.zeros(DType.INT8, 2)
    pad = [dice.number(max(-1, 1 - taps[i // 2]), 2) for i in range(4)]
    attributes = dict(out_pad=pad, stride=dice.numbers(2, 1, 3), acc_type=DType.INT32, local_bound=False)
    return dice.case(op, attributes, DType.INT32)


def _fully_connected(dice: Dice, op: str) -> Case:
    n, channels, outputs = dice.numbers(3, 1, 6)
    dice.operand((n, channels), DType.INT8)
    dice.operand((outputs, channels), DType.INT8)
    dice.operand((outputs,), DType.INT32)
    dice.zeros(DType.INT8, 2)
    return dice.case(op, {}, DType.INT32)


def _product(dice: Dice, op: str) -> Case:
    n, h, c, w = dice.numbers(4, 1, 6)
    dice.operand((n, h, c), DType.INT8)
    dice.operand((n, c, w), DType.INT8)
    dice.zeros(DType.INT8, 2)
    return dice.case(op, {}, DType.INT32)


def _pool(dice: Dice, op: str) -> Case:
    kernel = dice.numbers(2, 1, 4)
    window = _window(dice, 2, kernel, [1, 1], pool=True)
    del window["dilation"]
    dice.operand((dice.number(1, 2), *window.pop("image"), dice.number(1, 5)), DType.INT8)
    if op == "AVG_POOL2D":
        dice.zeros(DType.INT8, 2)
        window["acc_type"] = DType.INT32
    else:
        window["nan_mode"] = "PROPAGATE"
    return dice.case(op, window | {"kernel": kernel}, DType.INT8)


def _reduction(dtype: DType, result: DType | None = None, **attributes: Any) -> Recipe:
    def make(dice: Dice, op: str) -> Case:
        shape = dice.shape(1)
        dice.operand(shape, dtype, -3, 3)
        return dice.case(op, {"axis": dice.number(0, len(shape) - 1), **attributes}, result or dtype)

    return make


def _fourier(dice: Dice, op: str) -> Case:
    shape = (dice.number(1, 4), 1 << dice.number(0, 2), 1 << dice.number(0, 3))
    dice.operand(shape, DType.FP32)
    if op == "FFT2D":
        dice.operand(shape, DType.FP32)
    attributes = {"inverse": False} if op == "FFT2D" else {}
    return dice.case(op, attributes | {"local_bound": False}, DType.FP32, DType.FP32)


def _concat(dice: Dice, op: str) -> Case:
    shape = dice.shape(1)
    axis = dice.number(0, len(shape) - 1)
    for _ in range(dice.number(1, 4)):
        dice.operand((*shape[:axis], dice.number(1, 4), *shape[axis + 1 :]), DType.INT8)
    return dice.case(op, {"axis": axis}, DType.INT8)


def _moved(*constants: Callable[[Dice, Shape], list[int]]) -> Recipe:
    """Operators that move elements as shape operands tell."""

    def make(dice: Dice, op: str) -> Case:
        shape = dice.shape(1)
        dice.operand(shape, DType.INT8)
        for constant in constants:
            dice.given(constant(dice, shape), DType.SHAPE)
        if op == "PAD":
            dice.zeros(DType.INT8)
        return dice.case(op, {}, DType.INT8)

    return make


def _sliced(dice: Dice, op: str) -> Case:
    shape = dice.shape(1)
    start = [dice.number(0, extent - 1) for extent in shape]
    dice.operand(shape, DType.INT8)
    dice.given(start, DType.SHAPE)
    dice.given([dice.number(1, extent - low) for low, extent in zip(start, shape, strict=True)], DType.SHAPE)
    return dice.case(op, {}, DType.INT8)


def _reshaped(dice: Dice, shape: Shape) -> list[int]:
    """Another shape of as many elements: neighbours are joined, axes are split."""
    factors: list[int] = []
    for extent in shape:
        found = [each for each in range(1, extent + 1) if extent % each == 0]
        first = dice.choose.choice(found)
        factors += [first, extent // first]
    while len(factors) > 1 and (len(factors) > 6 or dice.number(0, 2)):
        place = dice.number(0, len(factors) - 2)
        factors[place : place + 2] = [factors[place] * factors[place + 1]]
    return factors


def _turned(dice: Dice, op: str) -> Case:
    shape = dice.shape(1)
    dice.operand(shape, DType.INT8)
    perms = dice.choose.sample(range(len(shape)), len(shape))
    return dice.case(op, {"perms": perms}, DType.INT8)


def _indexed(dice: Dice, op: str) -> Case:
    n, rows, channels, count = dice.number(1, 3), dice.number(2, 6), dice.number(1, 5), dice.number(1, 5)
    dice.operand((n, rows, channels), DType.INT8)
    count = min(count, rows)
    indices = [dice.choose.sample(range(rows), count) for _ in range(n)]
    dice.given(indices, DType.INT32, constant=False)
    if op == "SCATTER":
        dice.operand((n, count, channels), DType.INT8)
    return dice.case(op, {}, DType.INT8)


def _resized(dice: Dice, op: str) -> Case:
    scale, offset, border, image = list[int](), list[int](), list[int](), list[int]()
    for _ in range(2):
        numerator, step, size = dice.number(1, 6), dice.number(1, 8), dice.number(1, 6)
        while step >= 16 * numerator:
            step -= 1
        begin = dice.number(-numerator, numerator - 1)
        edge = dice.number(-numerator, numerator - 1)
        while (size - 1) * numerator - begin + edge < 0:
            size += 1
        edge -= ((size - 1) * numerator - begin + edge) % step
        if edge < -16 * numerator:
            numerator, step, begin, edge = 1, 1, 0, 0
        scale, offset, border, image = (
            [*scale, numerator, step],
            [*offset, begin],
            [*border, edge],
            [*image, size],
        )
    nearest = dice.number(0, 1) == 1
    dice.operand((dice.number(1, 2), *image, dice.number(1, 4)), DType.INT8)
    for values in (scale, offset, border):
        dice.given(values, DType.SHAPE)
    mode = "NEAREST" if nearest else "BILINEAR"
    return dice.case(op, {"mode": mode}, DType.INT8 if nearest else DType.INT32)


_NAN = dict(nan_mode="PROPAGATE")
RECIPES: dict[str, Recipe] = {
    **dict.fromkeys(sorted(operators_with(Trait.ELEMENTWISE)), _elementwise()),
    "ARITHMETIC_RIGHT_SHIFT": _elementwise(round=True),
    "CLAMP": _elementwise(min_val=5, max_val=14),
    "TABLE": _table,
    "RESCALE": _rescale,
    **dict.fromkeys(("REDUCE_ALL", "REDUCE_ANY"), _reduction(DType.BOOL)),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), _reduction(DType.INT8, None, **_NAN)),
    **dict.fromkeys(("CONV2D", "CONV3D", "DEPTHWISE_CONV2D"), _convolution),
    **dict.fromkeys(("AVG_POOL2D", "MAX_POOL2D"), _pool),
    **dict.fromkeys(("FFT2D", "RFFT2D"), _fourier),
    **dict.fromkeys(("GATHER", "SCATTER"), _indexed),
    "REDUCE_SUM": _reduction(DType.INT32),
    "REDUCE_PRODUCT": _reduction(DType.FP32),
    "ARGMAX": _reduction(DType.INT8, DType.INT32, **_NAN),
    "REVERSE": _reduction(DType.INT8),
    "TRANSPOSE_CONV2D": _transposed,
    "FULLY_CONNECTED": _fully_connected,
    "MATMUL": _product,
    "CONCAT": _concat,
    "PAD": _moved(lambda dice, shape: dice.numbers(2 * len(shape), 0, 3)),
    "TILE": _moved(lambda dice, shape: dice.numbers(len(shape), 1, 3)),
    "RESHAPE": _moved(_reshaped),
    "SLICE": _sliced,
    "TRANSPOSE": _turned,
    "RESIZE": _resized,
}


def random_operator(op: str, seed: int) -> Case:
    """A case of an operator; equal seeds make equal cases."""
    return RECIPES[op](Dice(seed), op)
