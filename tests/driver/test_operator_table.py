"""docs/operators.md is what the code does, and every example in it that runs is right."""

import functools
import pathlib

import pytest

from tosaic.compiler.ir import validate
from tosaic.compiler.ir.examples import Example, examples, inputs_of
from tosaic.compiler.ir.operators import OPERATORS
from tosaic.driver.operator_table import accelerator_verdict, operators_markdown
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

ROOT = pathlib.Path(__file__).resolve().parents[2]
INTEGER = [example for example in examples() if example.mode and not example.mode.is_float]
BASE = get_config("base")


@functools.cache
def page() -> str:
    """Compiles every example, which no collection of tests need wait for."""
    return operators_markdown()


def test_the_committed_page_is_current() -> None:
    assert (ROOT / "docs" / "operators.md").read_text() == page(), (
        "regenerate: tosaic operators > docs/operators.md"
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_on_the_page(name: str) -> None:
    assert name in page()
    clause = OPERATORS[name].clause
    assert (
        not clause or f"| {name} | {clause} |" in page() or not OPERATORS[name].operands or name == "CUSTOM"
    )


def _label(example: Example) -> str:
    return f"{example.spec.name} {example.mode} {example.label}"


@pytest.mark.parametrize("example", INTEGER, ids=_label)
def test_integer_examples_are_legal_and_golden_computes_them(example: Example) -> None:
    validate(example.graph)
    outputs = evaluate(example.graph, inputs_of(example.graph))
    assert set(outputs) == set(example.graph.outputs)


@pytest.mark.parametrize("name", sorted({example.spec.name for example in INTEGER}))
def test_what_the_page_says_runs_is_bit_exact(name: str) -> None:
    for example in INTEGER:
        if example.spec.name == name and not accelerator_verdict(example, BASE).startswith("no: "):
            Session(example.graph, "emulator", BASE).run(inputs_of(example.graph), check=True)
