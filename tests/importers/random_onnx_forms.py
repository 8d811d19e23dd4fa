"""Forms of ONNX's elementwise, logical, reducing and moving operators for `random_onnx`."""

import numpy as np
from onnx import TensorProto
from random_onnx import FORMS, NotHereError, RandomOnnx, form

FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
INTEGERS = "int32 int64 int8 uint8"

# --- elementwise ----------------------------------------------------------------------------------------------------

_UNARY = """Abs Neg Sigmoid Tanh Relu Elu Selu Celu Softplus Softsign HardSwish Erf Sin Cos Atan Identity Ceil Floor
Round Sign Exp""".split()


def _unary(op):
    def made(g: RandomOnnx) -> None:
        alpha = {"alpha": float(g.pick(0.5, 1.3, 2.0))} if op in ("Elu", "Selu", "Celu") and g.maybe() else {}
        g.one(op, g.real(), **alpha)

    return made


FORMS.update({op: _unary(op) for op in _UNARY})


@form
def positive(g: RandomOnnx) -> None:
    """Functions of positive numbers, behind what makes them positive."""
    x = g.one("Add", g.one("Abs", g.real()), g.constant(0.25))
    g.one(g.pick("Log", "Sqrt", "Reciprocal", "Sqrt"), x)


@form
def leaky(g: RandomOnnx) -> None:
    g.one("LeakyRelu", g.real(), alpha=g.pick(None, 0.1, 0.3, -0.2))


@form
def thresholded(g: RandomOnnx) -> None:
    g.one("ThresholdedRelu", g.real(), alpha=g.pick(None, 0.4))


@form
def hard_sigmoid(g: RandomOnnx) -> None:
    g.one("HardSigmoid", g.real(), alpha=g.pick(None, 0.3), beta=g.pick(None, 0.6))


@form
def shrink(g: RandomOnnx) -> None:
    g.one("Shrink", g.real(), lambd=g.pick(0.3, 0.5), bias=g.pick(0.0, 0.2, 0.5))


@form
def gelu(g: RandomOnnx) -> None:
    if g.opset >= 20 and g.maybe():
        g.one("Gelu", g.real(), approximate=g.pick(None, "tanh", "none"))
    else:
        g.one(g.pick("Gelu", "FastGelu", "QuickGelu"), g.real(), domain="com.microsoft")


@form
def mish(g: RandomOnnx) -> None:
    g.one("Mish", g.real())


@form
def prelu(g: RandomOnnx) -> None:
    x = g.real()
    g.one("PRelu", x, g.reals(*g.broadcastable(g.values[x].shape), scale=0.4))


@form
def clip(g: RandomOnnx) -> None:
    x = g.tensor("float32 float32 int32 int8")
    low, high = (g.constant(v, g.values[x].dtype) for v in (g.pick(-1, 0), g.pick(1, 6)))
    g.one("Clip", x, *g.pick((low,), (low, high), ("", high)))


@form
def arithmetic(g: RandomOnnx) -> None:
    x = g.real()
    shape = g.values[x].shape
    y = g.reals(*g.broadcastable(shape)) if g.maybe() else g.tensor("float32", fits=_broadcasts(shape))
    pair = (x, y) if g.maybe() else (y, x)
    g.one(g.pick("Add", "Sub", "Mul", "Add", "Mul"), *pair)


def _broadcasts(shape):
    def fits(value) -> bool:
        try:
            return np.prod(np.broadcast_shapes(shape, value.shape)) < 2000
        except ValueError:
            return False

    return fits


@form
def division(g: RandomOnnx) -> None:
    x = g.real()
    y = g.one("Add", g.one("Abs", x), g.constant(0.5)) if g.maybe() else g.reals(*g.values[x].shape[-1:])
    g.one("Div", *((x, y) if g.maybe() else (y, x)))


@form
def power(g: RandomOnnx) -> None:
    x = g.real()
    if g.maybe():
        g.one("Pow", x, g.constant(g.pick(2, 3)))
    else:
        g.one("Pow", g.one("Add", g.one("Abs", x), g.constant(0.1)), g.constant(g.pick(0.5, -0.5, 1.7)))


@form
def extremes(g: RandomOnnx) -> None:
    x = g.tensor("float32 float32 int32")
    kind, shape = g.values[x].dtype, g.values[x].shape
    more = [
        g.constant(g.random.integers(-2, 3, g.broadcastable(shape)), kind) for _ in range(g.pick(1, 1, 2))
    ]
    ops = ("Max", "Min") if kind.kind == "i" else ("Max", "Min", "Mean", "Sum")
    g.one(g.pick(*ops), x, *more)


@form
def remainder(g: RandomOnnx) -> None:
    x = g.tensor("int32 int64 int8 float32")
    real = g.values[x].dtype.kind == "f"
    g.one("Mod", x, g.constant(g.pick(3, 5), g.values[x].dtype), fmod=1 if real else g.pick(None, 0, 1))


@form
def integer_arithmetic(g: RandomOnnx) -> None:
    x = g.tensor("int32 int64 int32")
    y = g.constant(g.random.integers(1, 5, g.broadcastable(g.values[x].shape)), g.values[x].dtype)
    g.one(g.pick("Add", "Sub", "Mul", "Div"), x, y)


@form
def bits(g: RandomOnnx) -> None:
    x = g.tensor("uint8 int32 int8" if g.opset >= 18 else "uint8")
    kind = g.values[x].dtype
    if kind == np.uint8 and (g.opset < 18 or g.maybe()):
        g.one("BitShift", x, g.constant(g.pick(1, 3), kind), direction=g.pick("LEFT", "RIGHT"))
    elif g.maybe(4):
        g.one("BitwiseNot", x)
    else:
        g.one(g.pick("BitwiseAnd", "BitwiseOr", "BitwiseXor"), x, g.constant(g.random.integers(0, 100), kind))


@form
def integer_signs(g: RandomOnnx) -> None:
    g.one(g.pick("Abs", "Neg", "Sign"), g.tensor("int32 int64 int8"))


# --- logic ----------------------------------------------------------------------------------------------------------


@form
def comparison(g: RandomOnnx) -> None:
    x = g.tensor("float32 int32 int64 float32")
    kind = g.values[x].dtype
    y = g.constant(g.pick(0, 0.3, 1) if kind.kind == "f" else g.pick(0, 2), kind)
    ops = ["Greater", "GreaterOrEqual", "Less", "LessOrEqual"] + (["Equal"] if kind.kind == "i" else [])
    g.one(g.pick(*ops), *((x, y) if g.maybe() else (y, x)))


@form
def logic(g: RandomOnnx) -> None:
    x = g.tensor("bool")
    if g.maybe(3):
        g.one("Not", x)
    else:
        y = g.constant(g.random.random(g.broadcastable(g.values[x].shape)) < 0.5, np.bool_)
        g.one(g.pick("And", "Or", "Xor"), x, y)


@form
def where(g: RandomOnnx) -> None:
    x = g.real()
    shape = g.values[x].shape
    condition = (
        g.tensor("bool", fits=_broadcasts(shape)) if g.maybe() else g.one("Greater", x, g.constant(0.1))
    )
    other = g.constant(g.pick(-5.0, 0.0, 1.5)) if g.maybe() else g.reals(*g.broadcastable(shape))
    g.one("Where", condition, *((x, other) if g.maybe() else (other, x)))


@form
def cast(g: RandomOnnx) -> None:
    x = g.tensor(f"{INTEGERS} bool float32")
    to = g.pick(FLOAT, FLOAT, FLOAT, INT32, TensorProto.INT64, TensorProto.BOOL)
    g.one("Cast", x, to=to)


@form
def image(g: RandomOnnx) -> None:
    """Pixels of uint8, normalized."""
    pixels = g.input("uint8", (1, 3, g.pick(4, 6, 8), g.pick(5, 6, 8)))
    x = g.one("Mul", g.one("Cast", pixels, to=FLOAT), g.constant(1 / 255))
    g.one("Sub", x, g.constant(np.array([0.48, 0.45, 0.4]).reshape(3, 1, 1)))


@form
def dequantized(g: RandomOnnx) -> None:
    x = g.tensor("int8 uint8")
    kind = g.values[x].dtype
    zero = (g.constant(g.pick(0, 7), kind),) if g.maybe() else ()
    g.one("DequantizeLinear", x, g.constant(0.02), *zero)


@form
def mask(g: RandomOnnx) -> None:
    """1 - mask, times a large number, added."""
    x = g.real(2, 3, 4)
    size = g.values[x].shape[-1]
    taken = g.input(g.pick("int64", "bool", "int32"), (size,), high=2)
    real = g.one("Cast", taken, to=FLOAT)
    g.one("Add", x, g.one("Mul", g.one("Sub", g.constant(1), real), g.constant(g.pick(-4.0, -30.0))))


# --- reductions -----------------------------------------------------------------------------------------------------


def _axes(g: RandomOnnx, rank: int) -> list[int]:
    count = int(g.random.integers(1, rank + 1))
    axes = g.random.permutation(rank)[:count]
    return [int(axis) - (rank if g.maybe() else 0) for axis in axes]


@form
def reduction(g: RandomOnnx) -> None:
    op = g.pick("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Mean", "Sum", "Prod")
    x = g.tensor("float32 float32 int32") if op in ("Sum", "Max", "Min") else g.real()
    axes = _axes(g, g.values[x].ndim) if not g.maybe(5) else None
    keep = g.pick(None, 0, 1)
    as_input = g.opset >= 18 or op == "Sum"
    if as_input:
        more = [g.constant(axes, np.int64)] if axes is not None else []
        g.one(f"Reduce{op}", x, *more, keepdims=keep)
    else:
        g.one(f"Reduce{op}", x, keepdims=keep, axes=axes)


@form
def argument(g: RandomOnnx) -> None:
    x = g.real()
    axis = int(g.random.integers(-g.values[x].ndim, g.values[x].ndim))
    g.one(
        g.pick("ArgMax", "ArgMin"),
        x,
        axis=axis,
        keepdims=g.pick(None, 0),
        select_last_index=g.pick(None, 1),
    )


@form
def top_k(g: RandomOnnx) -> None:
    x = g.real()
    axis = int(g.random.integers(g.values[x].ndim))
    count = int(g.random.integers(1, g.values[x].shape[axis] + 1))
    g.add("TopK", [x, g.constant([count], np.int64)], 2, axis=axis, largest=g.pick(None, 0))


@form
def cumulative(g: RandomOnnx) -> None:
    x = g.tensor("float32 float32 int32")
    axis = g.constant(int(g.random.integers(g.values[x].ndim)), np.int64)
    g.one("CumSum", x, axis, exclusive=g.pick(None, 1), reverse=g.pick(None, 1))


# --- layout ---------------------------------------------------------------------------------------------------------

ANY = f"float32 float32 float32 {INTEGERS} bool"


@form
def transpose(g: RandomOnnx) -> None:
    x = g.tensor(ANY, (2, 3, 4))
    g.one("Transpose", x, perm=g.pick(None, [int(a) for a in g.random.permutation(g.values[x].ndim)]))


@form
def reshape(g: RandomOnnx) -> None:
    x = g.tensor(ANY)
    shape = g.values[x].shape
    target = g.pick([-1], [shape[0], -1], [0, -1], [1, -1, shape[-1]], [*shape[::-1]])
    g.one("Reshape", x, g.constant(target, np.int64))


@form
def flatten(g: RandomOnnx) -> None:
    x = g.tensor(ANY)
    g.one("Flatten", x, axis=int(g.random.integers(-g.values[x].ndim, g.values[x].ndim + 1)))


@form
def squeezed(g: RandomOnnx) -> None:
    x = g.tensor(ANY)
    if 1 in g.values[x].shape and g.maybe():
        g.one("Squeeze", x)
    else:
        axes = g.pick([0], [-1], [0, 2]) if g.values[x].ndim < 4 else [-1]
        g.one("Unsqueeze", x, g.constant(axes, np.int64))


@form
def concatenation(g: RandomOnnx) -> None:
    x = g.real()
    axis = int(g.random.integers(-g.values[x].ndim, g.values[x].ndim))
    other = list(g.values[x].shape)
    other[axis] = g.pick(1, 2, 5)
    parts = [x, g.reals(*other)] if g.maybe() else [x, x, g.one("Neg", x)]
    g.one("Concat", *parts, axis=axis)


@form
def split(g: RandomOnnx) -> None:
    x = g.tensor(ANY)
    shape = g.values[x].shape
    axis = int(g.random.integers(len(shape)))
    if shape[axis] < 2:
        raise NotHereError
    first = int(g.random.integers(1, shape[axis]))
    g.add("Split", [x, g.constant([first, shape[axis] - first], np.int64)], 2, axis=axis)


@form
def cut(g: RandomOnnx) -> None:
    x = g.tensor(ANY)
    shape = g.values[x].shape
    axis = int(g.random.integers(-len(shape), len(shape)))
    start, end, step = g.pick((0, -1, 1), (1, 2**31 - 1, 2), (-1, -(2**31), -1), (-2, 1000, 1), (0, 3, 2))
    g.one("Slice", x, *(g.constant([v], np.int64) for v in (start, end, axis, step)))


@form
def gather(g: RandomOnnx) -> None:
    x = g.tensor(ANY)
    axis = int(g.random.integers(g.values[x].ndim))
    size = g.values[x].shape[axis]
    shape = g.pick((), (3,), (2, 2))
    if g.maybe():
        indices = g.constant(g.random.integers(-size, size, shape), np.int64)
    else:
        indices = g.input(g.pick("int64", "int32"), shape or (2,), high=size)
    g.one("Gather", x, indices, axis=axis)


@form
def embedding(g: RandomOnnx) -> None:
    ids = g.input(g.pick("int64", "int32"), (g.pick(1, 2), g.pick(3, 5)), high=11)
    g.one("Gather", g.reals(11, g.pick(4, 8)), ids)


@form
def gather_elements(g: RandomOnnx) -> None:
    x = g.tensor(ANY, (1, 2, 3))
    axis = int(g.random.integers(g.values[x].ndim))
    shape = list(g.values[x].shape)
    size, shape[axis] = shape[axis], g.pick(1, 2, 3)
    g.one("GatherElements", x, g.constant(g.random.integers(-size, size, shape), np.int64), axis=axis)


@form
def gather_nd(g: RandomOnnx) -> None:
    x = g.tensor(ANY, (2, 3))
    shape = g.values[x].shape
    depth = g.pick(1, 2)
    indices = np.stack([g.random.integers(-s, s, (3,)) for s in shape[:depth]], -1)
    g.one("GatherND", x, g.constant(indices, np.int64))


@form
def scatter(g: RandomOnnx) -> None:
    x = g.tensor("float32 float32 int32 bool", (1, 2, 3))
    value = g.values[x]
    axis = int(g.random.integers(value.ndim))
    shape = [int(g.random.integers(1, size + 1)) for size in value.shape]
    places = np.argsort(g.random.random(value.shape), axis)[tuple(slice(n) for n in shape)]
    updates = g.constant(g.random.integers(0, 2, shape), value.dtype)
    reduction = g.pick(None, "add") if value.dtype.kind == "f" and g.opset >= 16 else None
    g.one("ScatterElements", x, g.constant(places, np.int64), updates, axis=axis, reduction=reduction)


@form
def scatter_nd(g: RandomOnnx) -> None:
    x = g.real(2, 3)
    shape = g.values[x].shape
    rows = g.random.permutation(shape[0])[: g.pick(1, 2)]
    g.one("ScatterND", x, g.constant(rows[:, None], np.int64), g.reals(len(rows), *shape[1:]))


@form
def expand(g: RandomOnnx) -> None:
    x = g.tensor(ANY, (1, 2, 3))
    shape = [g.pick(2, 3) if size == 1 else size for size in g.values[x].shape]
    g.one("Expand", x, g.constant(g.pick(shape, [2, *shape]), np.int64))


@form
def tile(g: RandomOnnx) -> None:
    x = g.tensor(ANY, (1, 2, 3))
    g.one("Tile", x, g.constant([g.pick(1, 2) for _ in g.values[x].shape], np.int64))


@form
def pad(g: RandomOnnx) -> None:
    x = g.tensor("float32 float32 int32 int8", (1, 2, 3, 4))
    rank = g.values[x].ndim
    mode = g.pick(None, "constant", "edge", "reflect", *(["wrap"] if g.opset >= 19 else []))
    pads = [g.pick(0, 0, 1, 2, *([-1] if mode in (None, "constant") else [])) for _ in range(2 * rank)]
    value = (g.constant(g.pick(0, 1), g.values[x].dtype),) if g.maybe() else ()
    g.one("Pad", x, g.constant(pads, np.int64), *value, mode=mode)


@form
def blocks(g: RandomOnnx) -> None:
    x = g.real(4)
    _, channels, height, width = g.values[x].shape
    if channels % 4 == 0 and g.maybe():
        g.one("DepthToSpace", x, blocksize=2, mode=g.pick(None, "DCR", "CRD"))
    elif height % 2 == width % 2 == 0:
        g.one("SpaceToDepth", x, blocksize=2)
    else:
        raise NotHereError


@form
def reverse(g: RandomOnnx) -> None:
    x = g.tensor(ANY, (2, 3))
    time, batch = g.pick((0, 1), (1, 0))
    shape = g.values[x].shape
    lengths = g.constant(g.random.integers(1, shape[time] + 1, shape[batch]), np.int64)
    g.one("ReverseSequence", x, lengths, time_axis=time, batch_axis=batch)


@form
def triangle(g: RandomOnnx) -> None:
    x = g.tensor("float32 float32 int32 bool" if g.opset >= 14 else "float32", (2, 3))
    if g.opset < 14:
        raise NotHereError
    g.one("Trilu", x, g.constant(g.pick(-1, 0, 1), np.int64), upper=g.pick(None, 0))


@form
def one_hot(g: RandomOnnx) -> None:
    ids = g.input(g.pick("int64", "int32"), g.pick((3,), (2, 3)), high=5)
    g.one("OneHot", ids, g.constant(5, np.int64), g.constant([0, 1]), axis=g.pick(None, 0, -1))
