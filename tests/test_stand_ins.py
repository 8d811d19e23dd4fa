"""Tests stand on what users and other stages see: few objects in place of the product's classes, few private names."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

import stand_ins  # noqa: E402 (the path comes first)


def test_tests_keep_the_limits(capsys: pytest.CaptureFixture[str]) -> None:
    """`python bench/stand_ins.py` tells them by file: 20 stand-ins at most, and 60 private names."""
    assert (stand_ins.MOST_STAND_INS, stand_ins.MOST_PRIVATE) == (20, 60)
    over = stand_ins.main()
    assert not over, capsys.readouterr().out


@pytest.mark.parametrize(
    "source, found",
    [
        ("import types\nx = types.SimpleNamespace(a=1)", (1, 0)),
        ("from types import SimpleNamespace as Plan\nx = Plan(a=1)", (1, 0)),
        ("x = object.__new__(Layer)", (1, 0)),
        ("x = Layer.__new__(Layer)", (1, 0)),
        ("from unittest.mock import MagicMock\nx = MagicMock(spec=Layer)", (1, 0)),
        ("x = namedtuple('Plan', 'rows')(3)", (1, 0)),
        ("class Own:\n    def __new__(cls):\n        return super().__new__(cls)", (0, 0)),
        ("from tosaic.compiler.emit.turn import _pieces, emit_turn", (0, 1)),
        ("x = emission._parts()", (0, 1)),
        ("monkeypatch.setattr(emission, '_parts', None)", (0, 1)),
        ("monkeypatch.setattr('tosaic.driver.device._loaded', None)", (0, 1)),
        ("class Own:\n    def _step(self): ...\nOwn()._step()", (0, 0)),
        ("class Own:\n    def step(self):\n        self._step()", (0, 0)),
        ("import os\nos._exit(x._replace(a=1))", (0, 0)),
    ],
)
def test_what_is_counted(source: str, found: tuple[int, int], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(source)
    assert stand_ins.counts(path) == found
