"""One clock has one name: domains that differ in their reset alone are `clk` in every module.

Amaranth names the ports of a module's clock and reset after its clock domain, units_clk and units_rst. Who reads the
Verilog of a module wants to know that there is one clock; and the reset of a module that has only one is `rst`.
"""

from .module import Instance, Module
from .rtlil import RtlilSlice
from .words import word

CLOCK, RESET = "clk", "rst"


def clock_names(module: Module, parent: Instance) -> dict[str, str]:
    """Names of the ports of clocks and resets where `parent`, whose module has its names, connects its own clock."""
    inputs = [port.name for port in module.ports if port.direction == "input"]
    clocks = [
        port
        for port in inputs
        if _is(CLOCK, word(port))
        and parent.connections.get(port.removeprefix("\\")) == RtlilSlice(CLOCK, 0, 1)
    ]
    resets = [port for port in inputs if _is(RESET, word(port))]
    names = dict.fromkeys(clocks, CLOCK)
    return names | {resets[0]: RESET} if clocks and len(resets) == 1 else names


def _is(kind: str, port: str) -> bool:
    """A domain's own port, and not one of an interface (`a__clk`)."""
    return port == kind or (port.endswith(f"_{kind}") and "__" not in port)
