"""`tosaic dev`: what maintains: checks and proofs of programs, TOSA's suite."""

import typer

from tosaic.cli.verbs import DevVerbs

app = typer.Typer(cls=DevVerbs, add_completion=False, rich_markup_mode=None)


@app.callback()
def _frame() -> None:
    """Check a program on every path, prove that it computes its model, and run TOSA's conformance suite."""
