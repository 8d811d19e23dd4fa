"""What there is to know of a board."""

import dataclasses
import enum
import importlib
from typing import Any

from .dram.chips import SdrChip
from .ecp5 import Floorplan
from .ethernet.phy import Ethernet
from .spi_flash import SpiFlash


class Family(enum.Enum):
    """Who makes the bitstream, and how far the open tools reach."""

    ECP5 = "ecp5"  # open tools up to the bitstream
    ICE40 = "ice40"  # open tools up to the bitstream
    GOWIN = "gw2a"  # open tools up to the bitstream
    XILINX7 = "xc7"  # open tools synthesise (an estimate); Vivado makes the bitstream
    ZYNQ7 = "zynq7"  # the same; the accelerator is a peripheral of the ARM cores
    ULTRASCALE = "xcu"  # the same
    CYCLONE5 = "cyclonev"  # open tools synthesise (an estimate); Quartus makes the bitstream

    @property
    def is_open(self) -> bool:
        return self in (Family.ECP5, Family.ICE40, Family.GOWIN)

    @property
    def tools(self) -> str:
        """A word for the tools that make the bitstream."""
        return "Intel" if self is Family.CYCLONE5 else "open" if self.is_open else "Vivado"

    @property
    def bitstream_by(self) -> str:
        """What makes the bitstream, for people."""
        if self is Family.CYCLONE5:
            return "Quartus project"
        return "open tools" if self.is_open else "Vivado script"

    @property
    def has_processor(self) -> bool:
        return self in (Family.ZYNQ7, Family.ULTRASCALE)


@dataclasses.dataclass(frozen=True)
class Capacity:
    """What the part has."""

    lut: int
    ff: int
    dsp: int
    ram_kbit: int


PARTS = ("block_ram", "ethernet", "flash")
"""Fields of a board for what is used on request: block RAM in place of its SDRAM, or what is beside the FPGA and costs
logic."""


LOGIC_SHARE = 0.25
"""Share of a cycle in which logic may be slower to be smaller; by the synthesis' delays, without wires
(decision 0039).
"""


def small_logic_ps(clock_hz: float) -> int:
    """What that is, for `Board.logic_ps`."""
    return round(1e12 / clock_hz * LOGIC_SHARE)


@dataclasses.dataclass(frozen=True)
class Routed:
    """What nextpnr said of the board's own configuration."""

    mhz: float
    day: str
    """ISO date of the commit that was built."""


@dataclasses.dataclass(frozen=True)
class Board:
    name: str
    title: str
    part: str
    family: Family
    capacity: Capacity
    config: str
    """Name of the accelerator's configuration."""
    clock_hz: float
    """Hertz of the accelerator's clock. A crystal of another frequency goes through a PLL."""
    memory: str
    """What external memory is made of."""
    transport: str
    """Device URI a driver opens, with what a user fills in in capitals."""
    platform: str = ""
    """module:class in amaranth_boards, or package.module:class of another package. Empty where the vendor's
    processor system takes the pins."""
    memory_bytes: int = 0
    """Bytes of external memory; 0 where the processor's memory is used. For a micro-coded machine: what its
    memory map leaves.
    """
    sdram: SdrChip | None = None
    """What external memory is where it is a chip beside the FPGA; None: block RAM."""
    memory_bandwidth: float | None = None
    """Measured bytes of external memory per cycle of the accelerator; None: the bus width."""
    memory_latency: int | None = None
    """Cycles from a read's address to its first data; None: nobody has measured it."""
    block_ram: int | None = None
    """Bytes of block RAM beside the accelerator that can be external memory in place of the SDRAM: a smaller and faster
    design, for small networks. The design uses them where `parts` names them."""
    logic_ps: int | None = None
    """What the logic between two registers may take, without its wires: what is faster is made smaller. None: it is as
    fast as it can be."""
    baud: int = 0
    machine: str = "array"
    """What executes the instruction set, by its name in `boards.machines`: "array", or "micro-coded", a small core with
    firmware, which is exact, slow and small."""
    leds: tuple[str, ...] = ()
    """Resources that show busy, link and interrupt."""
    floorplan: Floorplan | None = None
    """Places of block RAMs and multipliers, where the placer needs help."""
    other_floorplans: tuple[tuple[str, Floorplan], ...] = ()
    """Floorplans of other configurations, by their names."""
    spare_block_ram: bool = False
    """There are blocks for small memories (hw/memory/blocks.py), which are in LUTs otherwise."""
    ethernet: Ethernet | None = None
    """The PHY beside the FPGA. The design uses it where `parts` names it."""
    flash: SpiFlash | None = None
    """The flash from which the design boots where `parts` names it."""
    parts: tuple[str, ...] = ()
    """What of the board is used on request only (PARTS)."""
    vivado_board: str = ""
    """What Vivado calls it, if it has a preset for its processor."""
    routed: Routed | None = None
    """The row of bench/boards.csv, which `make boards` writes; None: nobody has placed this design."""
    notes: str = ""

    @property
    def used_ethernet(self) -> Ethernet | None:
        return self.ethernet if "ethernet" in self.parts else None

    @property
    def used_flash(self) -> SpiFlash | None:
        return self.flash if "flash" in self.parts else None

    def with_parts(self, *names: str) -> "Board":
        """The same board with more of PARTS in use; ValueError for one that it does not have."""
        for name in names:
            if name not in PARTS or getattr(self, name) is None:
                there = ", ".join(part for part in PARTS if getattr(self, part) is not None)
                raise ValueError(
                    f"{self.name} has no {name!r} that could be used; it has {there or 'nothing'}"
                )
        chosen = dataclasses.replace(self, parts=tuple(sorted({*self.parts, *names})))
        return chosen._in_block_ram(self.block_ram) if self.block_ram and "block_ram" in names else chosen

    def _in_block_ram(self, memory_bytes: int) -> "Board":
        return dataclasses.replace(
            self,
            sdram=None,
            memory=f"{memory_bytes >> 10} KiB on chip",
            memory_bytes=memory_bytes,
            memory_bandwidth=None,
            memory_latency=None,
            logic_ps=small_logic_ps(self.clock_hz),
        )

    def with_config(self, config: str) -> "Board":
        """The same board with another configuration, and with its floorplan if there is one."""
        if config == self.config:
            return self
        return dataclasses.replace(self, config=config, floorplan=dict(self.other_floorplans).get(config))

    def make_platform(self) -> Any:
        """The Amaranth platform; ImportError where the package that has it is missing."""
        module, name = self.platform.split(":")
        path = module if "." in module else f"amaranth_boards.{module}"
        platform = getattr(importlib.import_module(path), name)()
        platform.spare_block_ram = self.spare_block_ram
        return platform
