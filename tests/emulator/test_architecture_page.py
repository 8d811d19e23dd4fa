"""docs/architecture.md shows the timeline that the emulator predicts."""

import pathlib
import re

import numpy as np
from timing_diagram import diagram

import tosaic

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_timing_diagram_is_that_of_a_run() -> None:
    session = tosaic.Session(ROOT / "examples" / "digits" / "digits_tiny.tosa", "emulator", "base")
    session.run({"image": np.zeros((1, 8, 8, 1), np.int8)})
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.M | re.S)
    assert shown.splitlines() == diagram(session.timeline(), session.stats["cycles"])


def test_the_cycles_of_the_first_tile_are_those_of_the_run() -> None:
    session = tosaic.Session(ROOT / "examples" / "digits" / "digits_tiny.tosa", "emulator", "base")
    session.run({"image": np.zeros((1, 8, 8, 1), np.int8)})
    first, second = [piece for piece in session.timeline() if piece.unit == "ARRAY"][:2]
    drain = next(piece for piece in session.timeline() if piece.unit == "VECTOR")
    assert (first.start, first.end - 1, drain.end - 1, second.start) == (137, 184, 210, 228)
    for text in ("127 + 3 + 1 + 6 = 137", "in cycle 184", "195 to 210", "in 224", "in 218", "in cycle 228"):
        assert text in PAGE
