"""Virtual boards: the boards of the catalogue that have a UART, in the simulator of `sim`."""

import dataclasses
import pathlib
import urllib.parse
from collections.abc import Callable, Mapping, Sequence

from tosaic.boards.board import Board, Family
from tosaic.boards.catalogue import known_boards
from tosaic.boards.dram import SdrChip
from tosaic.boards.machines import machine_of
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.driver.transports import BridgeTransport, Transport, UdpTransport
from tosaic.errors import InputError
from tosaic.hw.bridge.datagrams import UDP_PORT
from tosaic.hw.config_text import get_config
from tosaic.hw.package_missing import PackageMissing
from tosaic.hw.spelling import meant
from tosaic.install import install_command
from tosaic.sim.board import BoardRtl, BoardSimulator, ChipSetting, VirtualLine, VirtualPort

BIT_CYCLES = 4
"""The simulated line is as fast as a UART can be, so that a simulation spends its time on the network."""


def virtual_boards() -> dict[str, Board]:
    """The boards that can be simulated whole: those with a UART and a memory of their own."""
    return {name: board for name, board in known_boards().items() if board.baud and board.memory_bytes}


def open_board(name: str, parts: Sequence[str] = ()) -> BoardSimulator:
    """A board, just switched on, that uses these parts (boards.board.PARTS); InputError lists what there is. The first
    of its kind takes minutes to build."""
    known = virtual_boards()
    if name not in known:
        raise InputError(
            f"there is no virtual board {name!r}; {meant(name, known)}there are {', '.join(known)}"
        )
    try:
        board = known[name].with_parts(*parts)
    except ValueError as error:
        raise InputError(f"virtual://{name}: {error}") from None
    board = dataclasses.replace(board, baud=round(known[name].clock_hz / BIT_CYCLES))

    def verilog() -> str:
        from amaranth.back import verilog as back

        from tosaic.hw.memory.simulation import VERILOG, SimulationPlatform

        text = back.convert(
            machine.top(board, None), name="board", emit_src=False, platform=SimulationPlatform()
        )
        return "".join((text, VERILOG, *machine.sources(board).values()))

    import tosaic.boards
    import tosaic.hw

    folders = tuple(pathlib.Path(package.__path__[0]) for package in (tosaic.hw, tosaic.boards))
    try:
        machine = machine_of(board)
        versions = machine.versions(board)
    except PackageMissing as error:
        raise InputError(f"{error}; {install_command(error.extra)}") from error
    key = repr((board, get_config(board.config), BIT_CYCLES, versions))
    chip = chip_setting(board.sdram, board.clock_hz) if board.sdram else None
    phy = board.used_ethernet.phy.value if board.used_ethernet else ""
    rtl = BoardRtl(
        name, key, BIT_CYCLES, folders, verilog, chip, phy=phy, has_flash=board.used_flash is not None
    )
    if board.family is Family.GOWIN:
        rtl = dataclasses.replace(rtl, chip_cells="gowin_cells.v")
    return BoardSimulator(rtl)


def chip_setting(chip: SdrChip, clock_hz: float) -> ChipSetting:
    """A chip of the catalogue for the simulator."""
    return ChipSetting(
        row_bits=chip.row_bits,
        bank_bits=chip.bank_bits,
        column_bits=chip.column_bits,
        data_bits=chip.data_bits,
        cas_latency=chip.cas_latency,
        **chip.gaps(clock_hz),
        mode=chip.mode_cycles,
        power_up=round(chip.power_up_ns * 1e-9 * clock_hz),
        refreshes=chip.refreshes,
        refresh=round(chip.refresh_ns * 1e-9 * clock_hz),
    )


def board_speed(name: str) -> MemorySpeed | None:
    """Returns the speed of the memory of the board called `name`, where it was measured."""
    board = known_boards().get(name)
    if board is None or board.memory_bandwidth is None or board.memory_latency is None:
        return None
    return MemorySpeed(board.memory_bandwidth, board.memory_latency)


LINKS = ("uart", "udp")
CYCLES_AT_ONCE = 200_000
"""Cycles at a time of a board that works while nobody asks it: Ctrl-C waits for their end."""


class _OnLine(BridgeTransport):
    """A virtual board on a line. Its clock is no clock of the host's, but is counted."""

    def __init__(self, board: BoardSimulator, name: str, boots: bool):
        self._board = board
        super().__init__(VirtualLine(board), name, boots)

    def wait_for(self, cycles: int, seconds: float) -> None:
        _work(self._board, cycles)


class _OnNetwork(UdpTransport):
    """A virtual board on a network."""

    def __init__(self, board: BoardSimulator, port: VirtualPort, name: str, boots: bool):
        self._board = board
        super().__init__(port, name, boots)

    def wait_for(self, cycles: int, seconds: float) -> None:
        _work(self._board, cycles)


def _work(board: BoardSimulator, cycles: int) -> None:
    for start in range(0, cycles, CYCLES_AT_ONCE):
        board.run(min(CYCLES_AT_ONCE, cycles - start))


def open_virtual(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    """`virtual://NAME`: a board of its own, on a line inside this process, or (`link=udp`) a network.
    With `flash=FILE` it boots from this image."""
    link, image = options.get("link", LINKS[0]), options.get("flash")
    if link not in LINKS:
        raise InputError(f"virtual://{uri.netloc}: link must be one of {', '.join(LINKS)}, not {link!r}")
    name = f"virtual://{uri.netloc}"
    parts = (*(("ethernet",) if link == "udp" else ()), *(("flash",) if image is not None else ()))
    board = open_board(uri.netloc, parts)
    if image is not None:
        try:
            write_boot_image(board, uri.netloc, pathlib.Path(image).read_bytes())
        except OSError as error:
            raise InputError(f"{image}: cannot be read: {error.strerror}") from None
    if link == "udp":
        return _OnNetwork(board, virtual_port(board, uri.netloc), f"{name}?link=udp", boots=image is not None)
    return _OnLine(board, name, boots=image is not None)


def write_boot_image(board: BoardSimulator, name: str, image: bytes) -> None:
    """Writes the image into the flash of a board that uses it, after the place of a bitstream; then presses its reset
    button."""
    flash = virtual_boards()[name].flash
    assert flash is not None
    board.write_flash(b"\xff" * flash.offset + image)
    board.reset()


def virtual_port(
    board: BoardSimulator, name: str, on_cable: Callable[[bytes], list[bytes]] | None = None
) -> VirtualPort:
    """A port of a host on the network of a board that uses Ethernet; `on_cable` as VirtualPort has it."""
    ethernet = virtual_boards()[name].ethernet
    assert ethernet is not None
    return VirtualPort(board, ethernet.ip, UDP_PORT, on_cable)
