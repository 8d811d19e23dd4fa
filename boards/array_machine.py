"""The machine of `hw.top` on a board: array and vector unit, memory on the chip or behind a controller."""

from amaranth.hdl import IOPort

from tosaic.hw.config_text import get_config

from .board import Board
from .dram import core as dram_core
from .ethernet import core as ethernet_core
from .machines import Machine
from .soc import MEMORY_BASE, BoardTop, OnChipMemory, SdramMemory


def _top(board: Board, data_pins: IOPort | None) -> BoardTop:
    config = get_config(board.config)
    memory: OnChipMemory | SdramMemory
    if board.sdram:
        data_pins = data_pins or IOPort(board.sdram.data_bits, name="sdram_dq")
        memory = SdramMemory(
            config, board.sdram, base=MEMORY_BASE, clock_hz=board.clock_hz, data_pins=data_pins
        )
    else:
        memory = OnChipMemory(config, memory_bytes=board.memory_bytes, base=MEMORY_BASE)
    return BoardTop(
        config,
        memory=memory,
        clock_hz=board.clock_hz,
        baud=board.baud,
        name=board.name,
        ethernet=board.used_ethernet,
        flash=board.used_flash,
    )


def _sources(board: Board) -> dict[str, str]:
    sources = {}
    if board.sdram:
        word_bytes = get_config(board.config).word_bytes
        text = dram_core.core_verilog(board.sdram, board.part, board.clock_hz, word_bytes)
        sources[dram_core.MODULE] = text
    if ethernet := board.used_ethernet:
        text = ethernet_core.core_verilog(ethernet.phy, board.part, board.clock_hz, ethernet.mac)
        sources[ethernet_core.MODULE] = text
    return sources


def _versions(board: Board) -> tuple[str, ...]:
    versions = dram_core.core_versions() if board.sdram else ()
    return versions + (ethernet_core.core_versions() if board.used_ethernet else ())


MACHINE = Machine(_top, _sources, _versions)
