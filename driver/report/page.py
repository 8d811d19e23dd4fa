"""Puts the report of a run together: figures, the worst layers, a table of all, charts."""

import html
import pathlib
from collections.abc import Sequence
from typing import Any

from tosaic.compiler.memory_history import MemoryBlock
from tosaic.driver.digests import file_digests
from tosaic.driver.layer_figures import layer_figures, macs_per_cycle_of, worst_layers
from tosaic.driver.pages import Column, made, render, share_shown
from tosaic.driver.replacing import replacing
from tosaic.driver.run_display import run_cards
from tosaic.driver.session import Session
from tosaic.driver.trace import seen_by
from tosaic.driver.units import unit_figures
from tosaic.hw.config import Config
from tosaic.sim.result import Slice

from .memory_map import memory_map
from .roofline import roofline
from .timeline import timeline_data
from .units import unit_bars

_FRAME_HEIGHT = 640
"""Pixels of a page inside a notebook."""


class RunReport:
    """A page about a session's last run, to save or to look at in a notebook."""

    def __init__(self, title: str, session: Session):
        program = session.program
        self.title = title
        self.html = run_page(
            title,
            session.stats,
            config=session.config,
            timeline=session.timeline(),
            blocks=program.memory_blocks if program else (),
            layer_names=[layer.name for layer in program.layers] if program else (),
            facts=run_facts(session),
        )

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the page; the file appears whole or not at all."""
        with replacing(pathlib.Path(path)) as scratch:
            scratch.write_text(self.html)

    def _repr_html_(self) -> str:
        """The page in a frame, since its style and keys are its own."""
        return (
            f'<iframe title="{html.escape(self.title)}" style="width:100%;height:{_FRAME_HEIGHT}px;border:0" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


def write_report(path: str | pathlib.Path, title: str, session: Session) -> None:
    """Writes the page about the session's last run."""
    RunReport(title, session).save(path)


def run_facts(session: Session) -> dict[str, str]:
    """What a session's run was made by: command, date, versions, digests of model and program."""
    digests = file_digests({"model": session.model})
    if session.program is not None:
        digests["program"] = session.program.sha256
    return made(digests)


def run_page(
    title: str,
    stats: dict[str, Any],
    *,
    config: Config | None = None,
    timeline: Sequence[Slice] = (),
    blocks: Sequence[MemoryBlock] = (),
    layer_names: Sequence[str] = (),
    facts: dict[str, str] | None = None,
) -> str:
    """The page's text, with the charts for which there is something to draw; `layer_names` are the program's, `facts`
    those of `run_facts`."""
    cycles = stats["cycles"] or 0
    peak = macs_per_cycle_of(stats, config)
    layers = layer_figures(stats, peak, timeline)
    counters = stats.get("counters", {})
    unit_cycles = cycles * (config.cores if config else 1)
    figures = unit_figures(counters, unit_cycles, config.word_bytes if config else 0)
    return render(
        __package__,
        "run.html",
        title=title,
        cards=run_cards(stats),
        cycles=cycles,
        layers=layers,
        worst=worst_layers(layers),
        longest=max((layer.cycles for layer in layers), default=1) or 1,
        columns=_columns(bool(timeline)),
        share=share_shown,
        units=unit_bars(figures, unit_cycles),
        counters=counters,
        timeline=timeline_data(stats, timeline) if timeline else None,
        seen_by=seen_by(timeline),
        roofline=roofline(layers, peak, stats["memory_bandwidth"] or 1),
        memory=memory_map(blocks, layer_names, config) if blocks and config else None,
        made=facts or stats.get("made") or made(),
    )


def _columns(timed: bool) -> list[Column]:
    moved = [
        Column("bytes", number=True, wide=True, tip="Moved by LOAD and STORE meanwhile, for whichever layer"),
        Column(
            "beside",
            wide=True,
            tip="Layers that run together with it: ARRAY works for one, VECTOR for the other",
        ),
        Column("limited by", wide=True, tip="The units that are busy for most of the layer's cycles"),
    ]
    return [
        Column("#", number=True),
        Column("layer"),
        Column("operator", wide=True),
        Column("cycles", number=True),
        Column("share", number=True, tip="Of the run's cycles"),
        Column("lost", number=True, wide=True, tip="Cycles beyond those of a full array"),
        Column("MACs", number=True, wide=True),
        Column("utilization", number=True, tip="MACs by those that the array could do in the layer's cycles"),
        *(moved if timed else ()),
    ]
