"""`tosaic operators`: what of TOSA runs where."""

from tosaic.cli import options


def operators(verbose: options.Verbose = False) -> None:
    """Print which operators and modes of TOSA golden computes and the accelerator runs, in Markdown."""
    from tosaic.driver.operator_table import operators_markdown

    print(operators_markdown(), end="")
