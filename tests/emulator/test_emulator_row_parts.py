"""The cycle model of divided rows."""

from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.stimulus import random_program


def test_rows_are_divided_by_the_setup_of_their_own_go():
    """Tiles of 16, 16 and 4 pixels with 18 steps; the next GO, set up meanwhile, has a zero point of weights.

    288 slots for each whole tile, 80 for the last one on four parts, and 64 for each of the two GOs behind. The RTL
    counts the same."""
    config = get_config("base,weight_banks=4")
    stimulus = random_program(config, "convolution", 518)
    result = Emulator(config).run(stimulus.memory, stimulus.program_address, stimulus.program_bytes)
    assert result.counters["array_active"] == 2 * 288 + 80 + 2 * 64
