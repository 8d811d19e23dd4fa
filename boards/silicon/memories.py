"""What is said of memories, of which a library of standard cells has nothing."""

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tosaic.hw.memory.macros import MemoryShape


@dataclasses.dataclass(frozen=True)
class MemoryFigures:
    """Figures of two-port memories, the same for all shapes. Those given are of a 2 KiB memory of 32 bits for sky130
    that OpenRAM made (sky130_sram_2kbyte_1rw1r_32x512_8, typical corner, 1.8 V, 25 degrees; area by its LEF)."""

    um2_per_bit: float = 17.4
    """Area of a bit, periphery included."""
    read_pj_per_bit: float = 0.168
    """Energy of each bit of a word that is read."""
    write_pj_per_bit: float = 0.167
    """Energy of each bit that is written."""
    idle_pj_per_bit: float = 0.073
    """Energy of each bit of a word, and of each port, in a cycle without access."""
    clock_to_output_ns: float = 2.5
    setup_ns: float = 0.1
    pin_pf: float = 0.0069
    """Capacitance of an input."""

    def area_um2(self, shape: "MemoryShape") -> float:
        """Area of a memory."""
        return self.um2_per_bit * shape.total_bits


OUTPUT_SLEW_NS = 0.1
"""Slew of a memory's outputs."""
