"""`tosaic c-kit`: headers and libraries with which a C compiler alone builds programs that run models."""

import pathlib
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.files import writing
from tosaic.driver.c_kit.desk_kit import install_desk_kit
from tosaic.driver.configuration import find_config


def c_kit(
    *,
    output: Annotated[
        pathlib.Path,
        typer.Option("-o", "--output", metavar="PREFIX", help="The folder that gets include/ and lib/."),
    ],
    simulator: Annotated[
        list[str] | None,
        typer.Option(
            "--simulator",
            metavar="CONFIG",
            help="Also the RTL of this configuration as a library, for the address sim://CONFIG; repeatable.",
        ),
    ] = None,
    verbose: options.Verbose = False,
) -> None:
    """Install the C kit for this computer: headers, libtosaic, pkg-config and CMake files."""
    configs = [find_config(name) for name in simulator or ()]
    with writing(output):
        install_desk_kit(output, configs)
    root = output.resolve()
    print(f"{output}: export PKG_CONFIG_PATH={root / 'lib' / 'pkgconfig'}, or CMAKE_PREFIX_PATH={root}")
    print("next: gcc app.c $(pkg-config --cflags --libs tosaic) -o app")
