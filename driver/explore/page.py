"""The page of an exploration: the front as a picture, its points as rows, and the command for the Verilog of each."""

import dataclasses
import pathlib
from collections.abc import Mapping

from tosaic.driver.digests import file_digests
from tosaic.driver.pages import Column, made
from tosaic.driver.pages import write_page as write_template

from .front import front_of
from .picture import picture_of
from .point import Point
from .search import Exploration

REFUSED_SHOWN = 12


@dataclasses.dataclass(frozen=True)
class Told:
    """What the page says beside the points."""

    title: str
    facts: Mapping[str, str]
    best: Point | None
    measured: Mapping[tuple[str, int], str] = dataclasses.field(default_factory=dict)
    """What RTL and synthesis gave, by configuration and bandwidth."""


@dataclasses.dataclass(frozen=True)
class _PageRow:
    figures: tuple[int, ...]
    command: str
    measured: str
    best: bool


def write_page(path: pathlib.Path, found: Exploration, told: Told) -> None:
    """Writes one file that needs nothing else."""
    front = front_of(found.points)
    networks = list(front[0].cycles) if front else []
    names = [pathlib.Path(name).parent.name or pathlib.Path(name).stem for name in networks]
    titles = ["LUT", "FF", "multipliers", "RAM kbit", "B/cycle", *names]
    write_template(
        path,
        __package__,
        "exploration.html",
        title=told.title,
        made=made(file_digests({name: name for name in networks})),
        facts={
            **told.facts,
            "points": f"{len(found.points):,}, {len(front):,} of them on the front",
            "left out": f"{found.too_large:,} machines do not fit, {len(found.refused):,} do not run every network",
        },
        picture=picture_of(found.points, front, told.best),
        columns=[
            *(Column(title, number=True) for title in titles),
            Column("Verilog, and what RTL and synthesis gave"),
        ],
        rows=[_row(each, networks, told) for each in front],
        refused=list(found.refused.items())[:REFUSED_SHOWN],
    )


def verilog_command(point: Point) -> str:
    """Writes the Verilog of a point."""
    return f"tosaic verilog --config {point.config.name} -o verilog/"


def _row(point: Point, networks: list[str], told: Told) -> _PageRow:
    area = point.area
    figures = (
        area.lut,
        area.ff,
        area.dsp,
        area.ram_kbit,
        point.bandwidth,
        *(point.cycles[name] for name in networks),
    )
    measured = told.measured.get((point.config.name, point.bandwidth), "")
    return _PageRow(figures, verilog_command(point), measured, point is told.best)
