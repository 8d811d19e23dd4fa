"""Every elementwise operator of the table, compiled, on the emulator: random operands and borders equal golden."""

import numpy as np
import pytest
from operator_cases import CASES, graph_of
from test_compiled_modes import CONFIGS, assert_equal_to_golden

from tosaic.compiler.ir import DType, Trait, operators_with

SEEDS = range(4)


@pytest.mark.parametrize("op", sorted(operators_with(Trait.ELEMENTWISE) & CASES.keys()))
@pytest.mark.parametrize("config", CONFIGS)
def test_an_elementwise_operator(config, op):
    cases = [CASES[op](np.random.default_rng(seed)) for seed in SEEDS]
    if config == "nano":
        # An int48 has 8 bytes, and nano reads 4 at once.
        cases = [case for case in cases if all(each.dtype is not DType.INT48 for each in case.operands)]
    graph, values = graph_of(cases)
    assert_equal_to_golden(graph, config, values)
