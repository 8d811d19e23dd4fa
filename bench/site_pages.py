"""Puts the pages of the site together: `python bench/site_pages.py FOLDER`, then mkdocs (`make site`).

Copies docs/ and the pages beside README, draws the figures by Tosaic's own report and bench, and writes the
playground. With `--figures` it draws the charts of docs/figures and nothing else.
"""

import importlib.resources
import pathlib
import re
import shutil
import sys

import numpy as np

import tosaic
from tosaic.driver.bench import Row, plot_svg
from tosaic.driver.layer_figures import layer_figures
from tosaic.driver.pages import render
from tosaic.driver.playground import chat_demo, digits_demo, write_single
from tosaic.driver.report.roofline import roofline
from tosaic.driver.report.units import unit_bars
from tosaic.driver.units import unit_figures
from tosaic.hw.config import CONFIGS

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
    """Draws the figures of the start page and the tutorial, and writes the report of the run that they show."""
    (folder / "peers.svg").write_text(plot_svg(published_rows()))
    session = _run()
    tosaic.write_report(folder / "report.html", "digits", session)
    stats, config = session.stats, session.config
    layers = layer_figures(stats, config.macs_per_cycle, session.timeline())
    charts = {
        "roofline": roofline(layers, config.macs_per_cycle, stats["memory_bandwidth"]),
        "units": _units(session),
        "units_slow": _units(_run(memory_bandwidth=2)),
    }
    for name, chart in charts.items():
        (folder / f"{name}.svg").write_text(picture(name.partition("_")[0], chart))


def _run(**options: int) -> tosaic.Session:
    """The digits network after a run on the emulator."""
    digits = importlib.resources.files("tosaic.examples") / "digits"
    session = tosaic.Session(str(digits / "digits.tosa"), target="emulator", **options)
    image = np.load(str(digits / "images.npz"))["inputs"][0]
    session.run({session.inputs[0].name: image.reshape(session.inputs[0].shape)}, check=True)
    return session


def _units(session: tosaic.Session) -> object:
    """The chart of what each unit did in the run."""
    stats = session.stats
    figures = unit_figures(stats["counters"], stats["cycles"], session.config.word_bytes)
    return unit_bars(figures, stats["cycles"])


def picture(name: str, chart: object) -> str:
    """A chart of the report as a file of its own, with the colours of the light page."""
    text = re.sub(
        r"</?div[^>]*>", "", render("tosaic.driver.report", "picture.html", kind=name, chart=chart)
    ).strip()
    colours = dict(
        re.findall(r"(--\w+):\s*([^;}]+)", render("tosaic.driver.pages", "page.css").split("}")[0])
    )
    shapes = render("tosaic.driver.report", "charts.css") + _CHART_STYLE
    # By their values: not every program that shows SVG knows variables.
    style = re.sub(r"var\((--\w+)\)", lambda name: colours.get(name[1], name[0]), shapes)
    return text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1).replace(
        "</svg>", f"<style>{style}</style></svg>"
    )


def copy_pages(folder: pathlib.Path) -> None:
    """Copies docs/ and the pages beside README. Links to files that the site does not have become their text."""
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("site", "ci"))
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text()
        (folder / name).write_text(text.replace("](docs/", "]("))
    for page in folder.rglob("*.md"):

        def kept(link: re.Match[str], page: pathlib.Path = page) -> str:
            target = (page.parent / link[2].partition("#")[0]).resolve()
            inside = target.is_relative_to(folder.resolve())
            return link[0] if inside and (target.exists() or target.name == "report.html") else link[1]

        page.write_text(re.sub(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)", kept, page.read_text()))


def main(folder: pathlib.Path) -> None:
    """Makes the folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    copy_pages(folder)
    draw(folder / "figures")
    machines = [CONFIGS["nano"]]
    write_single(folder, [digits_demo(machines), chat_demo(machines)], machines)


if __name__ == "__main__":
    if sys.argv[1] == "--figures":
        draw(ROOT / "docs/figures")
        (ROOT / "docs/figures/report.html").unlink()
    else:
        main(pathlib.Path(sys.argv[1]))
