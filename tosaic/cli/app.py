"""The command line's frame: verbs, version, and errors as one line with an exit code."""

import sys
import traceback
from typing import Annotated

import typer

from tosaic.cli import check, compile, configs, demo, run, verilog

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)
app.command("run")(run.run)
app.command("compile")(compile.compile_)
app.command("check")(check.check)
app.command("configs")(configs.configs)
app.command("verilog")(verilog.verilog)
app.command("demo")(demo.demo)


def _version(wanted: bool) -> None:
    if wanted:
        import tosaic

        print(f"tosaic {tosaic.__version__}")
        raise typer.Exit


@app.callback()
def _frame(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run neural networks on the Tosaic NPU: golden model, emulator, Verilated RTL."""


def main() -> None:
    """Entry point: exit codes 0 ok, 1 user error, 2 usage, 3 mismatch, 4 device fault."""
    from tosaic.compiler.ir.errors import Error

    try:
        app()
    except Error as error:
        if "--verbose" in sys.argv:
            traceback.print_exc()
        print(f"tosaic: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
