"""`tosaic bench`: cycles of networks beside those of other accelerators."""

import pathlib
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.afterwards import tell_next
from tosaic.cli.files import check_file, writing_whole
from tosaic.cli.progress import progress_bar
from tosaic.driver.configuration import find_config
from tosaic.driver.function_files import model_files
from tosaic.driver.jobs import RecordFile, place_of, run_jobs
from tosaic.driver.runnable import runnable
from tosaic.driver.targets import find_target
from tosaic.errors import InputError


def bench(
    models: Annotated[
        list[pathlib.Path] | None,
        typer.Argument(help="Models; without any, the bundled digits networks.", show_default=False),
    ] = None,
    *,
    config: Annotated[
        list[str] | None, typer.Option("--config", help="Configuration (default: base); may be repeated.")
    ] = None,
    sizes: options.Set = None,
    on: Annotated[
        str, typer.Option("--target", "--on", metavar="TARGET", help="sim (Verilated RTL) or emulator.")
    ] = "sim",
    memory_bandwidth: Annotated[
        list[float] | None,
        typer.Option(
            "--memory-bandwidth",
            metavar="B",
            min=0.01,
            help="External memory, bytes per cycle (default: the bus width); may be repeated.",
        ),
    ] = None,
    memory_latency: options.Latency = None,
    drop_dead_channels: options.DropDeadChannels = False,
    batch: options.Batch = 1,
    shape: options.Shape = None,
    value: options.Value = None,
    check: Annotated[bool, typer.Option("--check", help="Also compare every output with golden.")] = False,
    jobs: options.Processes = 1,
    cluster: options.Cluster = None,
    records: options.Records = None,
    csv: Annotated[
        pathlib.Path | None, typer.Option("--csv", metavar="FILE.csv", help="Write the figures to FILE.")
    ] = None,
    plot: Annotated[
        pathlib.Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw the figures as SVG.")
    ] = None,
    verbose: options.Verbose = False,
) -> None:
    """Cycles, utilization and bytes per inference, beside those of other accelerators where they are known."""
    from tosaic.driver.bench import (
        Compiled,
        MemorySetting,
        csv_text,
        markdown_table,
        measurement,
        plot_svg,
        row_of,
    )

    find_target(on)
    if on == "golden":
        raise InputError("golden has no cycles: measure on sim or emulator")
    check_file(csv)
    check_file(plot)
    check_file(records)
    chosen = models or _bundled()
    configs = [find_config(options.sized(name, sizes)).name for name in config or ["base"]]
    bandwidths: list[float | None] = [*memory_bandwidth] if memory_bandwidth else [None]
    memories = [MemorySetting(bandwidth, memory_latency) for bandwidth in bandwidths]
    chosen, given = model_files(chosen, options.bindings(shape, value))
    bound = runnable(chosen, given)
    work = [
        measurement(m, on, c, memory, Compiled(batch, drop_dead_channels, own), check=check)
        for c in configs
        for memory in memories
        for m, own in zip(chosen, bound, strict=True)
    ]
    with progress_bar("bench") as progress:
        found = run_jobs(work, place_of(jobs, cluster), RecordFile(records), progress)
    rows = [row_of(job, record) for job, record in zip(work, found, strict=True)]
    print(markdown_table(rows))
    removed = "" if drop_dead_channels else "not "
    exact = "; outputs equal golden" if check else ""
    print(
        f"on {on}, memory latency {rows[0].memory_latency} cycles, batch {batch}, dead channels {removed}removed{exact}"
    )
    if csv is not None:
        with writing_whole(csv) as scratch:
            scratch.write_text(csv_text(rows))
    if plot is not None:
        with writing_whole(plot) as scratch:
            scratch.write_text(plot_svg(rows))
    tell_next("run", chosen[0], "--config", configs[0], "--random", "1", "--report", "report.html")


def _bundled() -> list[pathlib.Path]:
    import tosaic.examples

    folder = pathlib.Path(tosaic.examples.__path__[0]) / "digits"
    return sorted(folder.glob("*.tosa"))
