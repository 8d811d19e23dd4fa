"""NumPy's rules by type, random programs, and what the intervals prove: against the installed NumPy."""

import itertools

import numpy as np
import pytest
from numpy_cases import judge, matrix, of_steps, programs
from numpy_jobs import cases_job, judge_cases

import tosaic


@pytest.mark.long
def test_a_slice_of_the_type_matrix():
    """Every 23rd case, another slice of each kind of function; the nightly judges all of several seeds."""
    found = {case.label: judge(case) for case in itertools.islice(matrix(11), 5, None, 23)}
    assert {label: verdict.text for label, verdict in found.items() if verdict.kind == "WRONG"} == {}
    assert sum(verdict.kind == "exact" for verdict in found.values()) > 130


@pytest.mark.long
def test_random_programs():
    found = {case.label: judge(case) for case in programs(12, 8)}
    assert {label: verdict.text for label, verdict in found.items() if verdict.kind != "exact"} == {}


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(8))
def test_the_type_matrix(part):
    """Three seeds, more than 11,000 cases in all."""
    cases = itertools.islice(itertools.chain(*(matrix(seed) for seed in (1, 2, 3))), part, None, 8)
    wrong = {case.label: verdict.text for case in cases if (verdict := judge(case)).kind == "WRONG"}
    assert wrong == {}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 108))
def test_many_random_programs(seed):
    """2,000 in all; every tenth also on the RTL."""
    for number, case in enumerate(programs(seed, 250)):
        targets = ("golden", "emulator", "sim") if number % 10 == 0 else ("golden", "emulator")
        verdict = judge(case, targets)
        assert verdict.kind == "exact", (case.label, verdict.text)


def test_the_campaign_counts_its_cases():
    assert judge_cases(cases_job("programs", 14, 3, 2, 0)).result == {
        "tally": {"exact": 2, "on the RTL": 0},
        "wrong": {},
    }


def test_a_program_without_some_of_its_steps_is_a_program():
    (case,) = programs(17, 1)
    assert judge(of_steps(17, 0, case.steps[1::2])).kind == "exact"


def test_a_wrong_rule_would_be_found():
    """The judge itself: a function that is not the same for traced arrays as for NumPy's is not exact."""

    def lying(x):
        return np.minimum(x, 3) if type(x) is np.ndarray else np.maximum(x, 3)

    cases = [case for case in programs(13, 1)]
    verdict = judge(type(cases[0])("lying", lying, [np.arange(6, dtype=np.int8)]))
    assert (verdict.kind, verdict.text) == ("WRONG", "y0 is not in 3..127")


@pytest.mark.parametrize("bad", [np.float32, np.int64, np.uint64, complex])
def test_types_that_no_tensor_has(bad):
    with pytest.raises(
        tosaic.InputError, match=r"argument 'x' is \w+: the accelerator takes bool, and integers of 8 to"
    ):
        tosaic.trace(lambda x: x, x=((3,), bad))
