"""Sipeed Tang Nano 20K."""

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import GowinPlatform
from amaranth_boards.resources import LEDResources, SDRAMResource, UARTResource

_LEVELS = Attrs(IO_TYPE="LVCMOS33")
_PULLED_UP = Attrs(IO_TYPE="LVCMOS33", PULL_MODE="UP")


class TangNano20kPlatform(GowinPlatform):
    """What a design here uses: crystal, UART (to the BL616, a serial port on USB), LEDs, the SDRAM in the package.

    The SDRAM's pads are no pins, so they are named by their places on the die, as apycula's database of the part has
    them.
    """

    part = "GW2AR-LV18QN88C8/I7"
    family = "GW2AR-18C"
    default_clk = "clk27"
    resources = [
        Resource("clk27", 0, Pins("4", dir="i"), Clock(27e6), _LEVELS),
        UARTResource(0, rx="70", tx="69", attrs=_PULLED_UP),
        *LEDResources(pins="15 16 17 18 19 20", invert=True, attrs=_LEVELS),
        SDRAMResource(
            0,
            clk="IOR11B",
            cke="IOL13A",
            cs_n="IOL14B",
            we_n="IOL12B",
            ras_n="IOL13B",
            cas_n="IOL14A",
            ba="IOR13A IOR12A",
            a="IOR14A IOR13B IOR14B IOR15A IOL16B IOL17B IOL16A IOL17A IOL15B IOL15A IOR12B",
            dq="IOL3A IOL3B IOL8A IOL8B IOL9A IOL9B IOL11A IOL11B "
            "IOR9B IOR9A IOR5B IOR6A IOR5A IOR4B IOR3B IOR3A "
            "IOL39B IOL39A IOL35B IOL35A IOL30B IOL30A IOL20A IOL18B "
            "IOR17A IOR16A IOR16B IOR17B IOR18A IOR18B IOR44A IOR44B",
            dqm="IOL12A IOR11A IOL18A IOR15B",
            attrs=_LEVELS,
        ),
    ]
    connectors: list = []
