"""How often each bit of a netlist changes in a run: the accelerator's Verilog of gates, under Verilator.

Verilator writes SAIF (IEEE 1801's switching activity). A bit is looked at once in each cycle: what it does within a
cycle (glitches) is not counted, and the clock is not counted at all.
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence

from tosaic.errors import Error

from .build import PLAIN, SAIF, Variant
from .library import Harness

_BENCH = "bench"
"""The module around the accelerator (bench.v), in which it is an instance."""
_LINE = re.compile(
    r"\(INSTANCE (?P<instance>\S+)|\((?P<name>[^\s()]+) \(T0 \d+\) \(T1 (?P<high>\d+)\).*\(TC (?P<changes>\d+)\)"
)
_BIT = re.compile(r"(.*?)(?:\\?\[(\d+)\\?\])?$")


@dataclasses.dataclass(frozen=True)
class Toggles:
    """Changes of each bit, by the path of a module below the accelerator's top module and the name of a wire in it."""

    cycles: int
    changes: Mapping[tuple[tuple[str, ...], str], Mapping[int, int]]
    """How often it changed."""
    high_cycles: Mapping[tuple[tuple[str, ...], str], Mapping[int, int]]
    """In how many cycles it was 1."""


class ToggleCounter:
    """For RtlSimulator: a run of the netlist in the file `verilog`, whose counts go to the file `saif`."""

    def __init__(self, verilog: pathlib.Path, saif: pathlib.Path) -> None:
        self._saif, self._cycles = saif, 0
        self.variant = Variant(
            "netlist",
            (*PLAIN.options, "--trace-saif", "--trace-underscore"),
            verilog=lambda config: verilog,
            runtime=SAIF,
        )

    def begin(self, harness: Harness, codes: Sequence[bytes]) -> None:
        """Count from the start of the program on."""
        harness.open_toggles(self._saif)

    def end(self, harness: Harness) -> None:
        """Writes the file; Error where it could not be written."""
        self._cycles = harness.close_toggles()
        if not self._cycles:
            raise Error(
                f"the toggles cannot be written to {self._saif}: see that its folder is there and has room"
            )

    def read(self) -> Toggles:
        """What was counted."""
        return read_saif(self._saif, self._cycles)


def read_saif(path: pathlib.Path, cycles: int) -> Toggles:
    """The counts of a file of Verilator's."""
    changes: dict[tuple[tuple[str, ...], str], dict[int, int]] = {}
    high: dict[tuple[tuple[str, ...], str], dict[int, int]] = {}
    scope: list[str] = []
    depth: list[int] = []
    level = 0
    with path.open() as lines:
        for line in lines:
            found = _LINE.search(line)
            if found and found["instance"]:
                scope.append(found["instance"].replace("\\", ""))
                depth.append(level)
            elif found:
                name, bit = _BIT.fullmatch(found["name"]).groups()  # type: ignore[union-attr]
                place = (tuple(scope), name.replace("\\", ""))
                changes.setdefault(place, {})[int(bit or 0)] = int(found["changes"])
                high.setdefault(place, {})[int(bit or 0)] = int(found["high"])
            level += line.count("(") - line.count(")")
            while depth and level <= depth[-1]:
                depth.pop()
                scope.pop()
    return Toggles(cycles, _below(changes), _below(high))


def _below(
    counts: dict[tuple[tuple[str, ...], str], dict[int, int]],
) -> dict[tuple[tuple[str, ...], str], dict[int, int]]:
    """The counts by paths from the accelerator's top module on."""
    found = {}
    for (path, name), bits in counts.items():
        if _BENCH in path[:-1]:
            found[path[path.index(_BENCH) + 2 :], name] = bits
    return found
