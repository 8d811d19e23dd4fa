"""What the compiler predicts and decides while a test runs, for recorded_runs.py.

A prediction shows in a program only where it turns a choice, and what a unit is told to touch only where another unit
races with it. Here the results of the functions that predict and decide are noted as they are computed, the bytes that
each piece of work reads and writes, and the memory image. A function that is renamed is renamed here.
"""

import functools
import hashlib
import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

import tosaic.compiler.build as build
from tosaic.compiler.schedule.tracker import Tracker

WATCHED: dict[str, tuple[str, ...]] = {
    "tile.arriving": ("Arriving._cycles", "Arriving.rows", "Arriving.first_rows"),
    "tile.box_cost": ("BoxCost.cycles", "BoxCost._box", "BoxCost._moved"),
    "tile.cascade": (
        *("Heights.stripes", "Heights.most_rows", "Heights.most_kept", "Heights.most_source_rows"),
    ),
    "tile.cascade_choice": ("propose", "worthwhile", "_linked", "_decodes_again", "_estimated"),
    "tile.cascade_tiles": ("row_bytes", "CascadeTiler._sizes", "CascadeTiler._held", "CascadeTiler._leaving"),
    "tile.convolution": ("box_work", "works_in_blocks", "convolution_boxes", "_following_weights"),
    "tile.cost": (
        *("work_cycles", "computing_cycles", "cascade_cycles", "bus_is_free", "_traffic"),
        *("_compute_cycles", "_fetched_weights"),
    ),
    "tile.elementwise": ("plan_elementwise", "writes_behind_reads"),
    "tile.gather_scatter": ("GatherScatterPlanner._tile",),
    "tile.im2col": ("_overlapped", "array_cycles", "fits_fields"),
    "tile.image_boxes": ("ImageBoxes.largest", "ImageBoxes.source_bytes"),
    "tile.largest_fit": ("largest_fit",),
    "tile.layer_plan": ("LayerPass._rows_while_leaving", "LayerPass._rows_while_arriving"),
    "tile.layout_copy": ("goes_straight", "_allocate", "_scratch"),
    "tile.picked": ("picking",),
    "tile.reduction": ("_passes", "_Pass.cycles"),
    "tile.row_pairs": ("paired_pitches",),
    "tile.turn": ("turn_of", "Turn.cycles"),
    "tile.window_tiles": ("WindowTiler.choose", "WindowTiler._cycles", "WindowTiler._banks_written"),
    "place.arena": ("Arena.allocate", "Arena.allocate_apart", "Arena.largest_gap_bytes"),
    "place.dense_slots": ("dense_slots",),
    "place.pixel_groups": ("_array_cycles", "_tiles", "_blob_bytes"),
    "place.tap_passes": ("_cycles", "stream_cycles", "output_limits", "pairs_rows"),
    "fuse.drain_cost": ("drains_too_slowly", "_chain_cycles"),
    "fuse.summed_rows": ("sums_rows", "sums_pay"),
    "legalize.cheaper_pool": ("_vector_cycles", "_array_cycles"),
    "legalize.short_rows": ("_Turning.bytes_of",),
    "cores.choice": ("Chooser.segment", "multiplications"),
    "cores.cores_plan": ("CoresPlan.cycles", "_ahead_bytes"),
    "cores.share_plan": ("place_of", "part_of"),
    "emit.array_go": ("begun_early",),
    "emit.convolution": ("ConvolutionEmission._pixels_before_the_end",),
    "emit.graph_emission": ("_first_use",),
}
"""Functions, methods and properties of modules of the compiler. Their results are numbers, or values made of such."""
_STAGES = {"search", *(name.split(".")[0] for name in WATCHED)}
"""Parts of the compiler that every compilation imports: what else a process has imported makes no difference."""


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
    modules = {name: importlib.import_module(f"tosaic.compiler.{name}") for name in WATCHED}
    bound: dict[int, list[tuple[object, str]]] = {}
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("tosaic.compiler.") and module_name.split(".")[2] in _STAGES:
            for name, value in vars(module).items():
                bound.setdefault(id(value), []).append((module, name))
    found: list[tuple[object, str, Any]] = []
    for module_name, names in WATCHED.items():
        for name in names:
            owner, _, method = name.rpartition(".")
            if owner:
                holder = getattr(modules[module_name], owner)
                found.append((holder, method, vars(holder)[method]))
            else:
                function = getattr(modules[module_name], name)
                found += [(*place, function) for place in bound[id(function)]]
    return found
