"""A board with a UART: the platform's pins and clock around BoardTop."""

import itertools
from typing import Any

from amaranth.hdl import Elaboratable, IOPort, Module
from amaranth.lib import io

from tosaic.hw.config_text import get_config
from tosaic.hw.micro.core import MODULE, core_verilog
from tosaic.hw.micro.firmware.build import build_firmware

from .board import Board, Implementation
from .clocks import add_clock
from .dram import core as dram_core
from .soc import MEMORY_BASE, BoardTop, MicroBoardTop, OnChipMemory, SdramMemory

CHIP_CLOCK = "sdram_clock"
"""The domain of an SDRAM's clock."""
_CHIP_PINS = {
    "cke": "clk_en",
    "cs_n": "cs",
    "ras_n": "ras",
    "cas_n": "cas",
    "we_n": "we",
    "a": "a",
    "ba": "ba",
    "dm": "dqm",
}
"""What amaranth_boards calls the pins of SdramPins."""


def board_top(board: Board, data_pins: IOPort | None = None) -> BoardTop | MicroBoardTop:
    """The part of a serial board that knows no pins: what virtual boards simulate.

    `data_pins`: those of its SDRAM, if it has one; without them the top module gets the port `sdram_dq`.
    PackageMissing where a micro-coded machine's core or the compiler of its firmware is not installed."""
    if board.implementation is Implementation.MICRO:
        return _micro_top(board)
    config = get_config(board.config)
    memory: OnChipMemory | SdramMemory
    if board.sdram:
        data_pins = data_pins or IOPort(board.sdram.data_bits, name="sdram_dq")
        memory = SdramMemory(
            config, board.sdram, base=MEMORY_BASE, clock_hz=board.clock_hz, data_pins=data_pins
        )
    else:
        memory = OnChipMemory(config, memory_bytes=board.memory_bytes, base=MEMORY_BASE)
    return BoardTop(config, memory=memory, clock_hz=board.clock_hz, baud=board.baud, name=board.name)


def board_sources(board: Board) -> dict[str, str]:
    """Verilog by module name that `board_top` needs beside its own; PackageMissing where a package that brings it is
    not installed."""
    if board.implementation is Implementation.MICRO:
        return {MODULE: core_verilog()}
    if board.sdram:
        word_bytes = get_config(board.config).word_bytes
        text = dram_core.core_verilog(board.sdram, board.part, board.clock_hz, word_bytes)
        return {dram_core.MODULE: text}
    return {}


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
        chip = self.board.sdram
        add_clock(m, platform, self.board.family, self.board.clock_hz, late=CHIP_CLOCK if chip else "")
        pins: Any = None
        if chip:
            names = ("clk", "dq", *_CHIP_PINS.values())
            pins = platform.request("sdram", 0, dir=dict.fromkeys(names, "-"))  # type: ignore[attr-defined]
        m.submodules.board = top = board_top(self.board, pins.dq.io if chip else None)
        if chip:
            _connect_chip(m, pins, top)
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


def _connect_chip(m: Module, pins: Any, top: BoardTop | MicroBoardTop) -> None:
    """All pins but the data, which the controller has."""
    m.submodules.sdram_clk_pin = clock = io.DDRBuffer("o", pins.clk, o_domain=CHIP_CLOCK)
    m.d.comb += [clock.o[0].eq(1), clock.o[1].eq(0)]
    for name, resource in _CHIP_PINS.items():
        port = getattr(pins, resource)
        # Levels are the chip's: no inverter may come between the controller's register and the pin.
        m.submodules[f"sdram_{name}_pin"] = pin = io.Buffer("o", io.SingleEndedPort(port.io, direction="o"))
        m.d.comb += pin.o.eq(getattr(top.sdram, name))
