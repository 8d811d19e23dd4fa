"""The accelerator's two ports, tested in cocotb: each test runs the cocotb tests of one bench module here."""

import pytest
from copy_program import CONFIG

from tosaic.errors import DeviceError
from tosaic.sim.bench.simulation import simulate

pytestmark = pytest.mark.xdist_group("cocotb")


@pytest.mark.parametrize("bench", ["axi_lite_bench", "recovery_bench"])
def test_bench(bench, tmp_path):
    simulate(CONFIG, bench, tmp_path, seed=11)


def test_failure_of_a_bench_is_reported(tmp_path):
    with pytest.raises(
        DeviceError, match=r"^the cocotb test broken_bench\.broken failed: .*ID is 0x41534f54"
    ):
        simulate(CONFIG, "broken_bench", tmp_path)


def test_bench_that_cannot_be_imported(tmp_path):
    with pytest.raises(
        DeviceError, match="^the cocotb simulation of no_such_bench did not start: .*no_such_bench"
    ):
        simulate(CONFIG, "no_such_bench", tmp_path)
