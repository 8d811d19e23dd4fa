"""`tosaic explore`: which machine for these networks."""

import enum
import pathlib
from typing import Annotated

import typer

from tosaic.boards.area import PARTS, LutFabric, Part, error_told, estimate, fits
from tosaic.boards.report import Usage
from tosaic.cli import options
from tosaic.cli.afterwards import open_page, page_of
from tosaic.cli.explore_checks import check_points
from tosaic.cli.files import check_file, writing
from tosaic.cli.progress import progress_bar
from tosaic.driver.configuration import find_config
from tosaic.driver.explore import (
    Exploration,
    Goal,
    Point,
    Question,
    Told,
    best_of,
    front_of,
    verilog_command,
    write_page,
)
from tosaic.driver.explore import explore as run_exploration
from tosaic.driver.function_files import model_files
from tosaic.driver.jobs import RecordFile, place_of
from tosaic.driver.runnable import runnable
from tosaic.errors import InputError
from tosaic.hw.spelling import meant

LISTED = 12
"""Points of the front that are printed."""


class Search(enum.Enum):
    """How machines are chosen."""

    OPTUNA = "optuna"
    GRID = "grid"


def explore(
    models: Annotated[list[pathlib.Path], typer.Argument(help="Networks that the machine shall run.")],
    *,
    part: Annotated[
        str | None, typer.Option("--part", metavar="PART", help=f"Part to fit: {', '.join(PARTS)}.")
    ] = None,
    goal: Annotated[Goal, typer.Option("--goal", help="Which point of the front is named.")] = Goal.LATENCY,
    points: Annotated[int, typer.Option("--points", metavar="N", min=1, help="Machines to look at.")] = 500,
    search: Annotated[
        Search, typer.Option("--search", help="Optuna's NSGA-II, or machines drawn from the whole grid.")
    ] = Search.GRID,
    base: Annotated[
        str, typer.Option("--config", help="The configuration whose other sizes are kept.")
    ] = "base",
    sizes: options.Set = None,
    memory_bandwidth: Annotated[
        list[int] | None,
        typer.Option(
            "--memory-bandwidth",
            metavar="B",
            min=1,
            help="External memory, bytes per cycle (default: 4, 8, 16); may be repeated.",
        ),
    ] = None,
    shape: options.Shape = None,
    value: options.Value = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the search.")] = 0,
    jobs: options.Processes = 1,
    cluster: options.Cluster = None,
    records: options.Records = None,
    rtl: Annotated[
        int, typer.Option("--rtl", metavar="N", min=0, help="Run N points of the front on the RTL.")
    ] = 0,
    synthesis: Annotated[
        int, typer.Option("--synthesis", metavar="N", min=0, help="Synthesise N points of the front.")
    ] = 0,
    report: Annotated[
        pathlib.Path | None,
        typer.Option("--report", metavar="FILE.html", help="Write the page of the front."),
    ] = None,
    open_: options.Open = False,
    verbose: options.Verbose = False,
) -> None:
    """Search the configurations for the machines that nothing beats in cycles, area and memory bandwidth."""
    page = page_of(report, open_)
    check_file(page)
    check_file(records)
    models, given = model_files(models, options.bindings(shape, value))
    chosen = _part(part)
    fabric = chosen.fabric if chosen else LutFabric.XC7
    question = Question(
        models=tuple(models),
        base=find_config(options.sized(base, sizes)).name,
        fixed=tuple(size.partition("=")[0] for size in sizes or ()),
        bandwidths=tuple(sorted(set(memory_bandwidth or (4, 8, 16)))),
        points=points,
        area=lambda config: estimate(config, fabric),
        fits=lambda area: chosen is None or fits(_usage(area), chosen),
        bound=tuple(runnable(models, given)),
        seed=seed,
        optuna=search is Search.OPTUNA,
    )
    kept, place = RecordFile(records), place_of(jobs, cluster)
    with progress_bar("explore") as progress:
        found = run_exploration(question, place, kept, progress)
    if not found.points:
        raise InputError(_nothing(found, chosen))
    best = best_of(found.points, goal)
    front = front_of(found.points)
    checked = check_points(
        front, (rtl, synthesis), dict(zip(models, question.bound, strict=True)), fabric, place, kept
    )
    facts = {
        "goal": goal.value,
        "part": chosen.name if chosen else "none, LUTs of six inputs",
        "cycles": "predicted by the emulator's cycle model",
        "area": error_told(fabric),
        "searched": f"{search.value}, seed {seed}, sizes not searched as in {question.base}",
    }
    if page is not None:
        names = ", ".join(model.parent.name if model.stem == "model" else model.stem for model in models)
        with writing(page):
            write_page(page, found, Told(f"Machines for {names}", facts, best, checked))
    _print(found, front, best, checked)
    open_page(page, open_)


def _part(name: str | None) -> Part | None:
    if name is None or name in PARTS:
        return PARTS[name] if name else None
    raise InputError(f"no part is called {name!r}; {meant(name, PARTS)}there are {', '.join(PARTS)}")


def _usage(area: object) -> Usage:
    assert isinstance(area, Usage)
    return area


def _nothing(found: Exploration, part: Part | None) -> str:
    if found.refused:
        name, reason = next(iter(found.refused.items()))
        return f"no machine runs these networks; {name}: {reason}"
    return f"no machine of the space fits {part.name if part else 'anything'}: take a larger part, or let go of a --set"


def _print(
    found: Exploration, front: list[Point], best: Point | None, checked: dict[tuple[str, int], str]
) -> None:
    print(
        f"{len(found.points):,} points, {found.too_large:,} machines too large, {len(found.refused):,} refused; "
        f"{len(front):,} on the front"
    )
    shown = [each for each in front if each is not best][: LISTED - 1]
    for each in ([best] if best else []) + shown:
        area = each.area
        cycles = " / ".join(f"{value:,}" for value in each.cycles.values())
        print(
            f"{'best' if each is best else '    '} {area.lut:>7,} LUT {area.dsp:>5,} multipliers "
            f"{each.bandwidth:>3} B/cycle {cycles:>20} cycles  {each.config.name}"
        )
        if told := checked.get((each.config.name, each.bandwidth)):
            print(f"     {told}")
    if best:
        print(f"next: {verilog_command(best)}")
