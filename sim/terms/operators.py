"""Readers of operators that compute element by element, or move elements."""

import numpy as np

from tosaic.compiler.ir import DType

from .algebra import UndecidedError
from .division import divided
from .functions import multiplied, named, shifted
from .graph import Case, reads
from .indexed import gathered, scattered
from .values import LARGEST, SMALLEST, Terms, concatenate, select

INT32 = DType.INT32
BLOCK_ELEMENTS = 1 << 15
"""Elements that a RESCALE computes at once, of all steps before those of the next: they stay in the cache."""


@reads("ADD")
def _add(case: Case) -> Terms:
    return case.required(case.algebra.add(case.term(0), case.term(1)))


@reads("SUB")
def _sub(case: Case) -> Terms:
    return case.required(case.algebra.subtract(case.term(0), case.term(1)))


@reads("INTDIV")
def _divide(case: Case) -> Terms:
    algebra, n, d = case.algebra, case.term(0), case.term(1)
    if d.is_number(0):
        raise UndecidedError("the specification leaves a result open for every input")
    # REQUIRE wants no 0, and a quotient that fits.
    open_ends = ((d.low <= 0) & (d.high >= 0)) | ((n.low == INT32.min) & (d.low <= -1) & (d.high >= -1))
    algebra.assumed += int(np.broadcast_to(open_ends, case.output.shape).sum())
    if not algebra.uses("division"):
        return algebra.fresh(case.output.shape, int(INT32.min), int(INT32.max))
    result = divided(algebra, n, d)
    algebra.note("division", result.size)
    return result


@reads("MUL")
def _mul(case: Case) -> Terms:
    shift = int(case.data(2).reshape(-1)[0]) if len(case.values) > 2 else 0
    shift = shift if case.tensors[0].dtype is INT32 else 0
    product = multiplied(case.algebra, case.term(0), case.term(1), shift)
    # The low bits, or a shifted product, which must fit.
    return case.required(product) if shift else case.algebra.wrap(product, case.out.bits)


@reads("RESCALE")
def _rescale(case: Case) -> Terms:
    """In blocks that stay in the cache."""
    value = case.term(0)
    axis = next((axis for axis, n in enumerate(value.shape[:-1]) if n > 1), None)
    if axis is None or value.size <= BLOCK_ELEMENTS:
        return _rescaled(case, value)
    step = max(value.shape[axis] * BLOCK_ELEMENTS // value.size, 1)
    blocks = [slice(first, first + step) for first in range(0, value.shape[axis], step)]
    return concatenate([_rescaled(case, value[(slice(None),) * axis + (own,)]) for own in blocks], axis)


def _rescaled(case: Case, value: Terms) -> Terms:
    algebra, zero = case.algebra, case.zero(3)
    if case.attribute("input_unsigned"):
        value, zero = _unsigned(case, value, 0), _unsigned(case, zero, 3)
    multiplier, shift = case.data(1), case.data(2)
    if not case.attribute("per_channel"):
        multiplier, shift = multiplier.reshape(-1)[:1], shift.reshape(-1)[:1]
    double = bool(case.attribute("scale32")) and case.attribute("rounding_mode") == "DOUBLE_ROUND"
    centred = algebra.subtract(value, zero)
    algebra.intervals.note(centred)
    scaled = algebra.rescale(centred, multiplier, shift, double=double)
    scaled = case.required(scaled, INT32)
    out_zero = case.zero(4)
    if not case.attribute("output_unsigned"):
        return case.clipped(case.required(algebra.add(scaled, out_zero), INT32))
    result = case.required(algebra.add(scaled, _unsigned(case, out_zero, 4)), INT32)
    result = algebra.clamp(result, 0, (1 << case.out.bits) - 1)
    return _signed(case, result)


def _unsigned(case: Case, terms: Terms, operand: int) -> Terms:
    """The bits of a signed type as an unsigned number."""
    bits = case.tensors[operand].dtype.bits
    if bits not in (8, 16):
        raise UndecidedError(f"unsigned values of {bits} bits")
    return case.algebra.unsigned(terms, bits)


def _signed(case: Case, terms: Terms) -> Terms:
    algebra, bits = case.algebra, case.out.bits
    fits = terms.high < 1 << (bits - 1)
    if fits.all():
        return terms
    if bits == 8:
        return select(fits, terms, algebra.turned(terms.plain(), signed=True))
    if bits != 16:
        raise UndecidedError(f"unsigned values of {bits} bits")
    low, high = (algebra.byte(terms, k, 2, signed=k == 1) for k in range(2))
    return select(fits, terms, algebra.add(low, algebra.scaled(high, 256)))


@reads("CLAMP")
def _clamp(case: Case) -> Terms:
    return case.algebra.clamp(case.term(0), int(case.attribute("min_val")), int(case.attribute("max_val")))


@reads("MAXIMUM", "MINIMUM")
def _extreme(case: Case) -> Terms:
    kind = LARGEST if case.name == "MAXIMUM" else SMALLEST
    return case.algebra.extreme(_bound(case, 0), _bound(case, 1), kind)


def _bound(case: Case, number: int) -> Terms:
    """An operand; of a constant that is one number everywhere, this number: a limit, as a CLAMP has."""
    known = case.constant(number)
    if known is None or not known.size or (known != known.flat[0]).any():
        return case.term(number)
    return case.algebra.constant(known.reshape(-1)[0].reshape((1,) * known.ndim))


@reads("ABS")
def _abs(case: Case) -> Terms:
    return case.required(named(case.algebra, "ABS", case.term(0), case.term(0)))


@reads("NEGATE")
def _negate(case: Case) -> Terms:
    algebra = case.algebra
    negated = algebra.subtract(algebra.constant(np.int64(0)), case.centred(0, 1))
    return case.clipped(algebra.add(case.required(negated, INT32), case.zero(2)))


@reads("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR")
def _bitwise(case: Case) -> Terms:
    return case.algebra.bitwise(case.name.removeprefix("BITWISE_"), case.term(0), case.term(1))


@reads("BITWISE_NOT")
def _bitwise_not(case: Case) -> Terms:
    return case.algebra.exclusive_or(case.term(0), -1)


@reads("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")
def _logical(case: Case) -> Terms:
    return case.algebra.bitwise(case.name.removeprefix("LOGICAL_"), case.term(0), case.term(1))


@reads("LOGICAL_NOT")
def _logical_not(case: Case) -> Terms:
    return case.algebra.subtract(case.algebra.constant(np.int64(1)), case.term(0))


@reads("EQUAL", "GREATER", "GREATER_EQUAL")
def _compare(case: Case) -> Terms:
    name = {"EQUAL": "EQ", "GREATER": "GT", "GREATER_EQUAL": "GE"}[case.name]
    return named(case.algebra, name, case.term(0), case.term(1))


@reads("SELECT")
def _select(case: Case) -> Terms:
    algebra, (condition, one, other) = case.algebra, (case.term(number) for number in range(3))
    return algebra.choice(condition, one, other)


@reads("CLZ")
def _clz(case: Case) -> Terms:
    return named(case.algebra, "CLZ", case.term(0), case.term(0))


@reads("ARITHMETIC_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT")
def _shift(case: Case) -> Terms:
    algebra, value, amount = case.algebra, case.term(0), case.term(1)
    name = {"A": "ASR", "LOGICAL_L": "LSL", "LOGICAL_R": "LSR"}[case.name[: 1 if case.name[0] == "A" else 9]]
    if name == "ASR" and case.attribute("round"):
        name = "ASRR"
    if name == "LSR" and case.out.bits < 32:
        value = _unsigned(case, value, 0)
    constant = case.constant(1)
    if constant is not None and constant.size and (constant == constant.reshape(-1)[0]).all():
        result = shifted(algebra, name, value, int(constant.reshape(-1)[0]))
    else:
        limit = 31 if name in ("LSL", "LSR") else case.out.bits - 1
        result = shifted(algebra, name, value, algebra.require(amount, (0, limit)))
    return algebra.wrap(result, case.out.bits)


@reads("TABLE")
def _table(case: Case) -> Terms:
    entries = case.data(1).reshape(-1)
    if case.tensors[0].dtype is DType.INT8:
        return case.algebra.table(case.term(0), entries)
    return case.algebra.interpolated(case.term(0), entries)


@reads("CAST")
def _cast(case: Case) -> Terms:
    algebra, value = case.algebra, case.term(0)
    if case.out is DType.BOOL:
        zero = algebra.constant(np.int64(0))
        return algebra.subtract(algebra.constant(np.int64(1)), named(algebra, "EQ", value, zero))
    return algebra.wrap(value, case.out.bits)


@reads("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ALL", "REDUCE_ANY")
def _reduce(case: Case) -> Terms:
    algebra, value, axis = case.algebra, case.term(0), int(case.attribute("axis"))
    before = (slice(None),) * (axis % value.ndim)
    own = [value[(*before, slice(k, k + 1))] for k in range(value.shape[axis])]
    result = own[0]
    for each in own[1:]:
        match case.name:
            case "REDUCE_SUM":
                result = case.required(algebra.add(result, each))
            case "REDUCE_MAX" | "REDUCE_MIN":
                result = algebra.extreme(result, each, LARGEST if case.name[7:] == "MAX" else SMALLEST)
            case _:
                result = algebra.bitwise("AND" if case.name == "REDUCE_ALL" else "OR", result, each)
    if case.name == "REDUCE_MAX":
        algebra.at_most(value, result)
    return result


@reads("ARGMAX")
def _argmax(case: Case) -> Terms:
    return case.algebra.first_largest(case.term(0), int(case.attribute("axis")))


@reads("RESHAPE")
def _reshape(case: Case) -> Terms:
    return case.term(0).reshape(tuple(case.output.shape))


@reads("IDENTITY")
def _identity(case: Case) -> Terms:
    return case.term(0)


@reads("TRANSPOSE")
def _transpose(case: Case) -> Terms:
    perms = [int(axis) for axis in case.attribute("perms")]
    return case.term(0).each(lambda x, lead: x.transpose([*range(lead), *(axis + lead for axis in perms)]))


@reads("SLICE")
def _slice(case: Case) -> Terms:
    start, size = case.data(1).reshape(-1).tolist(), case.data(2).reshape(-1).tolist()
    return case.term(0)[tuple(slice(s, s + n) for s, n in zip(start, size, strict=True))]


@reads("PAD")
def _pad(case: Case) -> Terms:
    widths = case.data(1).reshape(-1, 2).tolist()
    return case.term(0).padded(
        [(before, after) for before, after in widths], int(case.data(2).reshape(-1)[0])
    )


@reads("CONCAT")
def _concat(case: Case) -> Terms:
    return concatenate([case.term(k) for k in range(len(case.values))], int(case.attribute("axis")))


@reads("REVERSE")
def _reverse(case: Case) -> Terms:
    return case.term(0).along(int(case.attribute("axis")), lambda x, axis: np.flip(x, axis))


@reads("TILE")
def _tile(case: Case) -> Terms:
    multiples = case.data(1).reshape(-1).tolist()
    return case.term(0).each(lambda x, lead: np.tile(x, (1,) * lead + tuple(multiples)))


@reads("GATHER")
def _gather(case: Case) -> Terms:
    values = case.term(0)
    index = case.algebra.require(case.term(1), (0, values.shape[1] - 1))
    if index.constant:
        return values[np.arange(values.shape[0])[:, None], index.low]
    rows = [gathered(case.algebra, values[n], index[n]) for n in range(values.shape[0])]
    return concatenate([each.reshape(1, *each.shape) for each in rows])


@reads("SCATTER")
def _scatter(case: Case) -> Terms:
    values, new = case.term(0), case.term(2)
    index = case.algebra.require(case.term(1), (0, values.shape[1] - 1))
    for own in range(values.shape[0]):
        known = index.low[own][index.low[own] == index.high[own]]
        if len(np.unique(known)) < known.size:
            raise UndecidedError("an index that comes twice")
    rows = [scattered(case.algebra, values[n], index[n], new[n]) for n in range(values.shape[0])]
    return concatenate([each.reshape(1, *each.shape) for each in rows])
