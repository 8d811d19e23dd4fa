"""A board with a UART: the platform's pins and clock around BoardTop."""

import itertools
from typing import Any

from amaranth.hdl import Const, Elaboratable, Instance, Module, Signal
from amaranth.lib import io
from amaranth.lib.wiring import Out

from .board import Board, Family
from .clocks import add_clock
from .ethernet.phy import Ethernet, Phy
from .machines import top_of
from .soc import BoardTop
from .spi_flash import SpiFlash

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
_PHY_PINS = {
    "clocks_rx": "rx_clk",
    "clocks_tx": "tx_clk",
    "rst_n": "rst",
    "rx_ctl": "rx_ctrl",
    "tx_ctl": "tx_ctrl",
}
"""What amaranth_boards calls pins of PhyPins, where it is another name."""


class SerialBoard(Elaboratable):
    """Elaborates on the board's own platform only: it requests the UART and LEDs by name."""

    def __init__(self, board: Board):
        self.board = board

    def elaborate(self, platform: object) -> Module:
        m = Module()
        chip = self.board.sdram
        # A PLL gives the chip its clock a quarter of a cycle late. Without one it is the board's, inverted.
        late = CHIP_CLOCK if chip and self.board.family is Family.ECP5 else ""
        add_clock(m, platform, self.board.family, self.board.clock_hz, late=late)
        pins: Any = None
        if chip:
            names = ("clk", "dq", *_CHIP_PINS.values())
            pins = platform.request("sdram", 0, dir=dict.fromkeys(names, "-"))  # type: ignore[attr-defined]
        m.submodules.board = top = top_of(self.board, pins.dq.io if chip else None)
        if chip:
            _connect_chip(m, pins, top, late)
        if ethernet := self.board.used_ethernet:
            _connect_phy(m, platform, ethernet, top, self.board.clock_hz)
        if flash := self.board.used_flash:
            _connect_flash(m, platform, flash, top)
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


def _connect_chip(m: Module, pins: Any, top: BoardTop, late: str) -> None:
    """All pins but the data, which the controller has. `late`: the domain of the chip's clock, if there is one."""
    m.submodules.sdram_clk_pin = clock = io.DDRBuffer("o", pins.clk, o_domain=late or "sync")
    m.d.comb += [clock.o[0].eq(bool(late)), clock.o[1].eq(not late)]
    for name, resource in _CHIP_PINS.items():
        port = getattr(pins, resource)
        # Levels are the chip's: no inverter may come between the controller's register and the pin.
        m.submodules[f"sdram_{name}_pin"] = pin = io.Buffer("o", io.SingleEndedPort(port.io, direction="o"))
        m.d.comb += pin.o.eq(getattr(top.sdram, name))


def _connect_phy(m: Module, platform: Any, ethernet: Ethernet, top: BoardTop, clock_hz: float) -> None:
    """All pins but those of the management port, whose registers nobody sets."""
    members = top.phy.signature.members  # type: ignore[union-attr]
    names = {name: _PHY_PINS.get(name, name) for name in members}
    pins = platform.request(ethernet.resource, 0, dir=dict.fromkeys(names.values(), "-"))
    clocks = ("clocks_rx",) if ethernet.phy is Phy.RGMII else ("clocks_rx", "clocks_tx")
    for name, resource in names.items():
        inner, port = getattr(top.phy, name), getattr(pins, resource)  # type: ignore[union-attr]
        way = "o" if members[name].flow is Out else "i"
        # Levels are the PHY's: nothing may come between a pin and what LiteEth's core has there.
        m.submodules[f"phy_{name}_pin"] = pin = io.Buffer(way, io.SingleEndedPort(port.io, direction=way))
        m.d.comb += pin.o.eq(inner) if way == "o" else inner.eq(pin.i)
        if name in clocks:
            platform.add_clock_constraint(port.io, ethernet.phy.clock_hz)
    if ethernet.reference_clock:
        if clock_hz != 2 * ethernet.phy.clock_hz:
            raise ValueError(
                f"the PHY's clock is half of the board's: clock_hz must be {2 * ethernet.phy.clock_hz:g}"
            )
        half = Signal()
        m.d.sync += half.eq(~half)
        resource = platform.request(ethernet.reference_clock, 0, dir="-")
        m.submodules.phy_reference_pin = reference = io.Buffer("o", resource)
        m.d.comb += reference.o.eq(half)


def _connect_flash(m: Module, platform: Any, flash: SpiFlash, top: BoardTop) -> None:
    spi = top.spi  # type: ignore[union-attr]
    names = ["cs", "copi", "cipo", "wp", "hold", *([] if flash.configuration_clock else ["clk"])]
    ways = dict.fromkeys(names, "-") | ({} if flash.resource == "spi_flash" else {"clk": "-"})
    pins = platform.request(flash.resource, 0, dir=ways)
    # Of the chip's levels; nothing is protected or held.
    driven = {"cs": spi.cs_n, "copi": spi.copi, "wp": Const(1), "hold": Const(1), "clk": spi.clk}
    for name in names:
        way = "i" if name == "cipo" else "o"
        port = io.SingleEndedPort(getattr(pins, name).io, direction=way)
        m.submodules[f"flash_{name}_pin"] = pin = io.Buffer(way, port)
        m.d.comb += spi.cipo.eq(pin.i) if name == "cipo" else pin.o.eq(driven[name])
    if flash.configuration_clock:
        m.submodules.flash_clock = Instance("USRMCLK", i_USRMCLKI=spi.clk, i_USRMCLKTS=Const(0))
