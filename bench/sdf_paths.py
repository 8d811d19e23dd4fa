"""The late paths of a routed ECP5 design, from the delays that nextpnr wrote: `python bench/sdf_paths.py top.sdf`.

nextpnr reports one path of each clock. With `--sdf FILE` it writes the delay of every cell and wire, from which the
latest path to every register input follows. Arrivals contain clock-to-output and setup, as in nextpnr's report; a clock
arrives everywhere at 0. Paths between two clocks are left out, for nextpnr reports them without a limit, and so are
paths from and to pins. SDF does not say on which edge a path starts: a path between both edges of a clock has half of
the time.
"""

import argparse
import collections
import dataclasses
import graphlib
import pathlib
import re
from collections.abc import Iterable, Mapping

_CLOCK = re.compile(r".*CLK|WCK|CLK[AB0-3]")
"""Clock inputs of registers, memories and multipliers. A clock buffer's CLKI is not one: its delay is no start."""
_NUMBER = re.compile(r"[._\[]?\d+\]?")


@dataclasses.dataclass
class Delays:
    """What the file says, in ps. A pin is named `cell/port`, as in the file, without the backslashes."""

    types: dict[str, str] = dataclasses.field(default_factory=dict)
    """Types of cells."""
    arcs: dict[str, list[tuple[str, float]]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list)
    )
    """(pin before, delay) of each pin: the wire to an input, or the ways through a cell to an output."""
    starts: dict[str, tuple[str, float]] = dataclasses.field(default_factory=dict)
    """(clock pin, clock-to-output) of each output of a register."""
    setups: dict[str, tuple[str, float]] = dataclasses.field(default_factory=dict)
    """(clock pin, setup) of each input of a register."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A path's way through one cell, and the wire behind it; ns. The last cell's delay is the setup."""

    cell: str
    kind: str
    port: str
    """The output, or the input of the last cell."""
    delay: float
    wire: float


@dataclasses.dataclass(frozen=True)
class End:
    """A register input and when its latest path is there, setup included; ns."""

    pin: str
    clock: str
    at: float


def read(lines: Iterable[str]) -> Delays:
    """nextpnr writes each delay and each check on a line of its own."""
    found, cell, kind = Delays(), "", ""
    for line in lines:
        words = line.split()
        if not words:
            continue
        if words[0] == "(INTERCONNECT":
            found.arcs[_plain(words[2])].append((_plain(words[1]), _latest(words[3:])))
        elif words[0] == "(CELLTYPE":
            kind = words[1].strip('")')
        elif words[0] == "(INSTANCE":
            cell = _plain(words[1][:-1])
            found.types[cell] = kind
        elif words[0] == "(IOPATH":
            before, output = (f"{cell}/{_plain(word)}" for word in words[1:3])
            delay = _latest(words[3:])
            if _CLOCK.fullmatch(words[1]):
                found.starts[output] = before, delay
            else:
                found.arcs[output].append((before, delay))
        elif words[0] == "(SETUPHOLD":
            # (SETUPHOLD (posedge DI) (posedge CLK) (setup) (hold)): once for each edge of the input.
            pin, clock = (f"{cell}/{_plain(words[place][:-1])}" for place in (2, 4))
            found.setups[pin] = clock, _latest(words[5:6])
    return found


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name) if "\\" in name else name


def _latest(triples: list[str]) -> float:
    """The largest of (least:typical:most), rising and falling."""
    return max(float(triple.rstrip(")").rpartition(":")[2]) for triple in triples)


class Timing:
    """The latest path to each pin, for each clock on its own."""

    def __init__(self, delays: Delays):
        self._delays = delays
        self._before: dict[str, dict[str, str]] = {}
        self.ends: list[End] = []
        pins = {pin: [before for before, _ in arcs] for pin, arcs in delays.arcs.items()}
        try:
            order = list(graphlib.TopologicalSorter(pins).static_order())
        except graphlib.CycleError as loop:
            raise SystemExit(f"a loop of logic has no latest path: {' '.join(loop.args[1])}") from None
        for clock in sorted({self._source(pin) for pin, _ in delays.starts.values()}):
            self._walk(clock, order)

    def path(self, end: End) -> list[Step]:
        """Returns the path from the register on, to the end."""
        pins = [end.pin]
        while pins[-1] in self._before[end.clock]:
            pins.append(self._before[end.clock][pins[-1]])
        pins.reverse()
        # Outputs and inputs take turns: each output is reached through its cell, each input by a wire.
        steps = []
        for place in range(0, len(pins) - 1, 2):
            output, sink = pins[place : place + 2]
            through = self._delays.starts[output][1] if place == 0 else self._between(pins[place - 1], output)
            steps.append(self._step(output, through, self._between(output, sink)))
        return [*steps, self._step(end.pin, self._delays.setups[end.pin][1], 0)]

    def _step(self, pin: str, delay: float, wire: float) -> Step:
        cell, _, port = pin.rpartition("/")
        return Step(cell, self._delays.types[cell], port, delay / 1000, wire / 1000)

    def _between(self, before: str, pin: str) -> float:
        return max(delay for source, delay in self._delays.arcs[pin] if source == before)

    def _source(self, clock_pin: str) -> str:
        """What drives a clock pin: registers with the same source have the same clock."""
        arcs = self._delays.arcs.get(clock_pin)
        return arcs[0][0] if arcs else clock_pin

    def _walk(self, clock: str, order: list[str]) -> None:
        at = {
            output: delay
            for output, (pin, delay) in self._delays.starts.items()
            if self._source(pin) == clock
        }
        self._before[clock] = chosen = {}
        for pin in order:
            for before, delay in self._delays.arcs.get(pin, ()):
                if before in at and at[before] + delay > at.get(pin, -1.0):
                    at[pin], chosen[pin] = at[before] + delay, before
        self.ends += [
            End(pin, clock, (at[pin] + setup) / 1000)
            for pin, (clock_pin, setup) in self._delays.setups.items()
            if pin in at and self._source(clock_pin) == clock
        ]


def late_families(ends: Iterable[End], limit: float) -> list[list[End]]:
    """The ends later than `limit` ns, whose names are the same but for numbers; the latest family and end first."""
    families: Mapping[str, list[End]] = collections.defaultdict(list)
    for end in sorted(ends, key=lambda end: (-end.at, end.pin)):
        if end.at > limit:
            families[_NUMBER.sub("", end.pin)].append(end)
    return list(families.values())


def report(timing: Timing, limit: float, most: int) -> list[str]:
    """Lines: for each family its latest arrival, how many of its ends are late, and the latest path."""
    families = late_families(timing.ends, limit)
    late = sum(map(len, families))
    lines = [
        f"{late} of {len(timing.ends)} ends, in {len(families)} families, are later than {limit:.2f} ns; ns:"
    ]
    for ends in families[:most]:
        lines += ["", f"{ends[0].at:.2f}, {len(ends)} ends: {ends[0].pin}", "   total    cell    wire"]
        total = 0.0
        for step in timing.path(ends[0]):
            total += step.delay + step.wire
            lines.append(
                f"{total:8.2f}{step.delay:8.2f}{step.wire:8.2f}  {step.kind:12} {step.cell} {step.port}"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--limit-ns", type=float, default=0.0, help="only ends that are later")
    parser.add_argument("--most", type=int, default=20, help="families")
    chosen = parser.parse_args()
    with chosen.file.open() as lines:
        timing = Timing(read(lines))
    print("\n".join(report(timing, chosen.limit_ns, chosen.most)))


if __name__ == "__main__":
    main()
