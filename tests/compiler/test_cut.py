"""Which box of each operand a box of a result needs, for every operator: proved against golden, which computes the box
from the boxes; and the inverse, what cuts must keep to, and parts of sums."""

import random
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from layer_graphs import LayerBuilder
from random_operators import RECIPES, Case, random_operator

from tosaic.compiler.cut.boxes import Box, NotCut, Range, hull, is_empty, meet, part_of_array, whole
from tosaic.compiler.cut.cut_operator import CutOperator, cut_operator, part_of_sum
from tosaic.compiler.cut.nests import AxisCut, Cuttable, Nest
from tosaic.compiler.cut.rules import nest_of
from tosaic.compiler.cut.window_axis import WindowAxis
from tosaic.compiler.ir import OPERATORS, DType, Graph, Operator
from tosaic.sim.golden import evaluate_operator

CASES = 30
"""Random cases of each operator."""
UNCUT = {
    *("CONST", "CONST_SHAPE", "CUSTOM", "COND_IF", "WHILE_LOOP"),
    *("VARIABLE", "VARIABLE_READ", "VARIABLE_WRITE"),
}
"""Operators that no box is made of."""


def dice_of(op: str) -> random.Random:
    return random.Random(f"cut {op}")


def cases(op: str) -> list[Case]:
    return [random_operator(op, seed) for seed in range(CASES)]


def nest(case: Case) -> Cuttable:
    found = nest_of(case.graph, case.operator)
    assert isinstance(found, Cuttable)
    return found


def random_range(dice: random.Random, extent: int) -> Range:
    if dice.random() < 0.3:
        return 0, extent
    first = dice.randrange(extent)
    return first, dice.randint(first + 1, extent)


def legal_box(dice: random.Random, rules: Cuttable, shape: tuple[int, ...]) -> Box:
    """A random box that keeps to what the axes say."""
    box = []
    for axis, extent in enumerate(shape):
        rule = rules.axis(axis)
        ends = [0, extent] if rule.whole else sorted({*range(0, extent, rule.unit), extent})
        first = dice.randrange(len(ends) - 1)
        box.append((ends[first], ends[dice.randrange(first + 1, len(ends))]))
    return tuple(box)


def computed(case: Case, cut: CutOperator) -> list[np.ndarray]:
    """Golden's results from boxes of the operands."""
    given = [
        np.asarray(cut.constants[number])
        if number in cut.constants
        else part_of_array(data, cut.operands.get(number, whole(data.shape)))
        for number, data in enumerate(case.values)
        if number not in cut.unread
    ]
    return case.results(given, **cut.attributes)


def test_every_operator_of_the_table_is_cut_or_tells_why_not() -> None:
    assert set(OPERATORS) == set(RECIPES) | UNCUT
    for op in sorted(UNCUT):
        found = nest_of(Graph("none"), Operator(op, [], [], {}, op))
        assert isinstance(found, NotCut)
        assert found.reason == f"the results of {op} are not computed element by element"


@pytest.mark.parametrize("op", RECIPES)
def test_a_box_of_the_result_is_computed_from_the_boxes_of_the_operands(op: str) -> None:
    """A box that keeps to what the axes say is cut, but for one that comes from padding alone."""
    dice, done = dice_of(op), 0
    for case in cases(op):
        wanted = case.results()
        for _ in range(4):
            box = legal_box(dice, nest(case), case.shape)
            found = cut_operator(case.graph, case.operator, box)
            if isinstance(found, NotCut):
                assert found.reason == "all of the box comes from padding"
                others = [data if number else -data - 1 for number, data in enumerate(case.values)]
                np.testing.assert_array_equal(
                    part_of_array(case.results(others)[0], box), part_of_array(wanted[0], box)
                )
                continue
            done += 1
            for made, all_of_it in zip(computed(case, found), wanted, strict=True):
                np.testing.assert_array_equal(
                    made, part_of_array(all_of_it, box), err_msg=f"{case.operator} {box}"
                )
    assert done >= CASES


@pytest.mark.parametrize("op", RECIPES)
def test_other_boxes_are_cut_right_or_refused_with_a_reason(op: str) -> None:
    dice = dice_of(op)
    for case in cases(op):
        wanted = case.results()
        for _ in range(4):
            box = tuple(random_range(dice, extent) for extent in case.shape)
            found = cut_operator(case.graph, case.operator, box)
            if isinstance(found, NotCut):
                refused = nest(case).refusal(box)
                assert found.reason and (
                    refused == found or found.reason == "all of the box comes from padding"
                )
                continue
            for made, all_of_it in zip(computed(case, found), wanted, strict=True):
                np.testing.assert_array_equal(
                    made, part_of_array(all_of_it, box), err_msg=f"{case.operator} {box}"
                )


@pytest.mark.parametrize("op", RECIPES)
def test_nothing_outside_of_the_boxes_matters(op: str) -> None:
    """`needs` holds all that is read: other values elsewhere change nothing in the box."""
    dice, changed = dice_of(op), np.random.default_rng(1)
    for case in cases(op):
        box = legal_box(dice, nest(case), case.shape)
        values = []
        for number, data in enumerate(case.values):
            needed = nest(case).needs(box).get(number)
            # Numbers that say where elements lie are not data; an index stays one.
            if needed is None or case.graph.tensors[case.operator.inputs[number]].data is not None:
                values.append(data)
                continue
            other = changed.permutation(data.reshape(-1)).reshape(data.shape)
            part_of_array(other, needed)[...] = part_of_array(data, needed)
            values.append(other)
        for made, wanted in zip(case.results(values), case.results(), strict=True):
            np.testing.assert_array_equal(part_of_array(made, box), part_of_array(wanted, box))


@pytest.mark.parametrize("op", RECIPES)
def test_the_inverse_is_the_largest_box_that_reads_no_more(op: str) -> None:
    dice, found = dice_of(op), 0
    for case in cases(op):
        rules = nest(case)
        for operand in rules.needs(whole(case.shape)):
            given = tuple(random_range(dice, extent) for extent in case.values[operand].shape)
            made = rules.makes(operand, given)
            if isinstance(made, NotCut):
                assert made.reason
                continue
            found += 1
            assert rules.refusal(made) is None
            assert inside(rules.needs(made)[operand], given)
            for axis, (first, last) in enumerate(made):
                rule, extent = rules.axis(axis), case.shape[axis]
                for larger in ((first - rule.unit, last), (first, min(last + rule.unit, extent))):
                    if not rule.whole and larger[0] >= 0 and larger != (first, last):
                        more = (*made[:axis], larger, *made[axis + 1 :])
                        needed = rules.needs(more)[operand]
                        assert is_empty(needed) or not inside(needed, given), (
                            case.operator,
                            given,
                            made,
                            more,
                        )
    assert found >= CASES / 6


def inside(box: Box, other: Box) -> bool:
    return is_empty(box) or all(a >= c and b <= d for (a, b), (c, d) in zip(box, other, strict=True))


@pytest.mark.parametrize("op", RECIPES)
def test_neighbouring_boxes_share_no_more_than_the_halo(op: str) -> None:
    for case in cases(op):
        rules, all_of_it = nest(case), whole(case.shape)
        for axis, extent in enumerate(case.shape):
            rule = rules.axis(axis)
            for end in () if rule.whole else range(rule.unit, extent, rule.unit):
                before, behind = (
                    rules.needs((*all_of_it[:axis], part, *all_of_it[axis + 1 :]))
                    for part in ((0, end), (end, extent))
                )
                for operand, box in before.items():
                    for mine, theirs in zip(box, behind[operand], strict=True):
                        shared = min(mine[1], theirs[1]) - max(mine[0], theirs[0])
                        assert shared <= rule.halo or mine == theirs


@pytest.mark.parametrize("op", RECIPES)
def test_the_parts_of_a_sum_are_put_together(op: str) -> None:
    dice = dice_of(op)
    for case in cases(op):
        rules = nest(case)
        for name, loop in rules.inner.items() if isinstance(rules, Nest) else ():
            end = dice.randint(1, loop.extent)
            cuts = [
                part_of_sum(case.graph, case.operator, {name: part})
                for part in ((0, end), (end, loop.extent))
            ]
            if loop.whole:
                assert cuts == [NotCut(loop.whole)] * 2
                continue
            if end == loop.extent:
                continue
            assert all(isinstance(cut, CutOperator) for cut in cuts)
            parts = [computed(case, cut)[0] for cut in cuts if isinstance(cut, CutOperator)]
            if loop.join == "ADD" and OPERATORS[op].category == "tensor" and op != "MATMUL":
                bias = case.values[2]
                parts[1] = parts[1] - bias
            extra = {} if loop.join.startswith(("ADD", "LOGICAL")) else {"nan_mode": "PROPAGATE"}
            dtype = case.graph.tensors[case.operator.outputs[0]].dtype
            (together,) = evaluate_operator(loop.join, parts, extra, [dtype])
            np.testing.assert_array_equal(
                together, case.results()[0], err_msg=f"{case.operator} {name} {end}"
            )


def test_random_boxes_meet_and_hold_each_other() -> None:
    a: Box = ((0, 2), (3, 6))
    assert [meet(a, (rows, (5, 7))) for rows in ((1, 4), (2, 4), (0, 1))] == [True, False, True]
    assert [meet(a, ((1, 2), columns)) for columns in ((6, 9), (0, 3), (0, 4))] == [False, False, True]
    assert hull(None, a) == a
    assert hull(a, ((1, 5), (1, 4))) == ((0, 5), (1, 6))


Make = Callable[[LayerBuilder], str]


def the_only(make: Make) -> tuple[Graph, Operator]:
    """A graph of one operator, and that."""
    build = LayerBuilder(1)
    build.output(make(build))
    graph = build.finish()
    return graph, graph.operators[0]


def rules_of(make: Make) -> Cuttable:
    found = nest_of(*the_only(make))
    assert isinstance(found, Cuttable)
    return found


def answer(make: Make, box: Box) -> CutOperator | NotCut:
    return cut_operator(*the_only(make), box)


def image(build: LayerBuilder) -> str:
    return build.input("x", (1, 9, 9, 4), DType.INT8)


def strided(build: LayerBuilder) -> str:
    return build.conv(image(build), 8, (3, 3), stride=(2, 2), pad=(1, 1, 1, 1))


def depthwise(build: LayerBuilder) -> str:
    return build.conv(image(build), 2, (4, 3), depthwise=True)


def reshaped(*shapes: tuple[int, ...]) -> Make:
    return lambda b: b.add("RESHAPE", [b.input("x", shapes[0], DType.INT8), b.shape(list(shapes[1]))])


def padded(build: LayerBuilder) -> str:
    padding = build.shape([1, 2, 0, 3])
    return build.add("PAD", [build.input("x", (2, 5), DType.INT8), padding, build.zero_point(DType.INT8)])


def joined(build: LayerBuilder) -> str:
    return build.add("CONCAT", [build.input(n, (2, 3), DType.INT8) for n in "abc"], axis=1)


def repeated(build: LayerBuilder) -> str:
    return build.add("TILE", [build.input("x", (2, 3), DType.INT8), build.shape([1, 3])])


def scattered(build: LayerBuilder) -> str:
    values, rows = build.input("v", (1, 6, 4), DType.INT8), build.input("r", (1, 2, 4), DType.INT8)
    return build.add("SCATTER", [values, build.constant([[3, 1]], DType.INT32), rows])


def test_the_image_of_a_convolution() -> None:
    found = answer(strided, ((0, 1), (0, 2), (0, 5), (0, 8)))
    assert isinstance(found, CutOperator)
    assert found.operands[0] == ((0, 1), (0, 4), (0, 9), (0, 4))
    assert found.attributes["pad"] == [1, 0, 1, 1]
    found = answer(strided, ((0, 1), (3, 5), (0, 5), (2, 6)))
    assert isinstance(found, CutOperator)
    assert found.operands[0] == ((0, 1), (5, 9), (0, 9), (0, 4))
    assert found.operands[1] == ((2, 6), (0, 3), (0, 3), (0, 4))
    assert found.operands[2] == ((2, 6),)
    assert found.attributes["pad"] == [0, 1, 1, 1]


def test_the_rows_that_rows_of_an_image_are_enough_for() -> None:
    assert rules_of(strided).makes(0, ((0, 1), (0, 4), (0, 9), (0, 4))) == ((0, 1), (0, 2), (0, 5), (0, 8))
    assert rules_of(strided).makes(0, ((0, 1), (3, 9), (0, 9), (0, 4))) == ((0, 1), (2, 5), (0, 5), (0, 8))
    assert rules_of(strided).makes(0, ((0, 1), (3, 4), (0, 9), (0, 4))) == NotCut(
        "the box is too small for any element of the result"
    )
    assert rules_of(strided).makes(0, ((0, 1), (0, 9), (0, 9), (0, 3))) == NotCut(
        "each element of the result reads all of axis 3 of the operand"
    )


def test_operands_of_a_box_of_padding_of_joined_and_of_repeated_tensors() -> None:
    assert answer(padded, ((2, 5), (2, 7))) == CutOperator({0: ((1, 2), (2, 5))}, constants={1: [0, 2, 0, 2]})
    assert answer(joined, ((0, 1), (4, 7))) == CutOperator(
        {1: ((0, 1), (1, 3)), 2: ((0, 1), (0, 1))}, unread=frozenset({0})
    )
    assert answer(repeated, ((1, 2), (3, 9))) == CutOperator({0: ((1, 2), (0, 3))}, constants={1: [1, 2]})


@pytest.mark.parametrize(
    ("shape", "box", "needed"),
    [
        ((1, 1, 1, 24), ((0, 1), (0, 1), (0, 1), (4, 8)), ((0, 1), (1, 2), (0, 4))),
        ((6, 4), ((1, 3), (0, 4)), ((0, 1), (1, 3), (0, 4))),
        ((6, 1, 4), ((1, 3), (0, 1), (1, 2)), ((0, 1), (1, 3), (1, 2))),
        ((3, 2, 4), ((1, 2), (0, 2), (1, 3)), ((0, 1), (2, 4), (1, 3))),
    ],
)
def test_boxes_of_a_reshape(shape: tuple[int, ...], box: Box, needed: Box) -> None:
    found = answer(reshaped((1, 6, 4), shape), box)
    assert isinstance(found, CutOperator)
    assert found.operands[0] == needed


@pytest.mark.parametrize(
    ("make", "axis", "rule"),
    [
        (strided, 1, AxisCut(halo=1)),
        (depthwise, 1, AxisCut(halo=3)),
        (depthwise, 3, AxisCut(unit=2)),
        (reshaped((6, 4), (24,)), 0, AxisCut(unit=4)),
        (reshaped((24,), (6, 4)), 0, AxisCut()),
        (repeated, 1, AxisCut(unit=3, halo=3)),
        (padded, 1, AxisCut()),
    ],
)
def test_what_cuts_along_an_axis_keep_to(make: Make, axis: int, rule: AxisCut) -> None:
    assert rules_of(make).axis(axis) == rule


@pytest.mark.parametrize(
    ("make", "box", "reason"),
    [
        (depthwise, ((0, 1), (0, 6), (0, 7), (1, 4)), "axis 3 is cut at multiples of 2, not to [1, 4)"),
        (reshaped((6, 4), (24,)), ((2, 8),), "axis 0 is cut at multiples of 4, not to [2, 8)"),
        (
            reshaped((24,), (6, 4)),
            ((0, 6), (0, 2)),
            "of the axes that a RESHAPE joins or splits, the first one is cut: other cuts have elements from many "
            "places",
        ),
        (padded, ((0, 1), (0, 8)), "all of the box comes from padding"),
        (padded, ((2, 2), (0, 8)), "the box has no element"),
        (scattered, ((0, 1), (0, 3), (0, 4)), "SCATTER puts rows at places that its indices tell"),
    ],
)
def test_why_a_box_is_not_cut(make: Make, box: Box, reason: str) -> None:
    assert answer(make, box) == NotCut(reason)


def test_a_start_that_is_computed_is_not_cut() -> None:
    def late(build: LayerBuilder) -> str:
        return build.add(
            "SLICE", [build.input("x", (5, 6), DType.INT8), build.shape([1, 2]), build.shape([2, 2])]
        )

    graph, operator = the_only(late)
    graph.tensors[operator.inputs[1]].data = None
    assert cut_operator(graph, operator, ((0, 1), (0, 2))) == NotCut(
        "the start of SLICE is computed at run time"
    )


def test_a_window_along_one_axis_is_its_taps() -> None:
    """Everything that is said of a window, tap by tap."""
    dice = random.Random(3)
    for _ in range(300):
        extent, outputs, taps = dice.randint(1, 9), dice.randint(1, 6), dice.randint(1, 5)
        axis = WindowAxis(extent, outputs, taps, dice.randint(-2, 4), dice.randint(1, 3), dice.randint(1, 3))
        first = dice.randrange(outputs)
        last = dice.randint(first + 1, outputs)

        def places(some: range, which: Iterable[int], axis: WindowAxis = axis) -> set[int]:
            return {o * axis.stride + t * axis.dilation - axis.pad for o in some for t in which}

        seen = {place for place in places(range(first, last), range(taps)) if 0 <= place < extent}
        low, high = axis.needs((first, last))
        assert seen <= set(range(low, high))
        assert not seen or low <= min(seen) and max(seen) < high
        useful = [t for t in range(taps) if any(0 <= place < extent for place in places(range(outputs), [t]))]
        assert list(axis.useful_taps()) == useful
        before, behind = axis.padding((first, last), (0, taps), (low, high))
        every = places(range(first, last), range(taps))
        assert (low - before, high + behind) == (min(every), max(every) + 1)
        size = dice.randint(1, outputs)
        parts = [(start, min(start + size, outputs)) for start in range(0, outputs, size)]
        assert axis.most_needed(size) == max(1, *(b - a for a, b in map(axis.needs, parts)))


def test_what_a_part_of_very_many_sees() -> None:
    """Not each of them is looked at: the first one, at the edge, sees one row less."""
    assert WindowAxis(extent=1001, outputs=1001, taps=3, pad=1).most_needed(1) == 3
    assert WindowAxis(extent=2, outputs=1500, taps=2, pad=0).most_needed(1) == 2
