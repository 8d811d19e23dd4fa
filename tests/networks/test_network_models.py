"""Whole networks through compiler, emulator and RTL, against the integers of TOSA's reference model.

Tests that need the RTL of one configuration are in one group, so that one worker waits for its build.
"""

import numpy as np
import pytest
from networks import DIGITS, MODELS, SHARED, assert_layers_equal, present, reference_layers, run, session
from rest_nightly import first_of
from rtl_configs import on_rtl
from shared_files import found

from tosaic.driver.session import Session
from tosaic.hw.config import CONFIGS

FAST_ON_RTL = [name for name in MODELS if name != "mbv2_100_224"]
LIMITS_CYCLES = {
    "ic_resnet8": 75_000,
    "kws_dscnn": 45_000,
    "vww_mobilenet": 120_000,
    "ad_autoencoder": 40_000,
}
"""Largest number of cycles at 8 bytes per cycle on base."""


@pytest.mark.parametrize("index", first_of(range(4), 1))
@pytest.mark.parametrize("model", found(MODELS))
def test_emulator(model, index):
    """Output and every layer that is not fused away, for each of the four inputs."""
    emulator = session(model, "emulator", "base")
    run(emulator, model, index)
    assert_layers_equal(emulator.kept, reference_layers(model, index))


@pytest.mark.parametrize("model", found(present("kws_dscnn", "ic_resnet8")))
def test_emulator_without_fusion(model):
    """-O0: every tensor, but for those that only rename or view another one."""
    emulator = session(model, "emulator", "base", optimize=False)
    run(emulator, model, 0)
    layers = reference_layers(model, 0)
    assert_layers_equal(emulator.kept, layers)
    left = {layer["op"] for name, layer in layers.items() if name not in emulator.kept}
    assert left <= {"RESHAPE", "SLICE"}


@pytest.mark.xdist_group("base")
@pytest.mark.parametrize("model", found(FAST_ON_RTL))
def test_rtl_on_base(model):
    run(session(model, "sim", "base"), model, 1)


@pytest.mark.xdist_group("base")
@pytest.mark.filterwarnings("ignore:a constant of shape:tosaic.ModelWarning")
@pytest.mark.parametrize("target", ["emulator", "sim"])
@pytest.mark.parametrize(
    "path", found(sorted(SHARED.glob("models/*/io.npz"))), ids=lambda path: path.parent.name
)
def test_models_with_several_inputs(path, target):
    """`io.npz` holds `in:NAME` and `out:NAME`, the reference model's outputs."""
    with np.load(path) as archive:
        arrays = dict(archive)
    given = {name.removeprefix("in:"): value for name, value in arrays.items() if name.startswith("in:")}
    for name, value in Session(path.parent / "model.tosa", target, "base").run(given).items():
        np.testing.assert_array_equal(value, arrays[f"out:{name}"])


@pytest.mark.parametrize("config", [on_rtl(config) for config in CONFIGS if config != "base"])
@pytest.mark.parametrize("model", found(first_of(present("kws_dscnn", "ic_resnet8"), 1)))
def test_rtl_on_other_configurations(model, config):
    run(session(model, "sim", config), model, 2)


@pytest.mark.xdist_group("base")
@pytest.mark.parametrize("model", found(present(*LIMITS_CYCLES)))
def test_cycles_at_half_the_bandwidth(model):
    """Cycles are those of the RTL, the same in every run and for every input."""
    rtl = session(model, "sim", "base", bandwidth=8)
    cycles = []
    for index in (0, 3):
        run(rtl, model, index)
        cycles.append(rtl.stats["cycles"])
    assert cycles[0] == cycles[1] <= LIMITS_CYCLES[model]


@pytest.mark.parametrize(
    "config",
    [on_rtl(config) for config in CONFIGS],
)
@pytest.mark.parametrize("name", ["digits", "digits_tiny"])
def test_digits_on_the_rtl(name, config):
    rtl = Session(DIGITS / f"{name}.tosa", "sim", config)
    with np.load(DIGITS / "images.npz") as archive:
        images, labels = archive["inputs"][:3], archive["labels"][:3]
    for image, label in zip(images, labels, strict=True):
        outputs = rtl.run({"image": image.reshape(1, 8, 8, 1)}, check=True)
        assert outputs["scores"].argmax() == label
    assert rtl.stats["bit_exact"] is True
