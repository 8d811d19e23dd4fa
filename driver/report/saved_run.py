"""Runs that `tosaic run --stats` has written, read again."""

import dataclasses
import json
import pathlib
from typing import Any

from tosaic.driver.replacing import replacing
from tosaic.errors import InputError

from .page import run_page

_NEEDED = {
    "config": str,
    "target": str,
    "cycles": int | None,
    "macs": int | None,
    "mac_utilization": float | int | None,
    "dram_read_bytes": int | None,
    "dram_write_bytes": int | None,
    "bit_exact": bool | None,
    "layers": list,
}
_OF_LAYERS = {"name": str, "op": str, "cycles": int, "macs": int}
_OPTIONAL = {
    "macs_per_cycle": int | None,
    "memory_bandwidth": float | int | None,
    "memory_latency": int | None,
    "counters": dict,
    "made": dict,
}
_LARGEST = 1 << 63
"""A number beyond what counters hold."""


@dataclasses.dataclass(frozen=True)
class SavedRun:
    """A run's statistics and the name that pages give it."""

    title: str
    stats: dict[str, Any]


def read_run(path: str | pathlib.Path) -> SavedRun:
    """Reads a file of `--stats`. InputError where it is none."""
    file = pathlib.Path(path)
    try:
        stats = json.loads(file.read_bytes(), parse_constant=_no_number)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; give a file that `tosaic run --stats` wrote"
        ) from None
    except (ValueError, RecursionError):
        raise _wrong(path, "it is no JSON") from None
    _check(path, stats, _NEEDED, "")
    if stats["cycles"] is not None:
        _check(path, stats, {"macs": int, "mac_utilization": float | int}, "")
    _check(path, stats, {name: kind for name, kind in _OPTIONAL.items() if name in stats}, "")
    for number, layer in enumerate(stats["layers"]):
        _check(path, layer, _OF_LAYERS, f"layers[{number}].")
    counters = stats.get("counters", {})
    _check(path, counters, dict.fromkeys(counters, int), "counters.")
    how = stats.get("made", {})
    _check(path, how, dict.fromkeys(how, str), "made.")
    return SavedRun(file.stem, {"memory_bandwidth": None, "memory_latency": None, **stats})


def write_run(path: pathlib.Path, run: SavedRun) -> None:
    """Writes the page about a run of which only the statistics are left: without timeline and memory map."""
    with replacing(path) as scratch:
        scratch.write_text(run_page(run.title, run.stats))


def _check(path: object, found: Any, needed: dict[str, Any], place: str) -> None:
    if not isinstance(found, dict):
        raise _wrong(path, f"{place or 'the file '}is no object".replace(".is", " is"))
    for name, kind in needed.items():
        if name not in found:
            raise _wrong(path, f"{place}{name} is missing")
        value = found[name]
        counted = isinstance(value, bool) or not isinstance(value, int | float) or 0 <= value < _LARGEST
        if not isinstance(value, kind) or not counted:
            raise _wrong(path, f"{place}{name} is {repr(value)[:60]}")


def _no_number(text: str) -> None:
    """Raises ValueError for NaN and Infinity, which Python's JSON reads."""
    raise ValueError(f"{text} is no number")


def _wrong(path: object, reason: str) -> InputError:
    return InputError(f"{path} is no file of statistics: {reason}; write one with `tosaic run --stats`")
