"""Runs one test on a target."""

import time

import numpy as np

from tosaic.driver.session import Session
from tosaic.errors import Error, ModelError, UnsupportedError

from .case import Case
from .compare import difference
from .float_files import load_input
from .result import Result, Verdict


def run_case(case: Case, target: str, config: str) -> Result:
    """The verdict on a test; no exception leaves this function."""
    started = time.perf_counter()
    try:
        verdict, reason = (
            _negative(case, target, config) if case.negative else _positive(case, target, config)
        )
    except Exception as error:  # A crash is a verdict: the other tests must run on.
        verdict, reason = Verdict.ERROR, f"{type(error).__name__}: {error}"
    return Result(case, verdict, " ".join(reason.split()), time.perf_counter() - started)


def _outputs(case: Case, target: str, config: str) -> dict[str, np.ndarray]:
    session = Session(case.folder / case.graph, target, config)
    types = {argument.name: argument.type for argument in session.inputs}
    return session.run({name: load_input(case.folder / file, types.get(name)) for name, file in case.inputs})


def _positive(case: Case, target: str, config: str) -> tuple[Verdict, str]:
    try:
        outputs = _outputs(case, target, config)
    except UnsupportedError as error:
        return Verdict.REJECTED, str(error)
    except Error as error:
        return Verdict.ERROR, f"{type(error).__name__}: {error}"
    problem = difference(case, outputs)
    return (Verdict.MISMATCH, problem) if problem else (Verdict.PASS, "")


def _negative(case: Case, target: str, config: str) -> tuple[Verdict, str]:
    try:
        _outputs(case, target, config)
    except ModelError as error:
        return Verdict.PASS, str(error)
    except UnsupportedError as error:
        return Verdict.REJECTED, f"rejected as unsupported, not as illegal: {error}"
    except Error as error:
        return Verdict.ERROR, f"{type(error).__name__}: {error}"
    return Verdict.ACCEPTED, "the graph is illegal and was not rejected"
