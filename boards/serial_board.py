"""A board with a UART: the platform's pins and clock around BoardTop."""

import itertools

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import io

from tosaic.hw.config_text import get_config
from tosaic.hw.micro.core import MODULE, core_verilog
from tosaic.hw.micro.firmware.build import build_firmware

from .board import Board, Implementation
from .clocks import add_clock
from .soc import BoardTop, MicroBoardTop


def board_top(board: Board) -> BoardTop | MicroBoardTop:
    """The part of a serial board that knows no pins: what virtual boards simulate.

    PackageMissing where a micro-coded machine's core or the compiler of its firmware is not installed."""
    if board.implementation is Implementation.MICRO:
        return _micro_top(board)
    return BoardTop(
        get_config(board.config),
        memory_bytes=board.memory_bytes,
        clock_hz=board.clock_hz,
        baud=board.baud,
        name=board.name,
    )


def board_sources(board: Board) -> dict[str, str]:
    """Verilog by module name that `board_top` needs beside its own; PackageMissing as there."""
    return {MODULE: core_verilog()} if board.implementation is Implementation.MICRO else {}


def _micro_top(board: Board) -> MicroBoardTop:
    config = get_config(board.config)
    top = MicroBoardTop(
        config, build_firmware(config), clock_hz=board.clock_hz, baud=board.baud, name=board.name
    )
    if top.identity.memory_bytes != board.memory_bytes:
        raise ValueError(
            f"memory_bytes of {board.name} must be what {config.name} leaves, {top.identity.memory_bytes}, "
            f"not {board.memory_bytes}"
        )
    return top


class SerialBoard(Elaboratable):
    """Elaborates on the board's own platform only: it requests the UART and LEDs by name."""

    def __init__(self, board: Board):
        self.board = board

    def elaborate(self, platform: object) -> Module:
        m = Module()
        add_clock(m, platform, self.board.family, self.board.clock_hz)
        m.submodules.board = top = board_top(self.board)
        uart = platform.request("uart", 0, dir={"rx": "-", "tx": "-"})  # type: ignore[attr-defined]
        m.submodules.receive_pin = receive_pin = io.Buffer("i", uart.rx)
        m.submodules.transmit_pin = transmit_pin = io.Buffer("o", uart.tx)
        m.d.comb += [top.uart_rx.eq(receive_pin.i), transmit_pin.o.eq(top.uart_tx)]
        numbers = {name: itertools.count() for name in self.board.leds}
        for name, lit in zip(self.board.leds, (top.led_busy, top.led_link, top.led_irq), strict=False):
            number = next(numbers[name])
            led = platform.request(name, number, dir="-")  # type: ignore[attr-defined]
            m.submodules[f"{name}_{number}_pin"] = pin = io.Buffer("o", led)
            m.d.comb += pin.o.eq(lit)
        return m
