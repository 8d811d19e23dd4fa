"""Puts the pages of the site together: `python bench/site_pages.py FOLDER`, then mkdocs (`make site`).

Copies docs/ and the pages beside README, lists the decisions, and draws the figures by Tosaic's own report and bench.
"""

import importlib.resources
import pathlib
import re
import shutil
import sys

import numpy as np

import tosaic
from tosaic.driver.bench import Row, plot_svg
from tosaic.driver.pages import render
from tosaic.driver.report.layers import layer_figures
from tosaic.driver.report.memory_map import memory_map
from tosaic.driver.report.roofline import roofline
from tosaic.driver.report.units import unit_bars
from tosaic.driver.units import unit_figures

ROOT = pathlib.Path(__file__).parents[1]
NETWORKS = {
    "ResNet-8": "ic_resnet8",
    "VWW MobileNetV1-0.25": "vww_mobilenet",
    "KWS DS-CNN": "kws_dscnn",
    "AD auto-encoder": "ad_autoencoder",
    "streaming wakeword": "sww_dscnn1d",
    "MobileNetV2-1.0-224": "mbv2_100_224",
}
"""README's names of networks, and those of the anchors."""
_CHART_STYLE = (
    "svg{background:var(--panel)}text{font:12px system-ui,sans-serif;fill:var(--mute)}text.on{fill:var(--on)}"
    "text.dark{fill:var(--ink)}.work{fill:var(--blue)}.stall{fill:var(--red)}.wait{fill:var(--amber)}"
    ".other{fill:var(--sky)}.idle{fill:var(--idle)}"
)


def published_rows() -> list[Row]:
    """The rows of README's table of cycles on `base` at 16 bytes per cycle."""
    rows = []
    for line in (ROOT / "README.md").read_text().splitlines():
        found = re.match(r"\| ([^|(]+) \(([\d,]+)\) \| [\d,]+ \| ([\d,]+) \|", line)
        if found and found[1] in NETWORKS:
            macs, cycles = (int(found[place].replace(",", "")) for place in (2, 3))
            rows.append(Row(NETWORKS[found[1]], "base", 256, "emulator", 16, 50, macs, cycles, 0, 0, True))
    return rows


def draw(folder: pathlib.Path) -> None:
    """The figures of the start page, and the report of the run that they show."""
    (folder / "peers.svg").write_text(plot_svg(published_rows()))
    digits = importlib.resources.files("tosaic.examples") / "digits"
    session = tosaic.Session(str(digits / "digits.tosa"), target="emulator")
    image = np.load(str(digits / "images.npz"))["inputs"][0]
    session.run({session.inputs[0].name: image.reshape(session.inputs[0].shape)}, check=True)
    tosaic.write_report(folder / "report.html", "digits", session)
    stats, config, program = session.stats, session.config, session.program
    assert program is not None
    layers = layer_figures(stats, config.macs_per_cycle, session.timeline())
    charts = {
        "roofline": roofline(layers, config.macs_per_cycle, stats["memory_bandwidth"]),
        "units": unit_bars(
            unit_figures(stats["counters"], stats["cycles"], config.word_bytes), stats["cycles"]
        ),
        "memory": memory_map(program.memory_blocks, [layer.name for layer in program.layers], config),
    }
    for name, chart in charts.items():
        (folder / f"{name}.svg").write_text(picture(name, chart))


def picture(name: str, chart: object) -> str:
    """A chart of the report as a file of its own, with the colours of the light page."""
    text = re.sub(
        r"</?div[^>]*>", "", render("tosaic.driver.report", "picture.html", kind=name, chart=chart)
    ).strip()
    colours = render("tosaic.driver.pages", "page.css").split("}")[0] + "}"
    shapes = render("tosaic.driver.report", "charts.css") + _CHART_STYLE
    return text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1).replace(
        "</svg>", f"<style>{colours}{shapes}</style></svg>"
    )


def main(folder: pathlib.Path) -> None:
    """Makes the folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("site", "ci"))
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text()
        (folder / name).write_text(
            text.replace("](docs/decisions)", "](decisions.md)").replace("](docs/", "](")
        )
    draw(folder / "figures")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
