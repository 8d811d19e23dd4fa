"""TOSA's generated conformance suite on a target: find the tests, bake what they should give, run, compare, report."""

from .bake import bake
from .case import ConformanceCase, find_cases
from .choose import choose
from .execute import run_cases
from .junit import write_junit
from .page import write_page
from .result import Result, Verdict
from .table import markdown_table, reason_counts

__all__ = [
    "ConformanceCase",
    "Result",
    "Verdict",
    "bake",
    "choose",
    "find_cases",
    "markdown_table",
    "reason_counts",
    "run_cases",
    "write_junit",
    "write_page",
]
