"""`tosaic verify`: a program is checked on every path, without inputs."""

from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph
from tosaic.driver.configuration import find_config
from tosaic.driver.models import open_model
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
    """Check a program on every path, whatever its data: tokens, order of accesses, bounds, micro-operations, that what
    it reads was written, and that loops have an exit.

    Exit 1 with the first instruction at fault.
    """
    from tosaic.driver.verification import verify_program

    opened = open_model(model, options.bindings(shape, value))
    if isinstance(opened, Graph):
        program = compile_graph(opened, find_config(options.sized(config or DEFAULT_CONFIG, sizes)))
    else:
        program = opened
    try:
        done = verify_program(program)
    except DeviceError as error:
        raise UnsafeProgramError(f"{model}: {error}") from None
    except UnsupportedError as error:
        raise UnsupportedError(f"{model}: {error}") from None
    print(
        f"{model}: {done.instructions:,} instructions in {done.pieces} pieces between branches: nothing is wrong"
    )
    if done.data_dependent:
        print(
            f"Addresses come from memory at program counter {_listed(done.data_dependent)}: they stay inside the "
            "activation memory, but their order, and that something was written there, were checked for the program's "
            "own data only"
        )
    if done.data_loops:
        print(
            f"Loops that end when data say so begin at program counter {_listed(done.data_loops)}: a run on data that "
            "never do is ended by --max-cycles"
        )


def _listed(offsets: tuple[int, ...]) -> str:
    """The first few of them."""
    more = f" and {len(offsets) - 8} more" if len(offsets) > 8 else ""
    return ", ".join(str(offset) for offset in offsets[:8]) + more
