"""Inputs and outputs of a model, and arrays for them."""

import dataclasses
from collections.abc import Container, Mapping

import numpy as np

from tosaic.compiler.ir import CurvedEncoding, Declared, DType, Encoding, Tensor, nearest, unsigned_type
from tosaic.compiler.program import Port
from tosaic.errors import InputError

from .encodings import Encodings
from .shape_advice import fit_of


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """A graph input or output: name, shape and TOSA type.

    Of a quantized model `encoding` tells what the integers stand for: real = scale * (q - zero_point). `unsigned`: the
    model's own type is uint8 or uint16, whose bits TOSA's int8 or int16 hold: they have no `encoding`, which is of
    integers as TOSA reads them. Two are equal whatever these are.
    """

    name: str
    shape: tuple[int, ...]
    type: DType
    encoding: Encoding | None = dataclasses.field(default=None, compare=False)
    unsigned: bool = dataclasses.field(default=False, compare=False)
    of_bits: Encoding | None = dataclasses.field(default=None, compare=False)
    """What integers without sign stand for."""
    limits: tuple[int, int] | None = dataclasses.field(default=None, compare=False)
    """The least and the greatest value that a traced function was declared for, where that is not all of the type."""

    @property
    def numpy(self) -> np.dtype:
        return np.dtype(self.type.numpy)

    @property
    def own(self) -> np.dtype:
        """The model's own type."""
        return unsigned_type(self.type) if self.unsigned else self.numpy

    @property
    def stands_for(self) -> Encoding | None:
        """The type that its integers stand for, with a sign or without."""
        return self.encoding or self.of_bits


def argument(
    tensor: Tensor | Port,
    encodings: Encodings,
    unsigned: Container[str] = (),
    declared: Declared | None = None,
) -> NodeArg:
    """The input or output that a tensor or port is; `unsigned` has the names of those without sign. `declared` is what
    a traced function says of it."""
    encoding = encodings.get(tensor.name)
    # The file may be that of another model of the same name.
    if encoding is not None and encoding.dtype is not tensor.dtype:
        encoding = None
    place = tensor.name, tuple(tensor.shape), tensor.dtype
    if encoding is not None and encoding.unsigned:
        return NodeArg(*place, unsigned=True, of_bits=encoding)
    if encoding is None and declared is not None and declared.fits(tensor.shape, tensor.dtype):
        return _declared_argument(NodeArg(*place), declared)
    return NodeArg(*place, encoding, encoding is None and tensor.name in unsigned)


def _declared_argument(argument: NodeArg, declared: Declared) -> NodeArg:
    unsigned = declared.dtype.startswith("uint") and declared.dtype != "uint64"
    own = dataclasses.replace(argument, unsigned=unsigned)
    if own.own == np.bool_:
        return own
    whole = np.iinfo(own.own)
    narrower = declared.low > whole.min or declared.high < whole.max
    return dataclasses.replace(own, limits=(declared.low, declared.high)) if narrower else own


def as_declared(values: np.ndarray, declared: Declared | None) -> np.ndarray:
    """An output in the type and shape that a traced function gives; all else as it is."""
    if declared is None:
        return values
    dtype = np.dtype(declared.dtype)
    same_width = dtype.itemsize == values.itemsize and dtype != np.bool_
    own = np.ascontiguousarray(values).view(dtype) if same_width else values.astype(dtype)
    return own.reshape(()) if declared.shape == () and own.size == 1 else own


def check_limits(argument: NodeArg, values: np.ndarray) -> None:
    """InputError for values that a traced function was not declared for: its integers would be wrong."""
    if argument.limits is None or not values.size:
        return
    own = values.view(argument.own) if values.dtype == argument.numpy else values
    low, high = argument.limits
    wrong = np.argwhere((own < low) | (own > high))
    if len(wrong):
        where = tuple(int(i) for i in wrong[0])
        raise InputError(
            f"input {argument.name!r} has {own[where]} at {list(where)}, outside of the declared range {low}..{high}: "
            "give values inside (np.clip), or trace the function with wider ranges"
        )


def held(argument: NodeArg, values: np.ndarray) -> np.ndarray:
    """Values of the model's own type as TOSA holds them; all else as it is."""
    return values.view(argument.numpy) if values.dtype == argument.own else values


def takes(values: np.ndarray) -> bool:
    """Whether reals may enter a model: minus infinity, which masks are made of, becomes the least that its encoding
    holds; nothing stands for NaN and for the other infinity."""
    return bool(np.all(np.less(values, np.inf)))


def checked_samples(
    arguments: list[NodeArg], inputs: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Arrays of samples along the first axis, each sample as its argument; what is in `state` is the same for each,
    unless it is given. InputError names the input that is wrong."""
    known = {each.name: each for each in arguments}
    arrays = {
        name: held(known[name], np.asarray(values)) if name in known else np.asarray(values)
        for name, values in inputs.items()
    }
    counts = {name: len(values) if values.ndim else 0 for name, values in arrays.items()}
    if len(set(counts.values())) != 1 or not min(counts.values()):
        listed = ", ".join(f"{count} of {name!r}" for name, count in counts.items()) or "none"
        raise InputError(
            f"a batch has samples along the first axis of each input, at least one and equally many: there are {listed}"
        )
    checked_inputs(arguments, {**state, **{name: values[0] for name, values in arrays.items()}})
    for name, values in arrays.items():
        check_limits(known[name], values)
    count = next(iter(counts.values()))
    same = {name: np.broadcast_to(value, (count, *value.shape)) for name, value in state.items()}
    return {**same, **arrays}


def checked_inputs(arguments: list[NodeArg], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs, each with the shape and type of its argument; InputError names the one that is wrong."""
    names = [each.name for each in arguments]
    for name in inputs:
        if name not in names:
            raise InputError(
                f"the model has no input {name!r}; it has {', '.join(map(repr, names)) or 'none'}"
            )
    values = {}
    for argument in arguments:
        if argument.name not in inputs:
            wanted = f"{argument.own} array of shape {list(argument.shape)}"
            raise InputError(f"input {argument.name!r} is missing: give an {wanted}")
        value = held(argument, np.asarray(inputs[argument.name]))
        if tuple(value.shape) != argument.shape:
            raise InputError(_wrong_shape(argument, value.shape))
        if value.dtype != argument.numpy:
            raise InputError(
                f"input {argument.name!r} has dtype {value.dtype}, the model wants {argument.own}: "
                f"{type_advice(argument, value)}"
            )
        check_limits(argument, value)
        values[argument.name] = value
    return values


def check_shapes(arguments: list[NodeArg], inputs: Mapping[str, np.ndarray]) -> None:
    """Raises InputError for an array that is not one run's, of several samples too."""
    for argument in arguments:
        if argument.name in inputs and (shape := np.shape(inputs[argument.name])) != argument.shape:
            raise InputError(_wrong_shape(argument, shape))


def _wrong_shape(argument: NodeArg, shape: tuple[int, ...]) -> str:
    """Why an array of this shape is refused, and what makes it fit without mixing up its elements."""
    problem = f"input {argument.name!r} has shape {list(shape)}, the model wants {list(argument.shape)}"
    fit = fit_of(shape, argument.shape)
    if fit is None:
        return f"{problem}: prepare samples of this shape as for the training"
    steps = []
    if fit.expressions:
        moved = "its axes are in another order, " if "transpose" in fit.expressions[0] else ""
        steps.append(f"{moved}give {' or '.join(fit.expressions)}")
    if fit.samples > 1:
        each = "x[i]" if shape[1:] == argument.shape else f"x[i:i + {argument.shape[0]}]"
        numbers = (
            f"range({shape[0]})"
            if argument.shape[:1] in ((), (1,))
            else f"range(0, {shape[0]}, {argument.shape[0]})"
        )
        steps.append(
            f"{'which then' if steps else 'it'} holds {fit.samples} samples: give --batch {fit.samples}, or in Python "
            f"session.map({{{argument.name!r}: {each}}} for i in {numbers})"
        )
    return f"{problem}: {', '.join(steps)}"


_PIXEL_MAX = 255
_UNIT = 1.5
"""Reals up to here are pixels that were divided by 255."""


def type_advice(argument: NodeArg, value: np.ndarray) -> str:
    """How an array of another type becomes what the model wants, with the values that it stands for."""
    wanted = argument.own
    if argument.type.is_float:
        return f"convert it with .astype(np.{wanted})"
    if wanted == np.bool_:
        return "give x != 0"
    held, limits = f"give np.asarray(x, np.{wanted})", np.iinfo(wanted)
    fits = _is_held(limits, value)
    if argument.stands_for is None:
        themselves = argument.unsigned or argument.type.bits > 16
        if fits and (value.dtype.kind == "i" or themselves):
            return held
        if themselves:
            return f"give integers from {limits.min} to {limits.max}"
        return (
            "the file does not say which reals its integers stand for (there is no .quant.json beside it), give "
            "tosaic.quantize(reals, SCALE, ZERO_POINT) with the numbers that it was quantized with"
            + (
                f", or x.view(np.{wanted}) where the network itself takes {value.dtype}"
                if value.dtype == unsigned_type(argument.type)
                else ""
            )
        )
    low, high = argument.stands_for.ends
    least, most = (float(value.min()), float(value.max())) if value.size else (0.0, 0.0)
    slack = 0.05 * (high - low)
    if fits and value.dtype.kind == "i" and not low - slack <= least <= most <= high + slack:
        return f"{held} of integers that were quantized"
    return f"its integers stand for {low:.4g} to {high:.4g}, {_quantizing(argument.stands_for, wanted, least, most)}"


def _is_held(limits: np.iinfo, value: np.ndarray) -> bool:
    """Whether all values are integers within limits."""
    if value.dtype.kind not in "iuf" or not value.size:
        return False
    whole = value.dtype.kind != "f" or bool(np.all(value == np.rint(value)))
    return whole and limits.min <= value.min() and bool(value.max() <= limits.max)


def _quantizing(encoding: Encoding, dtype: np.dtype, least: float, most: float) -> str:
    """Python that quantizes an array; of pixels, what the training made of them."""
    if isinstance(encoding, CurvedEncoding):
        return "whose curve session.inputs tell: give the input's encoding.quantize(x)"
    kind = "" if dtype == np.int8 else f", dtype={dtype.name!r}"
    call = f"tosaic.quantize({{}}, {encoding.scale!r}, {encoding.zero_point}{kind})"
    low, high = encoding.ends
    if not (0 <= least and _UNIT < most <= _PIXEL_MAX and high <= _PIXEL_MAX / 16):
        return f"give {call.format('x')}"
    if -_UNIT < 2 * low and high <= _UNIT:
        return f"give {call.format('x / 255')} for pixels that the training divided by 255"
    return f"make of the pixels what the training made of them, and give {call.format('reals')}"


def entering(argument: NodeArg, values: np.ndarray) -> np.ndarray:
    """What the model gets for values of the data set, reals or its own integers. InputError where neither fits."""
    if values.dtype in (argument.numpy, argument.own):
        return held(argument, values)
    if values.dtype.kind == "f" and argument.stands_for is not None:
        if not takes(values):
            raise InputError(f"the data for input {argument.name!r} has values that are not finite")
        return argument.stands_for.quantize(values)
    if values.dtype.kind == "f" and not argument.type.is_float:
        raise InputError(
            f"the data for input {argument.name!r} is {values.dtype}, the model wants {argument.own} and has no "
            "scale (.quant.json): give its integers"
        )
    own = values.astype(argument.own)
    if not argument.type.is_float and not np.array_equal(own, values):
        raise InputError(
            f"the data for input {argument.name!r} has {values.dtype} values beyond {argument.own}, the model's type"
        )
    return held(argument, own)


def reals(argument: NodeArg, values: np.ndarray) -> np.ndarray:
    """What a float model gets, or what the model's values stand for."""
    if argument.stands_for is not None and values.dtype.kind != "f":
        return argument.stands_for.dequantize(values).astype(np.float32)
    return values.view(argument.own) if values.dtype == argument.numpy else values


def made_up(generator: np.random.Generator, argument: NodeArg) -> np.ndarray:
    """Any integers or booleans of the argument's type, or normal floats, in its shape."""
    if argument.numpy == np.bool_:
        return generator.integers(0, 2, argument.shape).astype(bool)
    if argument.type.is_float:
        return nearest(generator.standard_normal(argument.shape), argument.type)
    if argument.limits is not None:
        own = generator.integers(*argument.limits, argument.shape, endpoint=True, dtype=argument.own)
        return own.view(argument.numpy)
    return generator.integers(
        argument.type.min, argument.type.max, argument.shape, endpoint=True, dtype=argument.numpy
    )
