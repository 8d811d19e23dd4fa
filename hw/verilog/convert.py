"""Converts Amaranth to Verilog: RTLIL as objects, simplified, named and written."""

import dataclasses
from collections.abc import Callable, Mapping

from amaranth.back import rtlil

from .build import build
from .comments import comment
from .merge import merge
from .module import Module, Signal
from .naming import rename
from .rtlil import read_rtlil
from .simplify import simplify
from .writer import module_text

Progress = Callable[[str, int, int], None]
"""Told (what, done, total) while Verilog is made."""


def unseen(what: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""


@dataclasses.dataclass(frozen=True)
class Original:
    """A module of the RTLIL: its name, and the names that its signals and instances have in Verilog."""

    name: str
    signals: Mapping[str, str]
    instances: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Converted:
    """A module. `text` begins with its comment; `results` are signals that have no name in Python; `originals` are the
    modules of RTLIL that it is, of which several may be alike."""

    name: str
    text: str
    ports: tuple[Signal, ...] = ()
    results: tuple[str, ...] = ()
    originals: tuple[Original, ...] = ()


def convert(
    design: object, name: str, platform: object | None = None, progress: Progress = unseen
) -> dict[str, str]:
    """Modules of a Component by name, the top one, called `name`, first.

    Ports: clk, rst (synchronous, active high) and the component's signature, `a.b` as a__b. The text is Verilog-2005
    with nothing of any one tool in it: `always`, `assign`, plain identifiers, ANSI port lists. What has no name in
    Python is named after what it is made of or used for, modules with the same text are one, and the docstring of its
    class stands above a module.
    """
    modules = convert_design(design, name, platform, progress)
    return {module.name: module.text for module in modules}


def convert_design(
    design: object, name: str, platform: object | None = None, progress: Progress = unseen
) -> list[Converted]:
    """The modules of `convert`, with what lint and proofs are told of each."""
    progress(f"{name}: RTLIL by Amaranth", 0, 1)
    return convert_rtlil(rtlil.convert(design, name=name, platform=platform), name, progress)


def convert_rtlil(text: str, name: str, progress: Progress = unseen) -> list[Converted]:
    """The same of RTLIL that Amaranth has written, such as a platform's; `name` is its top module."""
    progress("read RTLIL", 0, 1)
    netlists = read_rtlil(text)
    directions = {
        netlist.name: {wire.name: wire.direction for wire in netlist.wires.values()} for netlist in netlists
    }
    modules = []
    for index, netlist in enumerate(netlists):
        progress("simplify modules", index, len(netlists))
        modules.append(build(netlist, directions))
        simplify(modules[-1])
    progress("name signals", 0, 1)
    merged = merge(rename(modules, name))
    found = []
    for index, module in enumerate(merged):
        progress("write modules", index, len(merged))
        originals = tuple(map(_original, (module, *module.copies)))
        text = comment(module.source) + module_text(module)
        found.append(
            Converted(module.name, text, tuple(module.ports), tuple(sorted(module.results)), originals)
        )
    return found


def _original(module: Module) -> Original:
    names = {old: new for old, new in module.names.items() if old not in module.narrowed}
    return Original(module.original, names, module.instance_names)
