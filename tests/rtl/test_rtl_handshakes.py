"""docs/timing.md shows the handshakes that the RTL makes: of each unit, of the memory port, of the decoder."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("handshakes", ROOT / "bench/handshakes.py")
assert SPEC is not None and SPEC.loader is not None
handshakes = importlib.util.module_from_spec(SPEC)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:each run decodes weights")
def test_the_page_shows_the_handshakes_of_the_rtl():
    SPEC.loader.exec_module(handshakes)
    assert handshakes.PAGE.read_text() == handshakes.page(), "make docs"
