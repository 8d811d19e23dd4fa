"""Faults planted in passes of the compiler itself: the certificate of a graph that it then compiles shows each."""

import pytest
from faulty_compiler import GRAPHS, SEEN, Fault, read_table, source, verdict

import tosaic

FAULTS = read_table()


@pytest.mark.parametrize("name", GRAPHS)
def test_without_a_fault_they_are_equal(name: str) -> None:
    assert tosaic.certify(GRAPHS[name](), config="nano", keyed=False).verdict == "EQUAL"


def test_there_are_faults() -> None:
    gone = [fault[:2] for fault, _ in FAULTS if source(fault) is None]
    assert not gone, "PYTHONPATH=tests/compiler python tests/certify/faulty_compiler.py 40 draws others"
    assert len(FAULTS) >= 40


@pytest.mark.parametrize(
    ("fault", "graph"),
    [
        pytest.param(*row, id=f"{number}", marks=[pytest.mark.nightly] * (number % 10 > 0))
        for number, row in enumerate(FAULTS)
    ],
)
def test_the_certificate_shows_it(fault: Fault, graph: str) -> None:
    assert verdict(fault, graph) == SEEN
