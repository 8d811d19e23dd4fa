"""A sample of TOSA's conformance suite: golden, emulator and RTL against the reference model."""

import pytest
from suite_sample import MORE_MODES, generate, sampled_operators

from tosaic.driver.conformance import Verdict, bake, find_cases
from tosaic.driver.conformance.execute import run_case

ON_THE_RTL = 2
"""Number of positive tests of each operator and mode that run on the RTL as well: the first ones."""


def sampled() -> list:
    """Operators and tests of each mode: for every change one where the types are all of a mode."""
    several = [(operator, 2) for operator in MORE_MODES if operator != "rescale"]
    others = [
        operator for operator in sampled_operators() if operator not in MORE_MODES or operator == "rescale"
    ]
    nightly = [pytest.param(operator, 2, marks=pytest.mark.nightly) for operator in others]
    return [*several, *((operator, 1) for operator in others), *nightly]


@pytest.mark.xdist_group("base")
@pytest.mark.parametrize(("operator", "per_mode"), sampled())
def test_sample(operator: str, per_mode: int, tmp_path) -> None:
    generate(operator, tmp_path, per_mode)
    cases = find_cases(tmp_path)
    bake(cases)
    wrong, simulated = [], 0
    for case in cases:
        verdicts = {target: run_case(case, target, "base") for target in ("golden", "emulator")}
        runs = not case.negative and verdicts["emulator"].verdict is Verdict.PASS
        if runs and simulated < ON_THE_RTL * per_mode:
            verdicts["sim"] = run_case(case, "sim", "base")
            simulated += 1
        for target, result in verdicts.items():
            # The accelerator may reject, by name; golden must compute everything.
            if result.fails(allow_unsupported=target != "golden"):
                wrong.append(f"{target}: {case.name}: {result.verdict.value}: {result.reason}")
    assert any(case.negative for case in cases) or operator in ("cast", "const", "identity")
    assert any(not case.negative for case in cases)
    assert wrong == []
