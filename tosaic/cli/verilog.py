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
    """Write tosaic.v (AXI4 and AXI4-Lite top) and the register map of a configuration."""
    chosen = find_config(config)
    from tosaic.hw.csr_doc import csr_markdown
    from tosaic.hw.top import to_verilog

    make_folder(output)
    text = to_verilog(chosen)
    with writing(output):
        (output / "tosaic.v").write_text(text)
        (output / "registers.md").write_text(csr_markdown())
    print(
        f"{output / 'tosaic.v'}: {text.count(chr(10)):,} lines, configuration {chosen.name}, top module tosaic"
    )
