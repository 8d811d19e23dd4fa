"""The clock of the accelerator from a board's crystal, by the FPGA's PLL."""

import dataclasses
from collections.abc import Callable

from amaranth.hdl import ClockDomain, ClockSignal, Const, Instance, Module, Signal, Value
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

from .board import Family

_ECP5_VCO_HZ = (400e6, 800e6)
_ECP5_DETECTOR_HZ = 10e6
_XILINX_VCO_HZ = (800e6, 1600e6)


@dataclasses.dataclass(frozen=True)
class PllSetting:
    """output = input / input_divider * multiplier; the VCO runs at output * output_divider."""

    input_divider: int
    multiplier: int
    output_divider: int


def ecp5_setting(input_hz: float, output_hz: float) -> PllSetting:
    """Returns the setting of EHXPLLL with its feedback from the output; raises ValueError where none gives
    the frequency exactly.
    """
    output_divider = _first(lambda d: _ECP5_VCO_HZ[0] <= output_hz * d <= _ECP5_VCO_HZ[1])
    input_divider = _first(
        lambda d: (output_hz * d / input_hz).is_integer() and input_hz / d >= _ECP5_DETECTOR_HZ
    )
    if output_divider is None or input_divider is None:
        raise ValueError(f"no PLL setting makes {output_hz / 1e6:g} MHz of {input_hz / 1e6:g} MHz")
    return PllSetting(input_divider, int(output_hz * input_divider / input_hz), output_divider)


def xilinx_setting(input_hz: float, output_hz: float) -> PllSetting:
    """Returns the setting of PLLE2_BASE; raises ValueError where none gives the frequency exactly."""
    output_divider = _first(
        lambda d: (
            _XILINX_VCO_HZ[0] <= output_hz * d <= _XILINX_VCO_HZ[1]
            and (output_hz * d / input_hz).is_integer()
        )
    )
    if output_divider is None:
        raise ValueError(f"no PLL setting makes {output_hz / 1e6:g} MHz of {input_hz / 1e6:g} MHz")
    # The feedback is the VCO's own clock.
    return PllSetting(1, int(output_hz * output_divider / input_hz), output_divider)


def _first(fits: Callable[[int], bool]) -> int | None:
    return next((divider for divider in range(1, 129) if fits(divider)), None)


def add_clock(m: Module, platform: object, family: Family, clock_hz: float, *, late: str = "") -> None:
    """Makes the domain `sync` of `clock_hz` from the platform's default clock and reset, and a domain called `late`, if
    asked for, whose clock comes a quarter of a cycle later."""
    source_hz = platform.default_clk_frequency  # type: ignore[attr-defined]
    if source_hz == clock_hz and not late:
        return  # Amaranth makes the domain itself
    if late and family is not Family.ECP5:
        raise ValueError(f"{family.name} has no second clock here")
    name = platform.default_clk  # type: ignore[attr-defined]
    m.submodules.clock_pin = pin = io.Buffer("i", platform.request(name, dir="-"))  # type: ignore[attr-defined]
    locked = Signal()
    m.domains.sync = ClockDomain()
    late_clock = None
    if late:
        m.domains += ClockDomain(late, reset_less=True)
        late_clock = ClockSignal(late)
    if family is Family.ECP5:
        m.submodules.pll = _ecp5_pll(pin.i, ClockSignal(), late_clock, locked, (source_hz, clock_hz))
    elif family is Family.XILINX7:
        _xilinx_pll(m, pin.i, locked, source_hz, clock_hz)
    else:
        raise ValueError(f"{family.name} has no PLL here: clock_hz must be the crystal's {source_hz:g} Hz")
    pressed: Value = Const(0)
    if platform.default_rst is not None:  # type: ignore[attr-defined]
        port = platform.request(platform.default_rst, dir="-")  # type: ignore[attr-defined]
        m.submodules.reset_pin = reset_pin = io.Buffer("i", port)
        pressed = reset_pin.i
    m.submodules.reset_synchronizer = ResetSynchronizer(~locked | pressed, domain="sync")


def _ecp5_pll(
    source: Value, clock: Value, late: Value | None, locked: Value, frequencies_hz: tuple[float, float]
) -> Instance:
    source_hz, clock_hz = frequencies_hz
    setting = ecp5_setting(source_hz, clock_hz)
    second = {} if late is None else _ecp5_late(setting, late)
    return Instance(
        "EHXPLLL",
        a_FREQUENCY_PIN_CLKI=f"{source_hz / 1e6:g}",
        a_FREQUENCY_PIN_CLKOP=f"{clock_hz / 1e6:g}",
        a_ICP_CURRENT="12",
        a_LPF_RESISTOR="8",
        p_PLLRST_ENA="DISABLED",
        p_INTFB_WAKE="DISABLED",
        p_STDBY_ENABLE="DISABLED",
        p_DPHASE_SOURCE="DISABLED",
        p_CLKOP_ENABLE="ENABLED",
        p_CLKOP_DIV=setting.output_divider,
        p_CLKOP_CPHASE=setting.output_divider // 2,
        p_CLKOP_FPHASE=0,
        p_CLKI_DIV=setting.input_divider,
        p_CLKFB_DIV=setting.multiplier,
        p_FEEDBK_PATH="CLKOP",
        i_CLKI=source,
        i_CLKFB=clock,
        i_RST=Const(0),
        i_STDBY=Const(0),
        i_PHASESEL0=Const(0),
        i_PHASESEL1=Const(0),
        i_PHASEDIR=Const(1),
        i_PHASESTEP=Const(1),
        i_PHASELOADREG=Const(1),
        i_PLLWAKESYNC=Const(0),
        i_ENCLKOP=Const(0),
        o_CLKOP=clock,
        o_LOCK=locked,
        **second,
    )


def _ecp5_late(setting: PllSetting, late: Value) -> dict:
    """The second output of EHXPLLL. Phases count cycles of the VCO and their eighths, from that of the first output."""
    whole, eighths = divmod(setting.output_divider * 2, 8)
    return {
        "p_CLKOS_ENABLE": "ENABLED",
        "p_CLKOS_DIV": setting.output_divider,
        "p_CLKOS_CPHASE": setting.output_divider // 2 + whole,
        "p_CLKOS_FPHASE": eighths,
        "o_CLKOS": late,
    }


def _xilinx_pll(m: Module, source: Value, locked: Value, source_hz: float, clock_hz: float) -> None:
    setting = xilinx_setting(source_hz, clock_hz)
    feedback, unbuffered = Signal(), Signal()
    m.submodules.pll = Instance(
        "PLLE2_BASE",
        p_CLKIN1_PERIOD=1e9 / source_hz,
        p_CLKFBOUT_MULT=setting.multiplier,
        p_DIVCLK_DIVIDE=1,
        p_CLKOUT0_DIVIDE=setting.output_divider,
        i_CLKIN1=source,
        i_CLKFBIN=feedback,
        i_RST=Const(0),
        i_PWRDWN=Const(0),
        o_CLKFBOUT=feedback,
        o_CLKOUT0=unbuffered,
        o_LOCKED=locked,
    )
    m.submodules.clock_buffer = Instance("BUFG", i_I=unbuffered, o_O=ClockSignal())
