"""pytest fixture `cosim`: asserts in one line that a network is bit-exact on a target.

def test_my_network(cosim):
    outputs = cosim("model.tosa", {"input": x})
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    # The plugin is loaded by every pytest run in the environment: it imports nothing that it may not need.
    import numpy as np

Cosim = Callable[..., "dict[str, np.ndarray]"]


@pytest.fixture
def cosim() -> Cosim:
    """A function cosim(model, inputs, target="sim", config="base", **session_options) -> outputs."""

    def run(
        model: Any,
        inputs: "Mapping[str, np.ndarray]",
        target: str = "sim",
        config: str = "base",
        layers: bool = False,
        **options: Any,
    ) -> "dict[str, np.ndarray]":
        from tosaic.driver.session import Session
        from tosaic.errors import MismatchError

        session = Session(model, target, config, keep_layers=layers, **options)
        try:
            return session.run(inputs, check=True)
        except MismatchError as mismatch:
            message = f"{target} on {config} is not bit-exact: {mismatch}"
        pytest.fail(message, pytrace=False)

    return run
