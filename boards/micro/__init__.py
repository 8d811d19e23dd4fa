"""The micro-coded machine on a board, for parts that are too small for the array: a core with firmware (`hw.micro`).

A plug-in: the entry point `micro-coded` of the group `tosaic.machines`. Of the rest of the package, only this folder
imports `hw.micro`.
"""

from amaranth.hdl import IOPort

from tosaic.boards.board import Board
from tosaic.boards.dram import core as dram_core
from tosaic.boards.machines import Machine
from tosaic.hw.bridge.protocol import NAME_BYTES
from tosaic.hw.config_text import get_config
from tosaic.hw.micro.core import MODULE, core_verilog
from tosaic.hw.micro.firmware.build import build_firmware
from tosaic.hw.micro.packages import package_versions

from .sdram_words import SdramWords
from .top import MicroBoardTop

__all__ = ["MACHINE", "MicroBoardTop", "SdramWords"]


def _top(board: Board, data_pins: IOPort | None) -> MicroBoardTop:
    config, chip, memory = get_config(board.config), board.sdram, None
    if chip:
        data_pins = data_pins or IOPort(chip.data_bits, name="sdram_dq")
        memory = SdramWords(chip, clock_hz=board.clock_hz, data_pins=data_pins)
    top = MicroBoardTop(
        config,
        build_firmware(config, chip.memory_bytes if chip else 0),
        clock_hz=board.clock_hz,
        baud=board.baud,
        name=board.name[:NAME_BYTES],
        memory=memory,
    )
    if top.identity.memory_bytes != board.memory_bytes:
        raise ValueError(
            f"memory_bytes of {board.name} must be what {config.name} leaves, {top.identity.memory_bytes}, "
            f"not {board.memory_bytes}"
        )
    return top


def _sources(board: Board) -> dict[str, str]:
    sources = {MODULE: core_verilog()}
    if board.sdram:
        text = dram_core.core_verilog(board.sdram, board.part, board.clock_hz, 0)
        sources[dram_core.MODULE] = text
    return sources


def _versions(board: Board) -> tuple[str, ...]:
    return package_versions() + (dram_core.core_versions() if board.sdram else ())


MACHINE = Machine(_top, _sources, _versions)
