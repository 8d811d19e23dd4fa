"""More than fifty functions that people would write, on golden and emulator here, and on the RTL in the nightly."""

import numpy as np
import pytest
from numpy_cases import listed
from numpy_zoo import ZOO

from tosaic.driver.arguments import made_up


def compare(name, target, seeds):
    function = ZOO[name]
    session = function.session(target, "nano")
    for seed in seeds:
        rng = np.random.default_rng(seed)
        arrays = {each.name: made_up(rng, each).view(each.own) for each in session.inputs}
        arrays = {name: a.reshape(session.graph.declared[name].shape) for name, a in arrays.items()}
        with np.errstate(all="ignore"):
            wanted = listed(function(**{name: array.copy() for name, array in arrays.items()}))
        got = session.call(arrays, check=True)
        for a, b in zip(listed(got), wanted, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ZOO)
def test_golden_and_the_emulator_give_what_numpy_gives(name):
    compare(name, "emulator", (0,))


@pytest.mark.nightly
@pytest.mark.parametrize("name", ZOO)
def test_the_rtl_gives_what_numpy_gives(name):
    compare(name, "sim", (2,))


def test_there_are_more_than_fifty():
    assert len(ZOO) == 58
