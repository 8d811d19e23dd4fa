"""The nightly's record: what is told of it, and when it fails."""

import datetime
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

from nightly import Pass, Work, changed_since_record, named, run, tell_ages, with_passes  # noqa: E402 (path first)
from nightly_parts import parts  # noqa: E402

HEAD = datetime.date(2026, 11, 28)
ONE, TWO = "tests/rtl/test_a.py::test_one", "tests/rtl/test_a.py::test_two"


def passed(name: str, date: str = "2026-11-28") -> Pass:
    return Pass(name, "0123abcd", date, 1.0)


@pytest.mark.parametrize(
    ("date", "bad", "line"),
    [
        ("2026-11-14", 0, ""),
        ("2026-11-13", 0, f"passed 15 days ago, on 0123abcd: {ONE}\n"),
        ("2026-10-29", 0, f"passed 30 days ago, on 0123abcd: {ONE}\n"),
        ("2026-10-28", 1, f"passed 31 days ago, on 0123abcd: {ONE}\n"),
    ],
)
def test_an_old_pass_is_told_and_then_fails(capsys, date, bad, line):
    assert tell_ages([ONE], {ONE: passed(ONE, date)}, HEAD) == bad
    last = f"1 tests and parts of the nightly: 0 never passed yet, {bad} too old or new\n"
    assert capsys.readouterr().out == line + last


def test_what_never_passed_fails_once_all_of_its_kind_have(capsys):
    names = [ONE, TWO, "zoo/sine"]
    record = with_passes({}, [passed(ONE)], names)
    assert tell_ages(names, record, HEAD) == 0
    assert capsys.readouterr().out.splitlines() == [
        "never passed yet: 1 of tests/rtl/test_a.py",
        "never passed yet: 1 of zoo",
        "3 tests and parts of the nightly: 2 never passed yet, 0 too old or new",
    ]
    record = with_passes(record, [passed(TWO)], names)
    assert list(record) == [ONE, TWO, "complete: tests"]
    new = "tests/ir/test_b.py::test_new"
    assert tell_ages([*names, new], record, HEAD) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"new, and never passed: {new} (make slice runs it)",
        "never passed yet: 1 of zoo",
        "4 tests and parts of the nightly: 1 never passed yet, 1 too old or new",
    ]


def test_a_pass_takes_the_place_of_the_one_before_and_what_is_gone_goes():
    record = with_passes({}, [passed(ONE, "2026-11-01"), passed(TWO)], [ONE, TWO])
    assert with_passes(record, [passed(ONE)], [ONE]) == {
        ONE: passed(ONE),
        "complete: tests": Pass("complete: tests", "0123abcd", "2026-11-28", 0.0),
    }


def test_parts_have_names_of_their_own():
    names = [part.name for part in parts()]
    assert len(names) == len(set(names)) > 100


def test_names_are_taken_in_their_order():
    all_of_it = [Work((name,), "true", ()) for name in (ONE, TWO, "zoo/sine", "zoo/magika", "site")]
    taken = [work.names[0] for work in named(all_of_it, ["zoo/magika", "tests/", "zoo/"])]
    assert taken == ["zoo/magika", ONE, TWO, "zoo/sine"]


def test_what_changed_where_the_history_is_not_whole(capsys):
    """Nothing is called changed, and it is told; with an empty record everything is."""
    assert changed_since_record({ONE: Pass(ONE, "0" * 10, "2026-11-01", 1.0)}) == []
    assert capsys.readouterr().out.startswith("what has changed is not known")
    assert "README.md" in changed_since_record({})


def test_what_cannot_be_installed_fails_by_itself():
    """The rest of the night goes on."""
    assert run(Work(("site",), "true", (), needs=("no-such-target",)), 5) == ([], ["site"])
