"""What the compiler predicts and decides while a test runs, for recorded_runs.py.

A prediction shows in a program only where it turns a choice, and what a unit is told to touch only where another unit
races with it. Here the results of the functions that predict and decide are noted as they are computed, the bytes that
each piece of work reads and writes, and the memory image.
"""

import functools
import hashlib
import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import tosaic.compiler.build as build
from tosaic.compiler.schedule.tracker import Tracker

WATCHED: dict[str, tuple[str, ...]] = {
    "tile.box_cost": ("BoxCost._moved",),
    "tile.cascade": ("Heights.stripes",),
    "tile.cascade_tiles": ("CascadeTiler._sizes", "CascadeTiler._leaving"),
    "tile.convolution": ("box_work", "convolution_boxes"),
    "tile.cost": ("_traffic",),
    "tile.elementwise": ("plan_elementwise",),
    "tile.gather_scatter": ("GatherScatterPlanner._tile",),
    "tile.image_boxes": ("ImageBoxes.largest",),
    "tile.layout_copy": ("_allocate", "_scratch"),
    "tile.picked": ("picking",),
    "tile.reduction": ("_passes",),
    "tile.row_pairs": ("paired_pitches",),
    "tile.turn": ("turn_of",),
    "tile.window_tiles": ("WindowTiler.choose",),
    "place.pixel_groups": ("_tiles",),
    "cores.choice": ("Chooser.segment",),
    "cores.cores_plan": ("CoresPlan.cycles",),
    "cores.share_plan": ("place_of", "part_of"),
    "emit.array_go": ("begun_early",),
    "emit.graph_emission": ("_first_use",),
}
"""Functions, methods and properties of modules of the compiler whose results are values made of numbers. Those whose
results are numbers by their annotation are noted, too, but for properties."""
_STAGES = ("cores", "emit", "fuse", "legalize", "place", "schedule", "tile")
"""Parts of the compiler that every compilation imports: what else a process has imported makes no difference."""
_NUMBERS = {"bool", "int", "float", "tuple", "list", "set", "frozenset", "None"}
"""What such an annotation is made of."""
_TOO_OFTEN = {"Intervals.latest"}
"""To note it would cost more than it tells: each instruction's waits come from it."""


class Planning:
    """What is predicted and decided while `patch` lasts."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self._found = hashlib.sha256()
        for owner, name, what in _places():
            patch.setattr(owner, name, self._noting(what))
        add, lay_out = Tracker.add, build.lay_out

        @functools.wraps(add)
        def added(tracker, work):
            self._note((work.unit, work.reads, work.writes, work.streams, work.array_vectors))
            return add(tracker, work)

        @functools.wraps(lay_out)
        def laid_out(*arguments):
            image = lay_out(*arguments)
            self._found.update(image.bytes)
            self._note((image.program_address, image.boot_address, image.memory_bytes, image.others))
            return image

        patch.setattr(Tracker, "add", added)
        patch.setattr(build, "lay_out", laid_out)

    def digest(self) -> str:
        return self._found.hexdigest()[:8]

    def _note(self, result: object) -> None:
        self._found.update(repr(result).encode())

    def _noting(self, what: Any) -> Any:
        """A function or property that does the same and notes its results."""
        if isinstance(what, property):
            assert what.fget is not None
            return property(self._noting(what.fget))
        called: Callable[..., object] = what

        @functools.wraps(called)
        def noting(*arguments, **options):
            result = called(*arguments, **options)
            self._note(result)
            return result

        return noting


@functools.cache
def _places() -> list[tuple[object, str, Any]]:
    """(class or module, name there, function or property), wherever one of the stages has imported a function to."""
    modules = {
        name.removeprefix("tosaic.compiler."): module
        for name, module in sorted(sys.modules.items())
        if name.startswith("tosaic.compiler.") and name.split(".")[2] in (*_STAGES, "search")
    }
    bound: dict[int, list[tuple[object, str]]] = {}
    for module in modules.values():
        for name, value in vars(module).items():
            bound.setdefault(id(value), []).append((module, name))
    found: list[tuple[object, str, Any]] = []
    known = set()
    for module_name, module in modules.items():
        named = WATCHED.get(module_name, ())
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) != module.__name__:
                continue
            known.add((module_name, name))
            if isinstance(value, type):
                known |= {(module_name, f"{name}.{method}") for method in vars(value)}
                found += [
                    (value, method, what)
                    for method, what in vars(value).items()
                    if f"{name}.{method}" in named or _is_number(what)
                ]
            elif name in named or _is_number(value):
                found += [(*place, value) for place in bound[id(value)]]
    gone = {(module_name, name) for module_name, names in WATCHED.items() for name in names} - known
    assert not gone, f"WATCHED names what the compiler has no more: {sorted(gone)}"
    return found


def _is_number(what: object) -> bool:
    """Whether it is a function whose result is a number, or several, by its annotation."""
    if not isinstance(what, types.FunctionType) or what.__qualname__ in _TOO_OFTEN:
        return False
    result = inspect.formatannotation(inspect.get_annotations(what).get("return"))
    words = set(re.findall(r"\w+", result))
    return words <= _NUMBERS and words != {"None"}
