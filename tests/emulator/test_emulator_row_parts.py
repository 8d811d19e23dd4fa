"""The cycle model of divided rows."""

from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.stimulus import random_program


def test_rows_are_divided_by_the_setup_of_their_own_go():
    """Tiles of 16 and 4 pixels with 12 steps; the next GOs, set up meanwhile, have a zero point of weights.

    192 slots for the whole tile, 48 for the last one on four parts, and 112 for each of the three GOs behind. The RTL
    counts the same."""
    config = get_config("base,weight_banks=4")
    stimulus = random_program(config, "convolution", 42)
    result = Emulator(config).run(stimulus.memory, stimulus.program_address, stimulus.program_bytes)
    assert result.counters["array_active"] == 192 + 48 + 3 * 112
