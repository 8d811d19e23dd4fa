"""A stranger's first hour with a board: steps with known answers, and for each fault a name, a meaning and a way out.

In comes a function that opens a device; out comes a report, which a bundle holds for whoever helps."""

from .faults import FAULTS, BoardFault
from .kit import BringUpReport, StepResult, bring_up
from .report_file import write_report

__all__ = ["FAULTS", "BoardFault", "BringUpReport", "StepResult", "bring_up", "write_report"]
