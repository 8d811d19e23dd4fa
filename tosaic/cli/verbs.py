"""The verbs: which function of which file each one is. A file is imported when its verb is called, or listed."""

import importlib
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

VERBS = {
    "run": ("tosaic.cli.run", "run"),
    "compile": ("tosaic.cli.compile", "compile_"),
    "check": ("tosaic.cli.check", "check"),
    "c-kit": ("tosaic.cli.c_kit", "c_kit"),
    "verify": ("tosaic.cli.verify", "verify"),
    "certify": ("tosaic.cli.certify", "certify"),
    "check-certificate": ("tosaic.cli.certify", "check_certificate"),
    "import": ("tosaic.cli.import_", "import_"),
    "quantize": ("tosaic.cli.quantize", "quantize"),
    "evaluate": ("tosaic.cli.evaluate", "evaluate"),
    "conformance": ("tosaic.cli.conformance", "conformance"),
    "operators": ("tosaic.cli.operators", "operators"),
    "configs": ("tosaic.cli.configs", "configs"),
    "report": ("tosaic.cli.report", "report"),
    "bench": ("tosaic.cli.bench", "bench"),
    "explore": ("tosaic.cli.explore", "explore"),
    "serve": ("tosaic.cli.serve", "serve"),
    "boards": ("tosaic.cli.boards", "boards"),
    "build": ("tosaic.cli.build", "build"),
    "boot-image": ("tosaic.cli.boot_image", "boot_image"),
    "verilog": ("tosaic.cli.verilog", "verilog"),
    "demo": ("tosaic.cli.demo", "demo"),
    "nnr": ("tosaic.cli.nnr", "app"),
}
"""The module of a verb, and in it the function, or the `typer.Typer` of a verb that has verbs of its own."""


class LazyVerbs(TyperGroup):
    """The group of all verbs, in the order of `VERBS`."""

    # Typer's own types are those of click, or of its copy of click in newer releases.
    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a verb; None if there is no such verb."""
        if cmd_name not in self.commands:
            if cmd_name not in VERBS:
                return None
            self.commands[cmd_name] = _command(cmd_name)
        return self.commands[cmd_name]


class ValueOrNone(TyperCommand):
    """A command whose `--check-source` may have a value behind an equals sign."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses as any command does, but `--check-source` may stand alone or have a value."""
        name = "--check-source"
        parted = [
            part
            for each in args
            for part in ((name, each.replace("=", "-db=", 1)) if each.startswith(f"{name}=") else (each,))
        ]
        return super().parse_args(ctx, parted)


def _command(verb: str) -> Any:
    module, name = VERBS[verb]
    found = getattr(importlib.import_module(module), name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(verb, cls=ValueOrNone)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = verb
    return command
