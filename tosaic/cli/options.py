"""Options that several verbs share."""

from typing import Annotated

import typer

Config = Annotated[str, typer.Option("--config", help="Configuration; `tosaic configs` lists them.")]
ConfigOrProgram = Annotated[
    str | None,
    typer.Option("--config", help="Configuration (default: base, or what a .tsc file was compiled for)."),
]
On = Annotated[
    str, typer.Option("--on", metavar="TARGET", help="golden, emulator, sim (Verilated RTL) or cocotb.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the traceback of an error.")]
Bandwidth = Annotated[
    int | None,
    typer.Option(
        "--memory-bandwidth",
        metavar="B",
        min=1,
        help="External memory, bytes per cycle (default: the bus width).",
    ),
]
Latency = Annotated[
    int, typer.Option("--memory-latency", metavar="N", min=0, help="External memory, cycles.")
]
