"""The bundle to send back."""

import dataclasses
import io
import json
import pathlib
import zipfile

import numpy as np

from ..bundle import made_by
from .kit import BringUpReport

LOG, FIGURES = "bring-up.log", "bring-up.json"


def log_lines(report: BringUpReport) -> list[str]:
    """What was printed."""
    lines = [f"{report.device}, configuration {report.config}"]
    lines += [f"{'ok' if step.ok else 'FAULT':5} {step.name}: {step.told}" for step in report.steps]
    return lines


def write_report(path: pathlib.Path, report: BringUpReport) -> None:
    """A ZIP file with the log, what the board says it is, versions, and the bytes of a program that went wrong."""
    figures = {
        "device": report.device,
        "config": report.config,
        "fault": report.fault.name if report.fault else None,
        "detail": report.detail,
        "board": report.facts,
        "steps": [dataclasses.asdict(step) for step in report.steps],
        "made_by": made_by(),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(LOG, "\n".join([*log_lines(report), ""]))
        archive.writestr(FIGURES, json.dumps(figures, indent=1))
        for name, array in report.arrays.items():
            stream = io.BytesIO()
            np.lib.format.write_array(stream, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", stream.getvalue())
