"""The nest of each operator: one rule for each, by what TOSA says where an element of the result comes from."""

from collections.abc import Callable, Iterable

from tosaic.compiler.cut.boxes import NotCut
from tosaic.compiler.cut.nests import Cuttable, Inner, Nest
from tosaic.compiler.cut.reads import Reads
from tosaic.compiler.cut.same_elements import SameElements
from tosaic.compiler.cut.window_axis import WindowAxis
from tosaic.compiler.ir import OPERATORS, Graph, Operator
from tosaic.compiler.ir.operators.by_operator import ByOperator

Shape = tuple[int, ...]
Rule = Callable[[Graph, Operator], Cuttable | NotCut]

TAPS = ("kernel planes", "kernel rows", "kernel columns")
"""Inner loops of convolutions and pools; those over an image have the last two."""
CHANNELS = "input channels"
"""The inner loop of products of matrices, too."""
REDUCED = "reduced axis"
"""The inner loop of reductions."""

ELEMENTWISE = tuple(
    name
    for name, spec in OPERATORS.items()
    if spec.category.startswith(("activation", "comparison", "elementwise", "type conversion"))
    or name == "IDENTITY"
)
"""Operators of which each element of the result is made of the elements at its place."""

_RULES = ByOperator[Rule]()
"""The nest of an operator."""


def nest_of(graph: Graph, operator: Operator) -> Cuttable | NotCut:
    """What an operator reads for a box of its result, or of each of its results, which have one shape."""
    rule = _RULES.get(operator.op)
    if rule is None:
        return NotCut(f"the results of {operator.op} are not computed element by element")
    return rule(graph, operator)


def windows_of(graph: Graph, operator: Operator) -> list[WindowAxis]:
    """The axes of the image that a convolution or pool slides over."""
    image, result = _shape(graph, operator, 0), _result(graph, operator)
    axes, attributes = len(image) - 2, operator.attributes
    if "kernel" in attributes:
        taps = tuple(attributes["kernel"])
    elif operator.op == "DEPTHWISE_CONV2D":
        taps = _shape(graph, operator, 1)[:axes]
    else:
        taps = _shape(graph, operator, 1)[1 : 1 + axes]
    strides, dilations = attributes["stride"], attributes.get("dilation", [1] * axes)
    return [
        WindowAxis(image[1 + i], result[1 + i], taps[i], attributes["pad"][2 * i], strides[i], dilations[i])
        for i in range(axes)
    ]


def numbers(graph: Graph, operator: Operator, operand: int) -> list[int] | None:
    """The values of a shape operand; None where they are computed at run time."""
    values = graph.const(operator.inputs[operand])
    return None if values is None else [int(value) for value in values.reshape(-1)]


def _shape(graph: Graph, operator: Operator, operand: int) -> Shape:
    return graph.tensors[operator.inputs[operand]].shape


def _result(graph: Graph, operator: Operator) -> Shape:
    return graph.tensors[operator.outputs[0]].shape


def _same(axis: int, extent: int) -> Reads:
    return Reads(extent, ((axis, 1),))


def _all(extent: int) -> Reads:
    """An axis of which each element of the result reads all."""
    return Reads(extent, more=extent - 1)


def _late(operator: Operator, what: str) -> NotCut:
    return NotCut(f"{what} of {operator.op} is computed at run time")


def _sums(
    graph: Graph, operator: Operator, extents: Iterable[tuple[str, int]], join: str = "ADD"
) -> dict[str, Inner]:
    """Loops over what is put together. Integers may be summed in any order, as sums wrap."""
    order = graph.tensors[operator.outputs[0]].dtype.is_float and join in ("ADD", "MUL")
    why = "the result for floating-point numbers depends on their order" if order else ""
    return {name: Inner(extent, "" if why else join, why) for name, extent in extents}


# --- element by element


@_RULES.of_each(ELEMENTWISE)
def _elementwise(graph: Graph, operator: Operator) -> Cuttable | NotCut:
    """Operands that are broadcast along an axis are read at its one place. A RESCALE may have scales of channels."""
    shape, operands = _result(graph, operator), dict[int, tuple[Reads, ...]]()
    for number, operand in enumerate(OPERATORS[operator.op].operands):
        if operand.ranks == (1, 1):
            continue
        mine = _shape(graph, operator, number)
        if len(mine) != len(shape):
            return NotCut(f"the operands of {operator.op} have different ranks")
        pairs = enumerate(zip(mine, shape, strict=True))
        operands[number] = tuple(
            _same(axis, extent) if extent == wanted else Reads(extent) for axis, (extent, wanted) in pairs
        )
    if operator.attributes.get("per_channel"):
        operands |= {number: (_same(len(shape) - 1, shape[-1]),) for number in (1, 2)}
    return Nest(shape, operands)


# --- tensor operators


def _image(graph: Graph, operator: Operator, channels: Reads) -> tuple[Reads, ...]:
    """The image of an operator whose inner loops begin with the taps."""
    rank = len(_result(graph, operator))
    windows = enumerate(windows_of(graph, operator))
    batch = _same(0, _shape(graph, operator, 0)[0])
    return (batch, *(axis.reads(1 + i, rank + i) for i, axis in windows), channels)


def _bias(graph: Graph, operator: Operator, channel: int) -> dict[int, tuple[Reads, ...]]:
    """One of each channel, or one for all."""
    (count,), channels = _shape(graph, operator, 2), _result(graph, operator)[channel]
    return {2: (_same(channel, count) if count == channels else Reads(count),)}


@_RULES.of("CONV2D", "CONV3D")
def _convolution(graph: Graph, operator: Operator) -> Nest:
    """CONV2D and CONV3D."""
    shape, (outputs, *taps, channels) = _result(graph, operator), _shape(graph, operator, 1)
    rank, names = len(shape), (*TAPS[-len(taps) :], CHANNELS)
    image = _image(graph, operator, _same(rank + len(taps), channels))
    inner = [_same(rank + i, extent) for i, extent in enumerate((*taps, channels))]
    operands = {0: image, 1: (_same(rank - 1, outputs), *inner)}
    loops = zip(names, (*taps, channels), strict=True)
    return Nest(shape, operands | _bias(graph, operator, rank - 1), _sums(graph, operator, loops))


@_RULES.of("DEPTHWISE_CONV2D")
def _depthwise(graph: Graph, operator: Operator) -> Nest:
    shape, (kh, kw, channels, multiplier) = _result(graph, operator), _shape(graph, operator, 1)
    channel = Reads(channels, ((3, 1),), divisor=multiplier)
    weight = (_same(4, kh), _same(5, kw), channel, _all(multiplier))
    operands = {0: _image(graph, operator, channel), 1: weight} | _bias(graph, operator, 3)
    return Nest(
        shape, operands, _sums(graph, operator, zip(TAPS[1:], (kh, kw), strict=True)), {3: multiplier}
    )


@_RULES.of("TRANSPOSE_CONV2D")
def _transposed_convolution(graph: Graph, operator: Operator) -> Nest:
    shape, (outputs, *taps, channels) = _result(graph, operator), _shape(graph, operator, 1)
    (n, *image, _), pad, strides = (
        _shape(graph, operator, 0),
        operator.attributes["out_pad"],
        operator.attributes["stride"],
    )
    rows = [Reads(image[i], ((1 + i, 1), (4 + i, -1)), -pad[2 * i], strides[i], exact=True) for i in range(2)]
    weight = (_same(3, outputs), *(_same(4 + i, extent) for i, extent in enumerate((*taps, channels))))
    operands = {0: (_same(0, n), *rows, _same(6, channels)), 1: weight} | _bias(graph, operator, 3)
    why = "of the sums of TRANSPOSE_CONV2D, parts along the input channels are computed only"
    kernel = {name: Inner(extent, whole=why) for name, extent in zip(TAPS[1:], taps, strict=True)}
    return Nest(shape, operands, kernel | _sums(graph, operator, [(CHANNELS, channels)]))


@_RULES.of("FULLY_CONNECTED")
def _fully_connected(graph: Graph, operator: Operator) -> Nest:
    (n, channels), outputs = _shape(graph, operator, 0), _shape(graph, operator, 1)[0]
    operands = {0: (_same(0, n), _same(2, channels)), 1: (_same(1, outputs), _same(2, channels))}
    sums = _sums(graph, operator, [(CHANNELS, channels)])
    return Nest(_result(graph, operator), operands | _bias(graph, operator, 1), sums)


@_RULES.of("MATMUL")
def _product(graph: Graph, operator: Operator) -> Nest:
    (n, h, c), (_, _, w) = _shape(graph, operator, 0), _shape(graph, operator, 1)
    operands = {0: (_same(0, n), _same(1, h), _same(3, c)), 1: (_same(0, n), _same(3, c), _same(2, w))}
    return Nest((n, h, w), operands, _sums(graph, operator, [(CHANNELS, c)]))


@_RULES.of("AVG_POOL2D", "MAX_POOL2D")
def _pool(graph: Graph, operator: Operator) -> Nest:
    shape = _result(graph, operator)
    why = {
        "AVG_POOL2D": "a part of a window would be divided by its own count",
        "MAX_POOL2D": "a part of a window may see padding only, which has no largest element",
    }[operator.op]
    taps = zip(TAPS[1:], operator.attributes["kernel"], strict=True)
    inner = {name: Inner(extent, whole=why) for name, extent in taps}
    return Nest(shape, {0: _image(graph, operator, _same(3, shape[3]))}, inner)


_JOINS = {
    "REDUCE_SUM": "ADD",
    "REDUCE_PRODUCT": "MUL",
    "REDUCE_MAX": "MAXIMUM",
    "REDUCE_MIN": "MINIMUM",
    "REDUCE_ANY": "LOGICAL_OR",
    "REDUCE_ALL": "LOGICAL_AND",
}


@_RULES.of_each(_JOINS)
def _reduction(graph: Graph, operator: Operator) -> Nest:
    axis, shape, source = operator.attributes["axis"], _result(graph, operator), _shape(graph, operator, 0)
    axes = (_same(len(shape) if i == axis else i, extent) for i, extent in enumerate(source))
    inner = _sums(graph, operator, [(REDUCED, source[axis])], _JOINS[operator.op])
    return Nest(shape, {0: tuple(axes)}, inner)


@_RULES.of("ARGMAX")
def _argmax(graph: Graph, operator: Operator) -> Nest:
    axis, shape, source = operator.attributes["axis"], _result(graph, operator), _shape(graph, operator, 0)
    axes = [_same(i - (i > axis), extent) for i, extent in enumerate(source)]
    axes[axis] = _same(len(shape), source[axis])
    inner = Inner(
        source[axis], whole="the places in parts of the axis do not tell which part has the largest element"
    )
    return Nest(shape, {0: tuple(axes)}, {REDUCED: inner})


@_RULES.of("FFT2D", "RFFT2D")
def _fourier(graph: Graph, operator: Operator) -> Nest:
    why = f"each element of {operator.op} is a sum over all rows and columns"
    n, h, w = _shape(graph, operator, 0)
    operands = {number: (_same(0, n), _all(h), _all(w)) for number in range(len(operator.inputs))}
    return Nest(_result(graph, operator), operands, uncut={1: why, 2: why})


# --- elements that move


@_RULES.of("CONCAT")
def _concat(graph: Graph, operator: Operator) -> Nest:
    axis, start = operator.attributes["axis"], 0
    operands: dict[int, tuple[Reads, ...]] = {}
    for number in range(len(operator.inputs)):
        shape = _shape(graph, operator, number)
        operands[number] = tuple(
            Reads(extent, ((i, 1),), -start if i == axis else 0) for i, extent in enumerate(shape)
        )
        start += shape[axis]
    return Nest(_result(graph, operator), operands)


@_RULES.of("PAD")
def _pad(graph: Graph, operator: Operator) -> Cuttable | NotCut:
    padding = numbers(graph, operator, 1)
    if padding is None:
        return _late(operator, "the padding")
    axes = enumerate(_shape(graph, operator, 0))
    reads = tuple(Reads(extent, ((axis, 1),), -padding[2 * axis]) for axis, extent in axes)
    return Nest(_result(graph, operator), {0: reads})


@_RULES.of("SLICE")
def _slice(graph: Graph, operator: Operator) -> Cuttable | NotCut:
    start = numbers(graph, operator, 1)
    if start is None:
        return _late(operator, "the start")
    axes = enumerate(_shape(graph, operator, 0))
    return Nest(_result(graph, operator), {0: tuple(Reads(size, ((i, 1),), start[i]) for i, size in axes)})


@_RULES.of("TILE")
def _tile(graph: Graph, operator: Operator) -> Nest:
    """An axis that is repeated is cut between its copies, so that the part is a TILE again."""
    shape, source = _result(graph, operator), _shape(graph, operator, 0)
    reads, units = [], {}
    for axis, (extent, wanted) in enumerate(zip(source, shape, strict=True)):
        if extent == wanted:
            reads.append(_same(axis, extent))
        else:
            reads.append(Reads(extent, ((axis, 1),), repeated=True))
            units[axis] = extent
    return Nest(shape, {0: tuple(reads)}, units=units)


@_RULES.of("REVERSE")
def _reverse(graph: Graph, operator: Operator) -> Nest:
    shape, back = _result(graph, operator), operator.attributes["axis"]
    axes = (
        Reads(extent, ((axis, -1),), extent - 1) if axis == back else _same(axis, extent)
        for axis, extent in enumerate(shape)
    )
    return Nest(shape, {0: tuple(axes)})


@_RULES.of("TRANSPOSE")
def _transpose(graph: Graph, operator: Operator) -> Nest:
    source, places = _shape(graph, operator, 0), operator.attributes["perms"]
    return Nest(
        _result(graph, operator), {0: tuple(_same(places.index(i), size) for i, size in enumerate(source))}
    )


@_RULES.of("RESHAPE")
def _reshape(graph: Graph, operator: Operator) -> SameElements:
    return SameElements(_shape(graph, operator, 0), _result(graph, operator))


@_RULES.of("GATHER")
def _gather(graph: Graph, operator: Operator) -> Nest:
    (n, rows, channels), (_, count) = _shape(graph, operator, 0), _shape(graph, operator, 1)
    operands = {0: (_same(0, n), _all(rows), _same(2, channels)), 1: (_same(0, n), _same(1, count))}
    return Nest((n, count, channels), operands)


@_RULES.of("SCATTER")
def _scatter(graph: Graph, operator: Operator) -> Nest:
    (n, rows, channels), (_, count) = _shape(graph, operator, 0), _shape(graph, operator, 1)
    operands = {
        0: (_same(0, n), _same(1, rows), _same(2, channels)),
        1: (_same(0, n), _all(count)),
        2: (_same(0, n), _all(count), _same(2, channels)),
    }
    return Nest((n, rows, channels), operands, uncut={1: "SCATTER puts rows at places that its indices tell"})


@_RULES.of("RESIZE")
def _resize(graph: Graph, operator: Operator) -> Cuttable | NotCut:
    """A row lies between two neighbours of the image; beyond the edge it is the last one."""
    scale, offset = numbers(graph, operator, 1), numbers(graph, operator, 2)
    if scale is None or offset is None:
        return _late(operator, "the scale")
    n, *image, channels = _shape(graph, operator, 0)
    rows = (
        Reads(image[i], ((1 + i, scale[2 * i + 1]),), offset[i], scale[2 * i], more=1, clamped=True)
        for i in range(2)
    )
    return Nest(_result(graph, operator), {0: (_same(0, n), *rows, _same(3, channels))})
