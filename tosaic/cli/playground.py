"""`tosaic playground`: networks on the RTL, in a browser."""

import pathlib
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.files import make_folder, writing
from tosaic.cli.progress import progress_bar
from tosaic.driver.configuration import find_config

DEMOS = ("digits", "chat")


def playground(
    output: Annotated[pathlib.Path, typer.Option("-o", "--output", metavar="DIR")],
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL...]",
            help="Networks of integers or programs; MODEL=SAMPLES.npz adds inputs. "
            "digits and chat are built in, and the default.",
        ),
    ] = None,
    configs: Annotated[
        str, typer.Option("--config", metavar="NAMES", help="Machines, divided by commas.")
    ] = "nano,small,base",
    single: Annotated[
        bool, typer.Option("--single", help="Write one file, which opens from a disk, too.")
    ] = False,
    verbose: options.Verbose = False,
) -> None:
    """Write a page on which the RTL runs networks in a browser, with what each unit did in each cycle."""
    machines = [find_config(name) for name in configs.split(",")]
    from tosaic.driver.playground import chat_demo, digits_demo, model_demo, write_folder, write_single

    made = {"digits": digits_demo, "chat": chat_demo}
    demos = []
    with progress_bar("playground") as progress:
        chosen = models or DEMOS
        for number, name in enumerate(chosen):
            progress(f"compile {name}", number, len(chosen))
            if name in made:
                demos.append(made[name](machines))
                continue
            model, _, samples = name.partition("=")
            demos.append(
                model_demo(pathlib.Path(model), machines, pathlib.Path(samples) if samples else None)
            )
        progress("machines", len(chosen), len(chosen))
        make_folder(output)
        with writing(output):
            if single:
                path = write_single(output, demos, machines)
                typer.echo(f"wrote {path}, {path.stat().st_size / 1000:,.0f} kB: open it in a browser")
            else:
                written = write_folder(output, demos, machines)
                typer.echo(f"wrote {len(written)} files to {output}: python -m http.server -d {output}")
