"""Processor time of a measurement: wall-clock says little on a machine that does other work."""

import resource


def cpu_seconds() -> float:
    """User and system time of this process and its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
