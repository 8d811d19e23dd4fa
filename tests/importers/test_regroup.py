"""RESHAPE behind TRANSPOSE against NumPy, for any shapes."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tosaic.compiler.importers.lowering.regroup import regroup

SIZES = st.lists(st.sampled_from([1, 1, 2, 3, 4, 6]), min_size=1, max_size=5)


@st.composite
def reshapes(draw):
    """A shape, an order of its axes, and a shape that the turned array is reshaped to."""
    source = draw(SIZES)
    perms = draw(st.permutations(range(len(source))))
    target = [source[axis] for axis in perms]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(target) - 1))
        what = draw(st.sampled_from(["join", "split", "one"]))
        if what == "join" and at + 1 < len(target):
            target[at : at + 2] = [target[at] * target[at + 1]]
        elif what == "split" and target[at] % 2 == 0:
            target[at : at + 1] = [2, target[at] // 2]
        else:
            target.insert(at, 1)
    return tuple(source), tuple(perms), tuple(target)


@settings(max_examples=500, deadline=None)
@given(reshapes())
def test_regrouped_is_the_same_array(case):
    source, perms, target = case
    found = regroup(source, perms, target)
    if found is not None:
        x = np.arange(math.prod(source)).reshape(source)
        shape, turned = found
        np.testing.assert_array_equal(x.transpose(perms).reshape(target), x.reshape(shape).transpose(turned))


def test_what_is_moved_and_what_is_not():
    # NHWC as NCHW: pixels are neighbours in both, channels and rows only in one.
    assert regroup((2, 4, 5, 3), (0, 3, 1, 2), (2, 3, 20)) == ((2, 20, 3), (0, 2, 1))
    assert regroup((2, 4, 5, 3), (0, 3, 1, 2), (2, 12, 5)) is None
    assert regroup((2, 4, 5, 3), (0, 3, 1, 2), (2, 1, 3, 4, 5)) == ((2, 1, 4, 5, 3), (0, 1, 4, 2, 3))
    # Rows that a TILE repeats one by one: (2, 3, 4, 1, 5) becomes (2, 3, 4, 2, 5) and then (2, 3, 8, 5).
    assert regroup((2, 4, 5, 3), (0, 3, 1, 2), (2, 3, 4, 1, 5)) == ((2, 4, 1, 5, 3), (0, 4, 1, 2, 3))
    assert regroup((2, 4, 2, 5, 3), (0, 4, 1, 2, 3), (2, 3, 8, 5)) == ((2, 8, 5, 3), (0, 3, 1, 2))
    assert regroup((2, 1, 1, 3), (0, 3, 1, 2), (2, 3)) == ((2, 3), (0, 1))
