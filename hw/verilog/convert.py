"""From Amaranth to Verilog by way of Yosys, made readable."""

import dataclasses
import re
from collections.abc import Callable

from amaranth.back import verilog

from .clocks import name_clocks
from .merge import merge
from .module import parse_modules
from .naming import rename
from .tidy import tidy
from .writer import broken, module_text

_SOURCE_LINE = re.compile(r'^\s*\(\* src = "[^"]*" \*\)\n', re.MULTILINE)
_SOURCE = re.compile(r'\(\* src = "[^"]*" \*\) ?')
Progress = Callable[[str, int, int], None]
"""Told (what, done, total) while Verilog is made."""


def unseen(what: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""


@dataclasses.dataclass(frozen=True)
class Converted:
    """A module; `results` are signals that have no name in Python."""

    name: str
    text: str
    results: tuple[str, ...] = ()


def convert(
    design: object,
    name: str,
    platform: object | None = None,
    *,
    for_readers: bool = False,
    progress: Progress = unseen,
) -> dict[str, str]:
    """Modules of a Component by name, the top one, called `name`, first.

    Ports: clk, rst (synchronous, active high) and the component's signature, `a.b` as a__b. The text is Verilog-2005
    with nothing of any one tool in it: `always`, `assign`, plain identifiers, ANSI port lists.

    `for_readers`: what Amaranth writes out bit by bit is put together, what has no name in Python is named after what
    it is made of or used for, long lines are broken, and modules with the same text are one. Boards' tools get the text
    without that: names decide where a placer begins, and the figures of docs/boards.md are of these names.
    """
    text = _verilog(design, name, platform, progress)
    return convert_text(text, name, for_readers=for_readers, progress=progress)


def convert_text(
    text: str, name: str, *, for_readers: bool = False, progress: Progress = unseen
) -> dict[str, str]:
    """The same of Verilog that Amaranth has written, such as a platform's debug Verilog; `name` is its top module."""
    modules = converted(text, name, for_readers=for_readers, progress=progress)
    return {module.name: module.text for module in modules}


def convert_for_readers(design: object, name: str, progress: Progress = unseen) -> list[Converted]:
    """As `convert` for readers, with what lint is told of each module."""
    return converted(_verilog(design, name, None, progress), name, for_readers=True, progress=progress)


def _verilog(design: object, name: str, platform: object | None, progress: Progress) -> str:
    progress(f"{name}: Verilog by Amaranth and Yosys", 0, 1)
    return verilog.convert(design, name=name, platform=platform, emit_src=False, strip_internal_attrs=True)


def converted(
    text: str, name: str, *, for_readers: bool = False, progress: Progress = unseen
) -> list[Converted]:
    """Modules of what Amaranth has written, the top one first."""
    text = _SOURCE.sub("", _SOURCE_LINE.sub("", text))
    modules = parse_modules(text)
    for index, module in enumerate(modules):
        progress("tidy modules", index, len(modules))
        tidy(module, for_readers=for_readers)
    progress("name signals", 0, 1)
    name_clocks(modules)
    named = rename(modules, name, for_readers=for_readers)
    if for_readers:
        named = merge(named)
    found = []
    for index, module in enumerate(named):
        progress("write modules", index, len(named))
        written = module_text(module)
        found.append(
            Converted(module.name, broken(written), tuple(sorted(module.results)))
            if for_readers
            else Converted(module.name, written)
        )
    return found
