"""The HTML report of a run: one self-contained file that opens offline."""

from .page import write_report

__all__ = ["write_report"]
