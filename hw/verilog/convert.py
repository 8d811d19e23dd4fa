"""From Amaranth to Verilog by way of Yosys, made readable."""

import dataclasses
import re

from amaranth.back import verilog

from .clocks import name_clocks
from .merge import merge
from .module import parse_modules
from .naming import rename
from .tidy import tidy
from .writer import broken, module_text

_SOURCE_LINE = re.compile(r'^\s*\(\* src = "[^"]*" \*\)\n', re.MULTILINE)
_SOURCE = re.compile(r'\(\* src = "[^"]*" \*\) ?')


@dataclasses.dataclass(frozen=True)
class Converted:
    """A module; `results` are signals that have no name in Python."""

    name: str
    text: str
    results: tuple[str, ...] = ()


def convert(
    design: object, name: str, platform: object | None = None, *, for_readers: bool = False
) -> dict[str, str]:
    """Modules of a Component by name, the top one, called `name`, first.

    Ports: clk, rst (synchronous, active high) and the component's signature, `a.b` as a__b. The text is Verilog-2005
    with nothing of any one tool in it: `always`, `assign`, plain identifiers, ANSI port lists.

    `for_readers`: what Amaranth writes out bit by bit is put together, what has no name in Python is named after what
    it is made of or used for, long lines are broken, and modules with the same text are one. Boards' tools get the text
    without that: names decide where a placer begins, and the figures of docs/boards.md are of these names.
    """
    return {
        module.name: module.text
        for module in converted(_verilog(design, name, platform), name, for_readers=for_readers)
    }


def convert_text(text: str, name: str, *, for_readers: bool = False) -> dict[str, str]:
    """The same of Verilog that Amaranth has written, such as a platform's debug Verilog; `name` is its top module."""
    return {module.name: module.text for module in converted(text, name, for_readers=for_readers)}


def convert_for_readers(design: object, name: str) -> list[Converted]:
    """As `convert` for readers, with what lint is told of each module."""
    return converted(_verilog(design, name), name, for_readers=True)


def _verilog(design: object, name: str, platform: object | None = None) -> str:
    return verilog.convert(design, name=name, platform=platform, emit_src=False, strip_internal_attrs=True)


def converted(text: str, name: str, *, for_readers: bool = False) -> list[Converted]:
    """Modules of what Amaranth has written, the top one first."""
    text = _SOURCE.sub("", _SOURCE_LINE.sub("", text))
    modules = parse_modules(text)
    for module in modules:
        tidy(module, for_readers=for_readers)
    name_clocks(modules)
    named = rename(modules, name, for_readers=for_readers)
    if for_readers:
        return [
            Converted(module.name, broken(module_text(module)), tuple(sorted(module.results)))
            for module in merge(named)
        ]
    return [Converted(module.name, module_text(module)) for module in named]
