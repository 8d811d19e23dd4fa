"""Options that several verbs share."""

from typing import Annotated

import typer

Config = Annotated[str, typer.Option("--config", help="Configuration; `tosaic configs` lists them.")]
On = Annotated[
    str, typer.Option("--on", metavar="TARGET", help="golden, emulator, sim (Verilated RTL) or cocotb.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the traceback of an error.")]
Bandwidth = Annotated[
    int | None,
    typer.Option(
        "--memory-bandwidth", metavar="B", help="External memory, bytes per cycle (default: the bus width)."
    ),
]
Latency = Annotated[int, typer.Option("--memory-latency", metavar="N", help="External memory, cycles.")]
