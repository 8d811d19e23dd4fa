"""Names the configurations for which `make test` builds the RTL.

Elaborating `small` runs no line of hw/ that `nano` or `base` does not run; `large` has the units of `base`, doubled.
Each is another build, so their tests are for `make nightly`.
"""

import pytest

NIGHTLY = ("small", "large")


def on_rtl(*values):
    """Parameters of a test, first the configuration whose RTL it needs: one worker waits for the build."""
    config = values[0]
    marks = [pytest.mark.xdist_group(config), *([pytest.mark.nightly] if config in NIGHTLY else [])]
    return pytest.param(*values, marks=marks)
