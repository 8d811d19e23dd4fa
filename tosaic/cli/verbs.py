"""The verbs: which function of which file each one is. A file is imported when its verb is called, or listed."""

import dataclasses
import gc
import importlib
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption


@dataclasses.dataclass(frozen=True)
class Verb:
    """A verb: where it is, and what helps tell of it without importing it."""

    module: str
    function: str
    """Name of the function in the module, or of the `typer.Typer` of a verb that has verbs of its own."""
    help: str
    """A few words for the list of all verbs."""
    examples: tuple[str, ...]
    """Command lines for its help."""


GROUPS: dict[str, dict[str, Verb]] = {
    "Run": {
        "demo": Verb(
            "tosaic.cli.demo", "demo", "A trained network on real images", ("tosaic demo --on emulator",)
        ),
        "check": Verb(
            "tosaic.cli.check",
            "check",
            "What of a model runs, and how fast it will be",
            ("tosaic check net.onnx", "tosaic check net.tosa --config small"),
        ),
        "quantize": Verb(
            "tosaic.cli.quantize",
            "quantize",
            "A float model to integers, measured on your samples",
            (
                "tosaic quantize net.onnx -c calib.npz -o net.tosa",
                "tosaic quantize net.onnx -c calib.npz -o net.tosa --target-sqnr 30 --report quantized.html",
            ),
        ),
        "run": Verb(
            "tosaic.cli.run",
            "run",
            "Run a model; print outputs, cycles, utilization",
            (
                "tosaic run net.tosa --random 1 --check",
                "tosaic run net.tosa -i image=x.npy -o out/ --report report.html",
                "tosaic run net.tosa --random 1 --on sim --config nano --wave net.vcd --wave-cycles 0:2000",
            ),
        ),
        "evaluate": Verb(
            "tosaic.cli.evaluate",
            "evaluate",
            "Accuracy on a data set, beside the float model's",
            ("tosaic evaluate net.tosa --data test.npz --against net.onnx",),
        ),
        "compile": Verb(
            "tosaic.cli.compile",
            "compile_",
            "A program file, or C for a host",
            ("tosaic compile net.tosa --config small -o net.tsc", "tosaic compile net.tosa -o net.c"),
        ),
        "import": Verb(
            "tosaic.cli.import_",
            "import_",
            "A model to TOSA, with its own element types",
            ("tosaic import net.onnx -o net.tosa",),
        ),
    },
    "Hardware": {
        "targets": Verb(
            "tosaic.cli.targets",
            "targets",
            "What a network runs on: configurations, boards",
            ("tosaic targets", "tosaic targets ulx3s-85f"),
        ),
        "build": Verb(
            "tosaic.cli.build",
            "build",
            "A bitstream for a board",
            ("tosaic build icebreaker -o board/", "tosaic build arty-a7-35t --boot net.tosa -o board/"),
        ),
        "verilog": Verb(
            "tosaic.cli.verilog",
            "verilog",
            "Verilog with register map and testbench",
            (
                "tosaic verilog --config small -o out/",
                "tosaic verilog --config nano --network net.tosa -o out/",
            ),
        ),
        "bring-up": Verb(
            "tosaic.cli.bring_up",
            "bring_up",
            "Test a board step by step; each fault has a name",
            ("tosaic bring-up icebreaker --on serial:///dev/ttyUSB1?baud=500000 --bundle board.zip",),
        ),
        "silicon": Verb(
            "tosaic.cli.silicon",
            "silicon",
            "Area, clock and energy of a chip, before layout",
            ("tosaic silicon --liberty cells.lib --config nano --network net.tosa -o chip/",),
        ),
        "serve": Verb(
            "tosaic.cli.serve",
            "serve",
            "Share a board over the network",
            ("tosaic serve serial:///dev/ttyUSB1",),
        ),
        "c-kit": Verb(
            "tosaic.cli.c_kit",
            "c_kit",
            "Headers and a library for programs in C",
            ("tosaic c-kit -o kit --simulator nano",),
        ),
    },
    "Study": {
        "report": Verb(
            "tosaic.cli.report",
            "report",
            "A page of one run, or of two side by side",
            ("tosaic report a.json b.json -o compared.html",),
        ),
        "bench": Verb(
            "tosaic.cli.bench",
            "bench",
            "Cycles of networks beside published ones",
            ("tosaic bench net.tosa",),
        ),
        "explore": Verb(
            "tosaic.cli.explore",
            "explore",
            "The machines that suit a network and a part",
            ("tosaic explore net.tosa --part ecp5-45f --points 40 --report front.html",),
        ),
        "playground": Verb(
            "tosaic.cli.playground",
            "playground",
            "A page that runs networks on the RTL",
            (
                "tosaic playground -o out/ digits --config nano --single",
                "tosaic playground -o out/ net.tosa=samples.npz",
            ),
        ),
        "operators": Verb(
            "tosaic.cli.operators", "operators", "Operators and modes of TOSA that run", ("tosaic operators",)
        ),
        "nnr": Verb(
            "tosaic.cli.nnr",
            "app",
            "Compressed weights (ISO/IEC 15938-17)",
            ("tosaic nnr encode net.onnx -o net.nnr", "tosaic nnr inspect net.nnr"),
        ),
    },
    "Maintain": {
        "dev": Verb(
            "tosaic.cli.dev",
            "app",
            "Programs checked and proved, TOSA's suite, a judge",
            ("tosaic dev verify net.tsc", "tosaic dev conformance suite/ --on emulator"),
        ),
    },
}
"""The verbs by what one wants to do; in a group those first that a user needs first."""
VERBS: dict[str, Verb] = {name: verb for group in GROUPS.values() for name, verb in group.items()}
DEV: dict[str, Verb] = {
    "verify": Verb(
        "tosaic.cli.verify",
        "verify",
        "A program is safe on every path, whatever its data",
        ("tosaic dev verify net.tsc",),
    ),
    "certify": Verb(
        "tosaic.cli.certify",
        "certify",
        "A program computes its model for all inputs",
        ("tosaic dev certify net.tosa --config nano",),
    ),
    "check-certificate": Verb(
        "tosaic.cli.certify",
        "check_certificate",
        "A certificate still holds",
        ("tosaic dev check-certificate net.certificate.json net.tosa",),
    ),
    "conformance": Verb(
        "tosaic.cli.conformance",
        "conformance",
        "TOSA's conformance suite, bit for bit",
        ("tosaic dev conformance suite/ --on emulator",),
    ),
    "judge": Verb(
        "tosaic.cli.judge",
        "judge",
        "What other programs make of TOSA graphs",
        (
            "tosaic dev judge random:1000 --on cmd:./mine --failures out/",
            "tosaic dev judge suite/ --on reference-model --on iree -j 2 --records judged.jsonl",
        ),
    ),
}
"""The verbs of `tosaic dev`."""
HIDDEN: dict[str, Verb] = {
    **DEV,
    "boards": Verb("tosaic.cli.targets", "boards", "The boards of `tosaic targets`", ("tosaic boards",)),
    "boot-image": Verb(
        "tosaic.cli.boot_image",
        "boot_image",
        "What a board starts a network from by itself",
        ("tosaic boot-image net.tosa --board tangnano20k -o boot.bin",),
    ),
    "configs": Verb(
        "tosaic.cli.targets", "configs", "The configurations of `tosaic targets`", ("tosaic configs",)
    ),
}
"""Earlier spellings, which stay valid; help lists the verbs that have taken their place."""


class LazyVerbs(TyperGroup):
    """The group of all verbs. Its help imports none of them."""

    groups = GROUPS
    """What help lists."""
    spellings = VERBS | HIDDEN
    """What is understood."""

    # Typer's own types are those of click, or of its copy of click in newer releases.
    def list_commands(self, ctx: Any) -> list[str]:
        return [name for verbs in self.groups.values() for name in verbs]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a verb; None if there is no such verb."""
        if cmd_name not in self.commands:
            if cmd_name not in self.spellings:
                return None
            self.commands[cmd_name] = _command(cmd_name, self.spellings[cmd_name])
        return self.commands[cmd_name]

    def get_params(self, ctx: Any) -> Any:
        """The options, of which help shows those that people look for."""
        found = super().get_params(ctx)
        for each in found:
            if isinstance(each, TyperOption) and each.name == "show_completion":
                each.hidden = True
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes a line for each verb, by groups."""
        for title, verbs in self.groups.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<17}", verb.help) for name, verb in verbs.items()])


class DevVerbs(LazyVerbs):
    """The verbs of `tosaic dev`."""

    groups = {"Maintain": DEV}
    spellings = DEV


class VerbCommand(TyperCommand):
    """A command with examples in its help, and whose `--check-source` may have a value behind an equals sign."""

    examples: tuple[str, ...] = ()

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"  {line}\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses as any command does, but `--check-source` may stand alone or have a value."""
        name = "--check-source"
        parted = [
            part
            for each in args
            for part in ((name, each.replace("=", "-db=", 1)) if each.startswith(f"{name}=") else (each,))
        ]
        return super().parse_args(ctx, parted)


def _imported(module: str) -> Any:
    """A module. The garbage collector does not walk through what hundreds of modules define, neither now nor later."""
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _command(name: str, verb: Verb) -> Any:
    found = getattr(_imported(verb.module), verb.function)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, cls=VerbCommand)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    if isinstance(command, VerbCommand):
        command.examples = verb.examples
    return command
