"""Cycles and utilization of networks beside those of other accelerators."""

from .anchors import Anchor, anchors_of
from .measure import Compiled, MemorySetting, Row, measurement, network_name, row_of
from .tables import csv_text, markdown_table, plot_svg

__all__ = [
    "Anchor",
    "Compiled",
    "MemorySetting",
    "Row",
    "anchors_of",
    "csv_text",
    "markdown_table",
    "measurement",
    "network_name",
    "plot_svg",
    "row_of",
]
