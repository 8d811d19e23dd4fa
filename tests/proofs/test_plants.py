"""The pieces of RTL that test_planted_faults.py changes are there: a change of them shows at once, not at night."""

import inspect
import textwrap

import pytest
from test_planted_faults import FAULTS


@pytest.mark.parametrize("fault", FAULTS)
def test_the_piece_is_there_once(fault):
    owner, name, piece, changed, _ = FAULTS[fault]
    assert textwrap.dedent(inspect.getsource(getattr(owner, name))).count(piece) == 1
    assert changed != piece
