"""Cycles and utilization of networks beside those of other accelerators."""

from .anchors import Anchor, anchors_of
from .measure import Row, measure
from .tables import csv_text, markdown_table, plot_svg

__all__ = ["Anchor", "Row", "anchors_of", "csv_text", "markdown_table", "measure", "plot_svg"]
