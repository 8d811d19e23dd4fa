"""Virtual boards: the boards of the catalogue that have a UART, in the simulator of `sim`."""

import dataclasses
import pathlib
import urllib.parse
from collections.abc import Mapping

from tosaic.boards.board import Board, Implementation
from tosaic.boards.catalogue import known_boards
from tosaic.boards.dram import SdrChip, core_versions
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.driver.transports import BridgeTransport, Transport
from tosaic.errors import InputError
from tosaic.hw.config_text import get_config
from tosaic.hw.micro.packages import PackageMissing, package_versions
from tosaic.sim.board import BoardRtl, BoardSimulator, ChipSetting, VirtualLine

BIT_CYCLES = 4
"""The simulated line is as fast as a UART can be, so that a simulation spends its time on the network."""


def virtual_boards() -> dict[str, Board]:
    """The boards that can be simulated whole: those with a UART and a memory of their own."""
    return {name: board for name, board in known_boards().items() if board.baud and board.memory_bytes}


def open_board(name: str) -> BoardSimulator:
    """A board, just switched on; InputError lists those there are. The first of its kind takes minutes to build."""
    known = virtual_boards()
    if name not in known:
        raise InputError(f"there is no virtual board {name!r}; there are {', '.join(known)}")
    board = dataclasses.replace(known[name], baud=round(known[name].clock_hz / BIT_CYCLES))

    def verilog() -> str:
        from amaranth.back import verilog as back

        from tosaic.boards.serial_board import board_sources, board_top
        from tosaic.hw.memory.simulation import VERILOG, SimulationPlatform

        text = back.convert(board_top(board), name="board", emit_src=False, platform=SimulationPlatform())
        return "".join((text, VERILOG, *board_sources(board).values()))

    import tosaic.boards
    import tosaic.hw

    folders = tuple(pathlib.Path(package.__path__[0]) for package in (tosaic.hw, tosaic.boards))
    try:
        versions = _versions(board)
    except PackageMissing as error:
        raise InputError(str(error)) from error
    key = repr((board, get_config(board.config), BIT_CYCLES, versions))
    chip = chip_setting(board.sdram, board.clock_hz) if board.sdram else None
    return BoardSimulator(BoardRtl(name, key, BIT_CYCLES, folders, verilog, chip))


def _versions(board: Board) -> tuple[str, ...]:
    """Of the packages that bring parts of the board; PackageMissing where one is not installed."""
    if board.implementation is Implementation.MICRO:
        return package_versions()
    return core_versions() if board.sdram else ()


def chip_setting(chip: SdrChip, clock_hz: float) -> ChipSetting:
    """A chip of the catalogue for the simulator."""
    return ChipSetting(
        row_bits=chip.row_bits,
        bank_bits=chip.bank_bits,
        column_bits=chip.column_bits,
        cas_latency=chip.cas_latency,
        **chip.gaps(clock_hz),
        mode=chip.mode_cycles,
        power_up=round(chip.power_up_ns * 1e-9 * clock_hz),
        refreshes=chip.refreshes,
        refresh=round(chip.refresh_ns * 1e-9 * clock_hz),
    )


def board_speed(name: str) -> MemorySpeed | None:
    """Of the memory of the board called `name`, where it was measured."""
    board = known_boards().get(name)
    if board is None or board.memory_bandwidth is None or board.memory_latency is None:
        return None
    return MemorySpeed(board.memory_bandwidth, board.memory_latency)


def open_virtual(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    """`virtual://NAME`: a board of its own for this session, on a line inside this process."""
    return BridgeTransport(VirtualLine(open_board(uri.netloc)), f"virtual://{uri.netloc}")
