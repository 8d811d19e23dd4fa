"""The traits of the operator table hold on golden, for random operands, and operators without them do not have them."""

import ast
import dataclasses
import pathlib

import numpy as np
import pytest
from operator_cases import CASES, Case, Value

from tosaic.compiler.ir import OPERATORS, DType, Trait
from tosaic.compiler.ir.examples import examples
from tosaic.sim.golden import evaluate_operator

SEEDS = range(40)
DEGREES = (-1, -0.5, 0, 1, 2)
ROOT = pathlib.Path(__file__).resolve().parents[2]


def cases(op: str) -> list[Case]:
    return [CASES[op](np.random.default_rng(seed)) for seed in SEEDS]


def data_of(case: Case) -> list[Value]:
    return OPERATORS[case.op].data_inputs(case.operands)


def recomputed(case: Case, arrays: list[np.ndarray], *parameters: np.ndarray) -> np.ndarray | None:
    """The result of other data operands (and parameters, if given); None where they make no legal operator."""
    rest = parameters or [each.array for each in case.operands[len(arrays) :]]
    operands = [Value(array, each.dtype) for array, each in zip([*arrays, *rest], case.operands, strict=True)]
    try:
        return dataclasses.replace(case, operands=operands).golden()
    except Exception:  # whatever golden says of operands that do not fit
        return None


def equal(a: np.ndarray | None, b: np.ndarray) -> bool:
    return a is not None and a.shape == b.shape and np.array_equal(a, b)


def per_channel(case: Case, channels: slice) -> list[np.ndarray]:
    """The parameters of a RESCALE for some channels; none for other operators."""
    if not case.attributes.get("per_channel"):
        return []
    return [each.array[channels] if each.array.size > 1 else each.array for each in case.operands[1:]]


def is_elementwise(case: Case, rng: np.random.Generator) -> bool:
    """A box of the result is the result of the operands' boxes."""
    result = case.golden()
    starts = [int(rng.integers(0, size)) for size in result.shape]
    box = [
        slice(start, int(rng.integers(start, size)) + 1)
        for start, size in zip(starts, result.shape, strict=True)
    ]
    arrays = []
    for each in data_of(case):
        if each.array.ndim != result.ndim:
            return False
        sizes = each.array.shape
        arrays.append(
            each.array[tuple(slice(None) if n == 1 else cut for n, cut in zip(sizes, box, strict=True))]
        )
    return equal(
        recomputed(case, arrays, *per_channel(case, box[-1] if box else slice(None))), result[tuple(box)]
    )


def mapped(case: Case, function) -> bool:
    """Whether it is the same to map the data operands' elements and those of the result."""
    data = data_of(case)
    if any(each.dtype is not case.out_dtype for each in data):
        return False
    changed = recomputed(case, [function(each.array) for each in data])
    return equal(changed, function(case.golden()))


def moves(case: Case, rng: np.random.Generator) -> bool:
    if case.out_dtype is DType.BOOL:
        return all(mapped(case, function) for function in (np.zeros_like, np.ones_like, np.logical_not))
    ends = (np.iinfo(case.out_dtype.numpy).min, np.iinfo(case.out_dtype.numpy).max)
    factor, summand = int(rng.integers(1, 100)) * 2 + 1, int(rng.integers(1, 100))

    def scrambled(values: np.ndarray) -> np.ndarray:
        return (
            (values.astype(np.int64) * factor + summand - ends[0]) % (ends[1] - ends[0] + 1) + ends[0]
        ).astype(values.dtype)

    return mapped(case, scrambled)


def reorders(case: Case, rng: np.random.Generator) -> bool:
    result, first = case.golden(), case.operands[0].array
    return moves(case, rng) and equal(np.sort(result, axis=None), np.sort(first, axis=None))


def renames(case: Case, rng: np.random.Generator) -> bool:
    return moves(case, rng) and equal(case.golden().reshape(-1), case.operands[0].array.reshape(-1))


def picks(case: Case, rng: np.random.Generator) -> bool:
    first = case.operands[0]
    if first.dtype is not case.out_dtype or not np.isin(case.golden(), first.array).all():
        return False
    others = [each.array for each in data_of(case)[1:]]
    return all(
        (result := recomputed(case, [np.full_like(first.array, value), *others])) is not None
        and (result == value).all()
        for value in first.array.reshape(-1)[:4]
    )


def reduces(case: Case, rng: np.random.Generator) -> bool:
    axis, result = case.attributes.get("axis"), case.golden()
    before = list(case.operands[0].array.shape)
    if axis is None or len(data_of(case)) > 1:
        return False
    before[axis] = 1
    return list(result.shape) == before


def by_channel(case: Case, rng: np.random.Generator) -> bool:
    result, data = case.golden(), data_of(case)
    if not result.ndim or case.attributes.get("axis") == case.operands[0].array.ndim - 1:
        return True
    if any(not each.array.ndim for each in data):
        return False
    start = int(rng.integers(0, result.shape[-1]))
    channels = slice(start, int(rng.integers(start, result.shape[-1])) + 1)
    arrays = [each.array if each.array.shape[-1] == 1 else each.array[..., channels] for each in data]
    return equal(recomputed(case, arrays, *per_channel(case, channels)), result[..., channels])


def by_sample(case: Case, rng: np.random.Generator) -> bool:
    result, (first, *others) = case.golden(), data_of(case)
    if not first.array.ndim or result.shape[:1] != first.array.shape[:1]:
        return False
    # Two samples, the second one the first, changed.
    twice = np.concatenate([first.array, first.array[::-1]])
    found = recomputed(case, [twice, *(each.array for each in others)])
    return equal(found, np.concatenate([result, result[::-1]]))


def compares(case: Case, rng: np.random.Generator) -> bool:
    data = data_of(case)
    if case.out_dtype is not DType.BOOL or len(data) != 2 or data[0].dtype is DType.BOOL:
        return False
    a, b = np.broadcast_arrays(*(each.array.astype(np.int64) for each in data))
    pairs = set(zip(np.sign(a - b).reshape(-1).tolist(), case.golden().reshape(-1).tolist(), strict=True))
    return len(pairs) == len({sign for sign, _ in pairs})


IF_AND_ONLY_IF = {
    Trait.ELEMENTWISE: is_elementwise,
    Trait.MOVES: moves,
    Trait.REORDERS: reorders,
    Trait.RENAMES: renames,
    Trait.PICKS: picks,
    Trait.REDUCES: reduces,
    Trait.CHANNEL_BY_CHANNEL: by_channel,
    Trait.COMPARES: compares,
}


@pytest.mark.parametrize("op", CASES)
@pytest.mark.parametrize("trait", IF_AND_ONLY_IF, ids=lambda trait: trait.name.lower())
def test_operators_that_have_a_trait_and_no_others(trait, op):
    rng = np.random.default_rng(7)
    held = [IF_AND_ONLY_IF[trait](case, rng) for case in cases(op)]
    assert all(held) == (trait in OPERATORS[op].traits)


@pytest.mark.parametrize("op", sorted(op for op in CASES if Trait.ELEMENTWISE not in OPERATORS[op].traits))
def test_samples_of_the_first_axis_by_themselves(op):
    rng = np.random.default_rng(7)
    held = [by_sample(case, rng) for case in cases(op)]
    assert all(held) == (Trait.SAMPLE_BY_SAMPLE in OPERATORS[op].traits)


@pytest.mark.parametrize(
    "name, trait", [("indices", Trait.INDEXED), ("kernel", Trait.POOLS), ("weight", Trait.CONVOLVES)]
)
def test_traits_that_operands_and_attributes_tell(name, trait):
    told = {
        op
        for op, spec in OPERATORS.items()
        if name in {each.name for each in (*spec.operands, *spec.attributes)} and op != "FULLY_CONNECTED"
    }
    assert told == {op for op, spec in OPERATORS.items() if trait in spec.traits}


# --- floats


@dataclasses.dataclass
class FloatCase:
    """An operator of fp32 operands."""

    op: str
    arrays: list[np.ndarray]
    attributes: dict
    dtypes: list[DType]

    def result(self, arrays: list[np.ndarray]) -> np.ndarray:
        rest = self.arrays[len(arrays) :]
        return evaluate_operator(self.op, [*arrays, *rest], self.attributes, self.dtypes)[0].astype(
            np.float64
        )


def float_cases(op: str, rng: np.random.Generator) -> list[FloatCase]:
    """Random quarters as operands of each mode that has fp32; an axis is each of the first two."""
    found = []
    for example in examples():
        if example.spec.name != op or example.mode is None or DType.FP32 not in example.mode.types.values():
            continue
        if {DType.FP16, DType.BF16, DType.FP8E4M3, DType.FP8E5M2} & set(example.mode.types.values()):
            continue
        (operator,), tensors = example.graph.operators, example.graph.tensors
        arrays = []
        for operand, name in zip(example.spec.operands, operator.inputs, strict=False):
            data, shape = tensors[name].data, tensors[name].shape
            if tensors[name].dtype is DType.FP32 and not operand.constant:
                data = (rng.integers(1, 40, shape) * rng.choice([-1, 1], shape) / 4).astype(np.float32)
            elif data is None:
                data = rng.integers(0, 2, shape).astype(tensors[name].dtype.numpy)
            arrays.append(data)
        dtypes = [tensors[name].dtype for name in operator.outputs]
        for axis in (0, 1) if "axis" in operator.attributes else (0,):
            attributes = operator.attributes | ({"axis": axis} if "axis" in operator.attributes else {})
            found.append(FloatCase(op, arrays, attributes, dtypes))
    return found


WITH_FLOATS = sorted(
    {
        each.spec.name
        for each in examples()
        if each.mode and DType.FP32 in each.mode.types.values() and "1.0" in each.spec.versions
    }
)


def scaled(case: FloatCase, factor: float) -> list[np.ndarray]:
    return [
        array * np.float32(factor) if array.dtype == np.float32 else array
        for array in OPERATORS[case.op].data_inputs(case.arrays)
    ]


@pytest.mark.parametrize("op", WITH_FLOATS)
def test_the_power_of_a_factor_of_all_operands(op):
    rng = np.random.default_rng(3)
    found = [case for _ in range(10) for case in float_cases(op, rng)]
    held = set(DEGREES)
    with np.errstate(all="ignore"):
        for case in found:
            once, more = case.result(scaled(case, 1)), case.result(scaled(case, 4))
            held = {
                degree for degree in held if np.allclose(more, once * 4.0**degree, 1e-6, 0, equal_nan=True)
            }
    degree = OPERATORS[op].degree
    assert held == (set() if degree is None else {degree})


@pytest.mark.parametrize(
    "op", sorted(op for op in WITH_FLOATS if OPERATORS[op].traits & (Trait.LINEAR | Trait.SUMS_PRODUCTS))
)
def test_a_straight_line_in_each_operand(op):
    rng = np.random.default_rng(4)
    for case in [case for _ in range(5) for case in float_cases(op, rng)]:
        data = OPERATORS[op].data_inputs(case.arrays)
        for place, array in enumerate(data):
            step = rng.integers(-8, 8, array.shape).astype(np.float32)
            first, second, third = (
                case.result([*data[:place], array + np.float32(times) * step, *data[place + 1 :]])
                for times in range(3)
            )
            assert np.array_equal(third - second, second - first)


@pytest.mark.parametrize("op", sorted(op for op in CASES if Trait.BOUNDS in OPERATORS[op].traits))
def test_bounds_hold_once_and_for_all(op):
    for case in cases(op):
        result, (first, *others) = case.golden(), data_of(case)
        bounds = [
            case.attributes.get("min_val"),
            case.attributes.get("max_val"),
            *(each.array for each in others),
        ]
        assert np.logical_or.reduce(
            [result == bound for bound in (first.array, *bounds) if bound is not None]
        ).all()
        assert equal(recomputed(case, [result, *(each.array for each in others)]), result)


def test_golden_knows_nothing_of_traits():
    """A wrong trait must not make golden wrong in the same way."""
    for path in sorted((ROOT / "sim/golden").rglob("*.py")):
        imported = {
            name.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        }
        assert not imported & {"Trait", "operators_with", "data_inputs"}, path
