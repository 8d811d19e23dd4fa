"""External memory of a micro-coded machine in SDRAM; the controller in its place is in the nightly's virtual board."""

import pytest
from amaranth.hdl import IOPort

from tosaic.boards.dram import M12L64322A, MT48LC16M16
from tosaic.boards.micro import MicroBoardTop, SdramWords
from tosaic.hw.config import CONFIGS
from tosaic.hw.micro.memory_map import EXTERNAL_BASE


def test_the_chip_has_words_of_the_machine():
    with pytest.raises(ValueError, match="^the chip must have words of 32 bits, not 16$"):
        SdramWords(MT48LC16M16, clock_hz=27e6, data_pins=IOPort(16, name="dq"))


def test_the_board_says_where_its_memory_is():
    words = SdramWords(M12L64322A, clock_hz=27e6, data_pins=IOPort(32, name="dq"))
    top = MicroBoardTop(CONFIGS["nano"], b"", clock_hz=27e6, baud=1_000_000, memory=words)
    assert (top.identity.memory_base, top.identity.memory_bytes) == (EXTERNAL_BASE, 8 << 20)
    assert {name: len(getattr(top.sdram, name)) for name in ("a", "ba", "dm")} == {"a": 11, "ba": 2, "dm": 4}
