"""The HTML report of a run, and of two runs side by side: one self-contained file each that opens offline.

Comes in: a session that has run, or statistics that `tosaic run --stats` wrote. Goes out: a page, by the templates in
`templates/` and the frame in `tosaic.driver.pages`, which all pages share. May import the session, never the reverse.
"""

from .comparison import RunComparison, compare_runs, write_comparison
from .page import RunReport, run_facts, write_report
from .saved_run import SavedRun, read_run, write_run

__all__ = [
    "RunComparison",
    "RunReport",
    "SavedRun",
    "compare_runs",
    "read_run",
    "write_comparison",
    "run_facts",
    "write_report",
    "write_run",
]
