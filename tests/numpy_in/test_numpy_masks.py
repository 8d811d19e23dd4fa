"""x[mask] with a mask that depends on inputs: computed with, written, counted and summed up."""

import numpy as np
import pytest
from numpy_cases import Case, judge

import tosaic

GRID = np.random.default_rng(1).integers(-9, 9, (4, 6)).astype(np.int16)
IMAGE = np.random.default_rng(2).integers(0, 256, (4, 5, 3), np.uint8)


def in_place(y):
    y[y > 2] += 3
    y[y < -5] *= -1
    y[y == 4] <<= 1
    half = y > 0
    y[half] //= 2
    y[~half] = abs(y[~half]) + 1


def from_elsewhere(y):
    late = y * 2
    y[y < 0] = late[y < 0]
    mask = y > 3
    y[mask] = np.minimum(y[mask] + late[mask], 7)
    chosen = y[mask].astype(np.int32)
    alias, before = chosen, chosen.copy()
    chosen += 70000
    y[mask] = alias - before // 2


def rows_and_columns(y):
    y[y[:, 0] > 0] = np.arange(6)
    y[y[:, 0] > 0, 2] = 5
    y[y[:, 1] > 0, 1:3] = [4, 5]
    y[1, y[0] > 0] = 9
    y[..., y[2] > 3] -= 1
    y[:, y[3] > 0] = y[0, 0]
    row = y[1]
    row[row > 0] = 1


def counted(y):
    return y[y > 0].sum(), np.sum(y[y < 0]), np.count_nonzero(y[y > 1]), y[y > 3].any(), (y[y > 3] > 4).all()


def coloured(y):
    y[y[..., 0] > 100] = (255, 0, 0)
    y[y[..., 1] > 100] //= 2
    y[y.sum(2) > 300] = y[0, 0]
    y[y > 90] = 255 - y[y > 90]
    y[y > 100] += np.uint8(200)
    y[y[..., 0] > 20, 1] = 9
    y[y[..., 0] > 50, 0] += 5
    y[:, y[0, :, 0] > 60] += 1


def too_large(y):
    y[y > 1] += 400000


def floats(y):
    y[y > 1] += 1.5


def wrong_shape(y):
    y[y.T > 0] = 1


@pytest.mark.parametrize(
    "function, kind",
    [
        *((each, "exact") for each in (in_place, from_elsewhere, rows_and_columns, counted)),
        *((each, "error") for each in (too_large, floats, wrong_shape)),
    ],
)
def test_what_a_mask_chooses_is_numpys(function, kind):
    def run(x):
        y = x.copy()
        result = function(y)
        return y if result is None else result

    verdict = judge(Case("masked", run, [GRID]))
    assert verdict.kind == kind, verdict.text


def test_pixels_that_a_mask_chooses():
    def run(x):
        y = x.copy()
        coloured(y)
        return y

    assert judge(Case("coloured", run, [IMAGE])).kind == "exact"


SHAPE = "a traced mask as an index: the result's shape would depend on values; use np.where(mask, x, other)"


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x[x > 2],
        lambda x: x[x > 2].mean(),
        lambda x: np.sort(x[x > 2]),
        lambda x: x[x > 2].max(),
        lambda x: len(x[x > 2]),
        lambda x: x[x > 2][0],
        lambda x: [each + 1 for each in x[x > 2]],
        lambda x: np.stack([x[x > 2], x[x > 2]]),
        lambda x: x[x > 2] + x[0],
        lambda x: np.arange(99)[x[x > 2]],
    ],
)
def test_what_needs_the_number_of_chosen_elements_is_refused_with_its_line(use):
    with pytest.raises(tosaic.TraceError) as caught:
        tosaic.trace(use, x="int16[4,6]")
    assert str(caught.value) == f"test_numpy_masks.py:{use.__code__.co_firstlineno}: {SHAPE}"


def test_known_arrays_have_numpys_errors_in_place():
    def filled(x):
        y = np.zeros(6, bool)
        y |= 1
        return x & y

    verdict = judge(Case("filled", filled, [GRID]), config="nano")
    assert verdict.kind == "error" and verdict.text.startswith(
        "UFuncTypeError: Cannot cast ufunc 'bitwise_or'"
    )


def test_no_chosen_element_at_all():
    def chosen(x):
        return x[x > 40000].sum(dtype=np.int16) + x[:, np.zeros(6, bool)].sum(dtype=np.int16)

    assert judge(Case("chosen", chosen, [GRID]), config="nano").kind == "exact"


def test_another_mask_is_refused():
    def mixed(x):
        y = x.copy()
        y[x > 2] = x[x < 2]
        return y

    with pytest.raises(
        tosaic.TraceError, match="what one mask chose is written where another one holds; use"
    ):
        tosaic.trace(mixed, x="int16[4,6]")
