"""The judge: what other people's programs make of TOSA graphs, against golden.

`sources` makes cases, `consumers` computes them, `outcome` compares, `minimize` finds the smallest part that shows a
difference, `judging` does all that as jobs, `reproducer` and `page` write what came of it.
"""

from .case import JudgeCase, read_case
from .consumers import MADE as CONSUMERS
from .consumers import consumer_of
from .judging import LIMIT_SECONDS, Judged, judge, judge_all, versions_of
from .outcome import JudgeOutcome, JudgeVerdict
from .page import counts_table, kind_line, write_page
from .reproducer import kinds, write_reproducers
from .sources import CaseSource, find_sources

__all__ = [
    "CONSUMERS",
    "LIMIT_SECONDS",
    "JudgeCase",
    "Judged",
    "JudgeOutcome",
    "CaseSource",
    "JudgeVerdict",
    "consumer_of",
    "counts_table",
    "find_sources",
    "judge",
    "judge_all",
    "kind_line",
    "kinds",
    "read_case",
    "versions_of",
    "write_page",
    "write_reproducers",
]
