"""The cycle model's prediction of every layer is within 3 % of what the RTL counts."""

import pathlib

import pytest
from layer_cycles import FEW_CYCLES, LARGEST_ERROR, many_layers, values_of

import tosaic.examples
from tosaic.driver.session import Session

DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits"
MODELS = {path.stem: path for path in sorted(DIGITS.glob("*.tosa"))} | {"many layers": many_layers()}


@pytest.mark.parametrize("bandwidth", [None, 8])
@pytest.mark.parametrize("config", ["small", "base"])
@pytest.mark.parametrize("model", MODELS)
def test_every_layer_takes_the_predicted_cycles(model, config, bandwidth):
    counted = Session(MODELS[model], "sim", config, memory_bandwidth=bandwidth)
    predicted = Session(MODELS[model], "emulator", config, memory_bandwidth=bandwidth)
    values = values_of(counted)
    results = [session.run(values) for session in (counted, predicted)]
    for name, value in results[0].items():
        assert (value == results[1][name]).all()
    pairs = list(zip(counted.stats["layers"], predicted.stats["layers"], strict=True))
    assert pairs
    off = [
        f"{here['name']}: {here['cycles']} counted, {there['cycles']} predicted"
        for here, there in pairs
        if abs(here["cycles"] - there["cycles"]) > max(LARGEST_ERROR * here["cycles"], FEW_CYCLES)
    ]
    assert not off
    assert abs(counted.stats["cycles"] / predicted.stats["cycles"] - 1) <= LARGEST_ERROR
