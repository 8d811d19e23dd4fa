"""The 158 kinds of layers: since when, how many inputs and outputs, what becomes of them. `layers.csv` is the table."""

import csv
import pathlib
from dataclasses import dataclass

from tosaic.compiler.importers.coreml.node import CoreMlNode
from tosaic.compiler.importers.survey import LoweringForm

Range = tuple[int, int | None]


@dataclass(frozen=True)
class LayerKind:
    """One row. `since` is the first specification version (1: there before 4); a range ends with None when open."""

    kind: str
    since: int
    inputs: Range
    outputs: Range
    form: LoweringForm
    note: str

    def check_arity(self, node: CoreMlNode) -> None:
        """Raises ModelError unless a layer has as many inputs and outputs as its kind."""
        for what, names, (least, most) in (
            ("inputs", node.input_names, self.inputs),
            ("outputs", node.output_names, self.outputs),
        ):
            if len(names) < least or most is not None and len(names) > most:
                wanted = f"{least}" if least == most else f"{least} to {most}" if most else f"{least} or more"
                node.wrong(f"it has {len(names)} {what}, not {wanted}")


def _range(text: str) -> Range:
    least, dash, most = text.partition("-")
    return int(least), (int(most) if most else None) if dash else int(least)


def _read() -> dict[str, LayerKind]:
    with (pathlib.Path(__file__).parent / "layers.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {
        row["kind"]: LayerKind(
            row["kind"],
            int(row["since"]),
            _range(row["inputs"]),
            _range(row["outputs"]),
            LoweringForm(row["form"]),
            row["tosa"],
        )
        for row in rows
    }


LAYERS: dict[str, LayerKind] = _read()
"""Rows by the layer's field name, in the order of the specification's text."""


def layers_markdown() -> str:
    """The table for the documentation."""
    lines = ["| layer | since | in TOSA | |", "|---|---|---|---|"]
    for row in LAYERS.values():
        lines.append(f"| {row.kind} | {row.since} | {row.form} | {row.note} |")
    return "\n".join(lines) + "\n"
