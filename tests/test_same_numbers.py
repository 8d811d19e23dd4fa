"""Random numbers of a test do not depend on the tests before it (the plugin `same_numbers`)."""

import numpy as np
import pytest

RANDOM = np.random.default_rng(3)
FIRST = np.random.default_rng(3).integers(1 << 62)


@pytest.mark.parametrize("run", [1, 2])
def test_a_module_draws_the_same_in_each_test(run):
    assert RANDOM.integers(1 << 62) == FIRST
