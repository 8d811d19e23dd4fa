"""From Amaranth to Verilog by way of Yosys, made readable."""

from amaranth.back import verilog

from .module import parse_modules
from .naming import rename
from .tidy import tidy
from .writer import module_text


def convert(design: object, name: str, platform: object | None = None) -> dict[str, str]:
    """Modules of a Component by name, the top one, called `name`, first.

    Ports: clk, rst (synchronous, active high) and the component's signature, `a.b` as a__b. The text is Verilog-2005
    with nothing of any one tool in it: `always`, `assign`, plain identifiers, ANSI port lists.
    """
    text = verilog.convert(design, name=name, platform=platform, emit_src=False, strip_internal_attrs=True)
    modules = parse_modules(text)
    for module in modules:
        tidy(module)
    return {module.name: module_text(module) for module in rename(modules, name)}
