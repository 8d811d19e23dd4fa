"""`tosaic silicon`: area, clock and energy of a chip, before layout."""

import dataclasses
import json
import pathlib
import sys
from typing import Annotated

import typer

from tosaic.boards.silicon.liberty import LibertyError, Library, read_liberty
from tosaic.boards.silicon.memories import MemoryFigures
from tosaic.cli import options
from tosaic.cli.afterwards import tell_next
from tosaic.cli.files import check_file, make_folder, writing
from tosaic.cli.progress import Report, progress_bar
from tosaic.driver.configuration import find_config
from tosaic.errors import Error, InputError
from tosaic.hw.config import Config
from tosaic.install import install_command

RTL, NETLIST = "rtl", "netlist"


def _memories(given: list[str]) -> MemoryFigures:
    """The figures with those of the command line; InputError for another name or value."""
    values: dict[str, float] = {}
    names = [field.name for field in dataclasses.fields(MemoryFigures)]
    for text in given:
        name, _, value = text.partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            raise InputError(f"--memory {text}: {value!r} is not a number") from None
        if name not in names or not values[name] >= 0:
            raise InputError(f"--memory {text}: give a value from 0 on of one of {', '.join(names)}")
    return MemoryFigures(**values)


def _library(path: pathlib.Path) -> Library:
    try:
        return read_liberty(path)
    except LibertyError as error:
        raise InputError(str(error)) from error


@dataclasses.dataclass(frozen=True)
class _Asked:
    config: Config
    liberty: pathlib.Path
    folder: pathlib.Path
    networks: list[str]
    memories: MemoryFigures
    period_ns: float
    clock_hz: float | None
    unused: list[str]
    activity: str


def silicon(
    liberty: Annotated[
        pathlib.Path,
        typer.Option("--liberty", metavar="FILE", help="Liberty file of standard cells, also as .gz."),
    ],
    output: Annotated[pathlib.Path, typer.Option("-o", "--output", metavar="DIR")],
    *,
    config: options.Config = "base",
    sizes: options.Set = None,
    networks: Annotated[
        list[str] | None,
        typer.Option("--network", metavar="MODEL", help="Run MODEL for its energy; may be repeated."),
    ] = None,
    memory: Annotated[
        list[str] | None,
        typer.Option(
            "--memory",
            metavar="NAME=VALUE",
            help="What holds of memories: um2_per_bit=20, read_pj_per_bit=0.1; may be repeated.",
        ),
    ] = None,
    period: Annotated[
        float, typer.Option("--period", metavar="NS", min=0.01, help="The period that logic is mapped for.")
    ] = 10.0,
    clock: Annotated[
        float | None,
        typer.Option(
            "--clock", metavar="MHZ", min=0.001, help="Clock of the energy, if not the highest one."
        ),
    ] = None,
    unused: Annotated[
        list[str] | None,
        typer.Option(
            "--dont-use", metavar="PATTERN", help="Cells that are not used, as '*probe*'; may be repeated."
        ),
    ] = None,
    activity: Annotated[
        str,
        typer.Option(
            "--activity",
            metavar="rtl|netlist",
            help="Count what toggles on the RTL, and estimate the nets within its logic; or on the netlist, whose "
            "simulator takes hours to build.",
        ),
    ] = RTL,
    stats: options.StatsFile = None,
    verbose: options.Verbose = False,
) -> None:
    """Area, clock and energy of a configuration as a chip, before layout, with the cells of a Liberty file.

    DIR gets the Verilog, a wrapper for each shape of memory, the netlist, Yosys' script and an SDC.
    """
    check_file(stats)
    if activity not in (RTL, NETLIST):
        raise InputError(f"--activity {activity}: give {RTL} or {NETLIST}")
    asked = _Asked(
        find_config(options.sized(config, sizes)),
        liberty,
        output,
        networks or [],
        _memories(memory or []),
        period,
        clock * 1e6 if clock else None,
        unused or [],
        activity,
    )
    from tosaic.boards.tools import ToolError

    make_folder(output)
    try:
        with progress_bar("silicon") as progress, writing(output):
            told, figures = _measure(asked, progress)
    except ToolError as error:
        raise Error(f"{error}; {install_command(error.extra)}" if error.extra else str(error)) from error
    except LibertyError as error:
        raise InputError(str(error)) from error
    print("\n".join(told))
    if stats is not None:
        with writing(stats):
            stats.write_text(json.dumps(figures, indent=1) + "\n")
    if not networks:
        tell_next(*sys.argv[1:], "--network", "MODEL.tosa")


def _measure(asked: _Asked, progress: Report) -> tuple[list[str], dict[str, object]]:
    """The lines, and the same as JSON."""
    from tosaic.boards.silicon.design import Design
    from tosaic.boards.silicon.energy import Activity, RunEnergy
    from tosaic.boards.silicon.report import NetworkFigures, area_of, as_json, clock_of, lines
    from tosaic.boards.silicon.synthesis import (
        CellMapping,
        make_sources,
        simulated,
        simulated_rtl,
        synthesize,
    )
    from tosaic.boards.silicon.timing import NetlistTiming
    from tosaic.driver.silicon import prepare, run_netlist

    # First what takes seconds: a wrong model ends all before the synthesis.
    prepared = {model: prepare(model, asked.config, progress) for model in asked.networks}
    library = _library(asked.liberty)
    mapping = CellMapping(asked.liberty, library, asked.period_ns, asked.unused)
    sources = make_sources(asked.config, progress)
    netlist = synthesize(sources, mapping, asked.folder, progress)
    design = Design(netlist, library, asked.memories, sources.memories)
    progress("timing", 0, 1)
    area, clock = area_of(design), clock_of(NetlistTiming(design))
    runs = []
    is_rtl = asked.activity == RTL
    for number, (model, run) in enumerate(prepared.items()):
        progress(f"run {model}", number, len(prepared))
        verilog = (
            simulated_rtl(sources, asked.folder) if is_rtl else simulated(sources, library, asked.folder)
        )
        done = run_netlist(model, run, asked.config, verilog, asked.folder / "toggles.saif")
        activity = Activity(done.toggles.cycles, done.toggles.changes, done.toggles.high_cycles)
        energy = RunEnergy(design, activity, is_rtl)
        if not is_rtl and energy.unseen > len(netlist.names) // 100:
            raise Error(
                f"{model}: the run counted no changes of {energy.unseen:,} of {len(netlist.names):,} nets: its energy "
                f"would be wrong: remove {asked.folder} and measure again"
            )
        runs.append(NetworkFigures(model, done.cycles, energy, asked.clock_hz or clock.hertz))
    told = lines(f"configuration {asked.config.name}", design, area, clock, runs)
    return told, as_json(design, area, clock, runs)
