"""`tosaic verify`: a program is checked on every path, without inputs."""

from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph
from tosaic.driver.models import open_model
from tosaic.driver.session import find_config
from tosaic.errors import DeviceError, UnsafeProgramError, UnsupportedError

DEFAULT_CONFIG = "base"


def verify(
    model: Annotated[str, typer.Argument(help="A .tsc program, or a model, which is compiled first.")],
    config: options.ConfigOrProgram = None,
    sizes: options.Set = None,
    shape: options.Shape = None,
    value: options.Value = None,
    verbose: options.Verbose = False,
) -> None:
    """Check a program on every path, whatever its data: tokens, order of accesses, bounds, micro-operations.

    Exit 1 with the first instruction at fault.
    """
    from tosaic.sim.emulator.verify import verify as check_program

    opened = open_model(model, options.bindings(shape, value))
    if isinstance(opened, Graph):
        program = compile_graph(opened, find_config(options.sized(config or DEFAULT_CONFIG, sizes)))
    else:
        program = opened
    if program.others:
        raise UnsupportedError(
            f"{model}: programs of several cores are not checked on every path: run it on the emulator with --check"
        )
    memory = program.memory()
    try:
        if program.boot is not None:
            check_program(program.config, memory, program.boot.program_address, program.boot.program_bytes)
        done = check_program(program.config, memory, program.program_address, program.program_bytes)
    except DeviceError as error:
        raise UnsafeProgramError(f"{model}: {error}") from None
    print(
        f"{model}: {done.instructions:,} instructions in {done.pieces} pieces between branches: nothing is wrong"
    )
    if done.data_dependent:
        places = ", ".join(str(offset) for offset in done.data_dependent[:8])
        more = f" and {len(done.data_dependent) - 8} more" if len(done.data_dependent) > 8 else ""
        print(
            f"Addresses come from memory at program counter {places}{more}: they stay inside the activation memory, "
            "but their order was checked for the program's own data only"
        )
