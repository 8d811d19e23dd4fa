"""The HTML report of a quantization: one self-contained page that opens offline."""

import html
import math
import pathlib

from tosaic.compiler.quantizer import Encoding
from tosaic.driver.page_style import STYLE
from tosaic.driver.replacing import replacing

from .measurement import Difference, Measurement
from .quantization import Quantization

_FULL_SCALE_DB = 80.0


def write_page(
    path: pathlib.Path,
    title: str,
    quantization: Quantization,
    measurement: Measurement,
    settings: dict[str, str],
) -> None:
    """Writes the page: outputs, encodings, and every layer's SQNR as a bar."""
    facts = {
        **settings,
        "measured on": measurement.told_samples,
        "operators": f"{len(quantization.source.operators)} float, {len(quantization.graph.operators)} integer",
    }
    for difference in measurement.outputs:
        facts[f"{difference.name}: SQNR"] = decibels(difference.sqnr_db)
        facts[f"{difference.name}: largest difference"] = f"{difference.largest:.4g}"
    for name, share in measurement.agreement.items():
        facts[f"{name}: same largest element"] = f"{share:.2%}"
    for name, (before, after) in measurement.accuracy.items():
        facts[f"{name}: accuracy"] = f"{before:.2%} in floats, {after:.2%} in integers"
    items = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items())
    result = quantization.result
    parts = [
        f"<h1>{html.escape(title)}, quantized</h1><dl>{items}</dl>",
        "<h2>Inputs and outputs</h2><p>real = scale × (integer − zero point)</p>",
        _encodings({**result.inputs, **result.outputs}),
        "<h2>Layers</h2><p>Signal to quantization noise ratio against the float graph, errors of the layers before "
        "included. What a table computes has one row.</p>",
        _layers([*measurement.layers, *measurement.outputs]),
    ]
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Tosaic: {html.escape(title)}</title>"
        f"<style>{STYLE}</style>{''.join(parts)}</html>\n"
    )
    with replacing(path) as scratch:
        scratch.write_text(text)


def decibels(value: float) -> str:
    """A ratio for people."""
    return "exact" if value == math.inf else f"{value:.1f} dB"


def _encodings(encodings: dict[str, Encoding]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{e.dtype.name.lower()}</td><td class=n>{e.scale:.6g}</td>"
        f"<td class=n>{e.zero_point}</td></tr>"
        for name, e in encodings.items()
    )
    return (
        "<table><thead><tr><th>tensor</th><th>type</th><th class=n>scale</th><th class=n>zero point</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _layers(layers: list[Difference]) -> str:
    rows = []
    for layer in layers:
        width = 100 * min(max(layer.sqnr_db, 0.0), _FULL_SCALE_DB) / _FULL_SCALE_DB
        rows.append(
            f"<tr><td>{html.escape(layer.shown)}</td><td>{layer.op}</td><td>{layer.integers}</td>"
            f"<td class=n>{decibels(layer.sqnr_db)}</td><td class=n>{layer.largest:.3g}</td>"
            f"<td style='width:30%'><div class=track><div class=bar style='width:{width:.1f}%'></div></div></td></tr>"
        )
    return (
        "<table><thead><tr><th>layer</th><th>operator</th><th>integers</th><th class=n>SQNR</th>"
        f"<th class=n>largest difference</th><th></th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
