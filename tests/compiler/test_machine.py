"""The table of what runs how, and what the stages register for it."""

from tosaic.compiler.fuse.translate import translated
from tosaic.compiler.ir import OPERATORS
from tosaic.compiler.machine import KIND, Kind, operators_of


def test_every_elementwise_operator_has_a_translation_and_no_other_has_one() -> None:
    assert translated() == operators_of(Kind.ELEMENTWISE)


def test_every_kind_is_of_tosa_operators() -> None:
    assert KIND.keys() <= OPERATORS.keys()
    assert set(KIND.values()) == set(Kind)
