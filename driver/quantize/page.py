"""The HTML report of a quantization: one self-contained page that opens offline."""

import math
import pathlib

from tosaic.driver.digests import file_digests
from tosaic.driver.pages import Card, Column, decibels, made, write_page

from .measurement import Difference, Measurement
from .prepared import Quantization

_FULL_SCALE_DB = 80.0
_EXACT_DB = 999.0
"""What sorts an exact layer behind all others."""


def write_report(
    path: pathlib.Path,
    files: tuple[pathlib.Path, pathlib.Path],
    quantization: Quantization,
    measurement: Measurement,
    settings: dict[str, str],
) -> None:
    """Writes the page: outputs, encodings, and every layer, the worst first, with SQNR and histogram. `files` are the
    float model, and the one that was made of it."""
    result = quantization.result
    facts = {
        **settings,
        "measured on": measurement.told_samples,
        "operators": f"{len(quantization.source.operators)} float, {len(quantization.graph.operators)} integer",
    }
    layers = sorted([*measurement.layers, *measurement.outputs], key=lambda each: each.sqnr_db)
    write_page(
        path,
        __package__,
        "quantization.html",
        title=files[0].name,
        made=made(file_digests({"float model": files[0], "model": files[1]})),
        cards=_cards(measurement),
        facts=facts,
        encodings={**result.inputs, **result.outputs},
        layers=layers,
        columns=[
            Column("layer"),
            Column("operator", wide=True),
            Column("integers", wide=True),
            Column("SQNR", number=True),
            Column("largest difference", number=True, wide=True),
            Column("clipped", number=True, tip="Share of the float values beyond what the integers can hold"),
            Column("range used", number=True, wide=True, tip="From the smallest to the largest value"),
            Column("values", wide=True, tip="Float values over the range of the integers"),
            Column("", wide=True),
        ],
        decibels=decibels,
        sortable=sortable_decibels,
        share=lambda each: min(max(each.sqnr_db, 0.0), _FULL_SCALE_DB) / _FULL_SCALE_DB,
    )


def sortable_decibels(difference: Difference) -> float:
    """A number that JavaScript can compare."""
    return _EXACT_DB if difference.sqnr_db == math.inf else max(difference.sqnr_db, -_EXACT_DB)


def _cards(measurement: Measurement) -> list[Card]:
    cards = []
    for difference in measurement.outputs:
        note = f"largest difference {difference.largest:.4g}"
        cards.append(Card(f"{difference.name}: SQNR", decibels(difference.sqnr_db), note))
    for name, share in measurement.agreement.items():
        cards.append(Card(f"{name}: same largest element", f"{share:.2%}", measurement.told_samples))
    for name, (before, after) in measurement.accuracy.items():
        cards.append(Card(f"{name}: accuracy", f"{after:.2%} in integers", f"{before:.2%} in floats"))
    return cards
