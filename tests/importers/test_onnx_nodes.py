"""ONNX's own node tests: import, golden, and the expected outputs within the tests' own tolerance."""

import pytest
from onnx_node_cases import cases, differs, run_case
from onnx_node_exceptions import reason_not_to_pass

from tosaic.errors import InputError, ModelError, UnsupportedError

PASSING = sorted(name for name in cases() if reason_not_to_pass(name) is None)


@pytest.mark.parametrize("name", PASSING)
def test_node(name: str) -> None:
    case = cases()[name]
    for result in run_case(name):
        assert differs(result, case.rtol, case.atol) is None


def test_what_is_not_passing_is_refused_in_one_line() -> None:
    """An error of the importer's own, except where the exceptions say that the numbers differ."""
    for name in sorted(set(cases()) - set(PASSING)):
        try:
            run_case(name)
        except (UnsupportedError, ModelError, InputError) as error:
            assert str(error) and "\n" not in str(error), name


def test_most_node_tests_pass() -> None:
    assert len(PASSING) > 0.6 * len(cases())
