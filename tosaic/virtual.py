"""Virtual boards by name: the top level of `boards` for the simulator of `sim`."""

import dataclasses
import pathlib
import urllib.parse
from collections.abc import Mapping

from tosaic.compiler.ir.errors import InputError
from tosaic.driver.transports import BridgeTransport, Transport
from tosaic.hw.config import get_config
from tosaic.sim.board import BoardRtl, BoardSimulator, VirtualLine

BIT_CYCLES = 4
"""The simulated line is as fast as a UART can be, so that a simulation spends its time on the network."""


@dataclasses.dataclass(frozen=True)
class VirtualBoard:
    """What a virtual board is made of."""

    config: str
    memory_bytes: int
    clock_hz: int
    single_port: bool = False


VIRTUAL_BOARDS = {
    "ulx3s": VirtualBoard("small", 128 << 10, 25_000_000),
    "icebreaker": VirtualBoard("nano", 128 << 10, 12_000_000, single_port=True),
}


def open_board(name: str) -> BoardSimulator:
    """A board, just switched on; InputError lists those there are. The first of its kind takes minutes to build."""
    if name not in VIRTUAL_BOARDS:
        raise InputError(f"there is no virtual board {name!r}; there are {', '.join(VIRTUAL_BOARDS)}")
    board = VIRTUAL_BOARDS[name]
    config = get_config(board.config)

    def verilog() -> str:
        from amaranth.back import verilog as back

        from tosaic.boards.soc import BoardTop
        from tosaic.hw.memory.simulation import VERILOG, SimulationPlatform

        top = BoardTop(
            config,
            memory_bytes=board.memory_bytes,
            clock_hz=board.clock_hz,
            baud=board.clock_hz // BIT_CYCLES,
            name=name,
            single_port=board.single_port,
        )
        return back.convert(top, name="board", emit_src=False, platform=SimulationPlatform()) + VERILOG

    import tosaic.boards
    import tosaic.hw

    folders = tuple(pathlib.Path(package.__path__[0]) for package in (tosaic.hw, tosaic.boards))
    return BoardSimulator(BoardRtl(name, repr((board, config, BIT_CYCLES)), BIT_CYCLES, folders, verilog))


def open_virtual(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    """`virtual://NAME`: a board of its own for this session, on a line inside this process."""
    return BridgeTransport(VirtualLine(open_board(uri.netloc)), f"virtual://{uri.netloc}")
