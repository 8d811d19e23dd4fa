"""The cycle model's prediction of every layer is within 3 % of what the RTL counts."""

import pathlib

import pytest
from layer_cycles import FEW_COUNTS, FEW_CYCLES, LARGEST_COUNTER_ERROR, LARGEST_ERROR, many_layers, values_of
from rtl_configs import on_rtl

import tosaic.examples
from tosaic.driver.session import Session

DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits"
MODELS = {path.stem: path for path in sorted(DIGITS.glob("*.tosa"))} | {"many layers": many_layers()}


BANDWIDTHS = [("small", 8), ("small", 4), ("base", 16), ("base", 8), ("base", 4)]
"""Configurations and bytes per cycle of the memory."""


def both(model, config, bandwidth):
    """Statistics of the RTL and of the emulator, whose results are equal."""
    counted = Session(MODELS[model], "sim", config, memory_bandwidth=bandwidth)
    predicted = Session(MODELS[model], "emulator", config, memory_bandwidth=bandwidth)
    values = values_of(counted)
    results = [session.run(values) for session in (counted, predicted)]
    for name, value in results[0].items():
        assert (value == results[1][name]).all()
    return counted.stats, predicted.stats


@pytest.mark.parametrize(("config", "bandwidth"), [on_rtl(*each) for each in BANDWIDTHS])
@pytest.mark.parametrize("model", MODELS)
def test_every_layer_takes_the_predicted_cycles(model, config, bandwidth):
    counted, predicted = both(model, config, bandwidth)
    pairs = list(zip(counted["layers"], predicted["layers"], strict=True))
    assert pairs
    off = {
        here["name"]: (here["cycles"], there["cycles"])
        for here, there in pairs
        if abs(here["cycles"] - there["cycles"]) > max(LARGEST_ERROR * here["cycles"], FEW_CYCLES)
    }
    assert not off
    assert abs(counted["cycles"] / predicted["cycles"] - 1) <= LARGEST_ERROR


NOT_MODELLED = ("store_wait", "fetch_wait")
"""STORE takes its next WAIT while data are still on the way. On a slow bus the wait for the program depends on single
bursts' order."""


@pytest.mark.parametrize("bandwidth", [16, 4])
def test_counters_of_all_units_are_predicted(bandwidth):
    counted, predicted = both("many layers", "base", bandwidth)
    assert counted["counters"].keys() == predicted["counters"].keys()
    off = {
        name: (count, predicted["counters"][name])
        for name, count in counted["counters"].items()
        if name not in NOT_MODELLED
        and abs(count - predicted["counters"][name]) > max(LARGEST_COUNTER_ERROR * count, FEW_COUNTS)
    }
    assert not off
