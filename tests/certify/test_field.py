"""The field of terms, and its random functions, against Python's integers."""

import itertools

import numpy as np
import pytest

from tosaic.sim.terms import field
from tosaic.sim.terms.hashing import RandomFunctions
from tosaic.sim.terms.values import spread, thin

PRIME = (1 << 61) - 1


def test_joined_halves_at_their_limits() -> None:
    """Sums of low and high halves, of any sign, up to the 53 bits that float64 holds exactly."""
    ends = [0, 1, (1 << 30) - 1, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 53) - 1, 1 << 53]
    pairs = list(itertools.product([*ends, *(-end for end in ends)], repeat=2))
    low, high = np.array(pairs, np.float64).T
    wanted = [(one + (other << 31)) % PRIME for one, other in pairs]
    assert field.joined(low, high).tolist() == wanted


@pytest.mark.parametrize("keyed", [False, True])
def test_functions_of_other_arguments_differ(keyed: bool) -> None:
    """Equal arguments give equal values, however they are broadcast; another integer, another value at one point
    alone, another order or another name gives other values, at both points."""
    functions = RandomFunctions(np.random.default_rng(1), 2, keyed=keyed)
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, PRIME, (2, 2, 3, 4), dtype=np.uint64)
    numbers = np.arange(4)
    value = functions.value("F", (numbers,), (a, b))
    assert (functions.value("F", (np.broadcast_to(numbers, (3, 4)),), (a, b)) == value).all()
    assert (value < PRIME).all() and len(np.unique(value)) == value.size
    changed = a.copy()
    changed[1] += np.uint64(1)
    others = [
        functions.value("G", (numbers,), (a, b)),
        functions.value("F", (numbers + 1,), (a, b)),
        functions.value("F", (numbers,), (b, a)),
        functions.value("F", (numbers,), (changed, b)),
        functions.value("F", (numbers + (1 << 40),), (a, b)),
    ]
    every = np.concatenate([own.reshape(2, -1) for own in (value, *others)], axis=1)
    assert all(len(np.unique(own)) == own.size for own in every)


ROW = np.arange(24)
TABLE = ROW.reshape(4, 6)


@pytest.mark.parametrize(
    ("part", "shape"),
    [
        (ROW[:, None], (24, 3)),
        (ROW[::2][:, None], (12, 3)),
        (ROW[::-1][:, None], (24, 3)),
        (TABLE.T[:, :, None], (6, 4, 3)),
        (TABLE[:, 1:3][None], (5, 4, 2)),
        (np.asarray(7), (2, 2)),
        (np.zeros((0, 1)), (0, 4)),
    ],
)
def test_views_repeat_what_broadcasting_repeats(part: np.ndarray, shape: tuple[int, ...]) -> None:
    """Of any strides; nobody writes them, and without the repeats they are as before."""
    view = spread(part, shape)
    assert np.array_equal(view, np.broadcast_to(part, shape)) and not view.flags.writeable
    assert np.array_equal(np.broadcast_to(thin(view), shape), view)
