"""`tosaic verilog`: the accelerator as Verilog."""

import pathlib
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.files import make_folder, writing
from tosaic.driver.session import find_config


def verilog(
    output: Annotated[pathlib.Path, typer.Option("-o", "--output", metavar="DIR")],
    config: options.Config = "base",
    verbose: options.Verbose = False,
) -> None:
    """Write the Verilog of a configuration (AXI4 and AXI4-Lite top), with testbench, register map and driver notes."""
    chosen = find_config(config)
    from tosaic.hw.verilog import write_folder

    make_folder(output)
    with writing(output):
        written = write_folder(chosen, output)
    print(
        f"{output / 'tosaic.f'}: {written.modules} modules, {written.lines:,} lines, configuration {chosen.name}, "
        "top module tosaic"
    )
