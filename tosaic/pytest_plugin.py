"""pytest fixture `cosim`: asserts in one line that a network is bit-exact on a target.

def test_my_network(cosim):
    outputs = cosim("model.tosa", {"input": x})

Every run's cycles, MAC utilization, target and configuration are properties of the test, which --junit-xml writes.
--tosaic-max-cycles-regression PERCENT fails a test that takes more cycles than are kept in --tosaic-cycles FILE, which
--tosaic-update-cycles writes.
"""

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    # The plugin is loaded by every pytest run in the environment: it imports nothing that it may not need.
    import numpy as np

Cosim = Callable[..., "dict[str, np.ndarray]"]

_CYCLES = "tosaic_cycles"
_PROPERTIES = {"cycles": _CYCLES, "mac_utilization": "tosaic_mac_utilization", "target": "tosaic_target",
               "config": "tosaic_config"}  # fmt: skip
"""Names of a test's properties by name in `Session.stats`. A second run in a test has `_2` behind it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tosaic")
    group.addoption(
        "--tosaic-max-cycles-regression",
        metavar="PERCENT",
        type=float,
        help="fail a cosim test that takes this much more cycles than are kept",
    )
    group.addoption(
        "--tosaic-cycles", metavar="FILE", default="tosaic-cycles.json", help="the cycles that are kept"
    )
    group.addoption("--tosaic-update-cycles", action="store_true", help="keep the cycles of this run")


def pytest_configure(config: pytest.Config) -> None:
    # A worker of xdist reports; the process that collects the reports writes.
    if config.getoption("tosaic_update_cycles") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(CycleKeeper(_cycles_file(config)))


class CycleKeeper:
    """Writes the cycles of the tests that passed over those that are kept; other tests keep theirs."""

    def __init__(self, file: pathlib.Path):
        self._file = file
        self._kept: dict[str, int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            for name, value in report.user_properties:
                if name.startswith(_CYCLES) and isinstance(value, int):
                    self._kept[report.nodeid + name.removeprefix(_CYCLES)] = value

    def pytest_sessionfinish(self) -> None:
        if self._kept:
            kept = _read(self._file) | self._kept
            self._file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


@pytest.fixture
def cosim(request: pytest.FixtureRequest) -> Cosim:
    """A function cosim(model, inputs, target="sim", config="base", **session_options) -> outputs; an error of Tosaic
    fails the test in one line."""
    runs = 0

    def run(
        model: Any,
        inputs: "Mapping[str, np.ndarray]",
        target: str = "sim",
        config: str = "base",
        layers: bool = False,
        **options: Any,
    ) -> "dict[str, np.ndarray]":
        nonlocal runs
        from tosaic.driver.session import Session
        from tosaic.errors import Error, MismatchError

        message = None
        try:
            session = Session(model, target, config, keep_layers=layers, **options)
            outputs = session.run(inputs, check=True)
        except MismatchError as mismatch:
            message = f"{target} on {config} is not bit-exact: {mismatch}"
        except Error as error:
            message = f"cosim: {error}"
        if message is None:
            runs += 1
            suffix = f"_{runs}" if runs > 1 else ""
            for name, shown in _PROPERTIES.items():
                if session.stats[name] is not None:
                    request.node.user_properties.append((shown + suffix, session.stats[name]))
            message = _regression(request, suffix, session.stats["cycles"])
        if message is not None:
            pytest.fail(message, pytrace=False)
        return outputs

    return run


def _regression(request: pytest.FixtureRequest, suffix: str, cycles: int | None) -> str | None:
    """Why a run took too many cycles; None if it did not, or if nothing is kept of it."""
    percent = request.config.getoption("tosaic_max_cycles_regression")
    if percent is None or cycles is None or request.config.getoption("tosaic_update_cycles"):
        return None
    kept = _read(_cycles_file(request.config)).get(request.node.nodeid + suffix)
    if kept is None or cycles <= kept * (1 + percent / 100):
        return None
    return (
        f"{cycles:,} cycles, {cycles / kept - 1:.1%} more than the {kept:,} that are kept (at most {percent:g} %); "
        "--tosaic-update-cycles keeps the new ones"
    )


def _cycles_file(config: pytest.Config) -> pathlib.Path:
    return config.rootpath / config.getoption("tosaic_cycles")


def _read(file: pathlib.Path) -> dict[str, int]:
    """What is kept; nothing where there is no file."""
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise pytest.UsageError(f"{file} is no JSON; remove it and run with --tosaic-update-cycles") from None
