"""Programs for a device are made for the memory that its board is known to have."""

from pathlib import Path

from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.driver import device_speeds
from tosaic.driver.device import Device
from tosaic.driver.device_speeds import register_speeds, speed_of
from tosaic.driver.session import Session
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.config_text import get_config
from tosaic.virtual import board_speed

MODEL = Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"


def test_boards_that_were_measured():
    assert board_speed("ulx3s-85f") == speed_of("ulx3s-45f") == MemorySpeed(1.9, 16)
    assert board_speed("icebreaker") is board_speed("sim") is speed_of("nobody") is None


def test_a_session_compiles_for_it(monkeypatch):
    """The model, compiled for a device whose name somebody knows."""
    import tosaic.driver.session as session_module

    monkeypatch.setattr(device_speeds, "_LOOKUPS", [])
    register_speeds(lambda name: MemorySpeed(0.25, 9) if name == "slow" else None)
    asked = []
    load = session_module.load
    monkeypatch.setattr(
        session_module, "load", lambda *arguments: asked.append(arguments[-1].speed) or load(*arguments)
    )

    class Named(Device):
        """The part of a device that a session looks at before it runs."""

        def __init__(self, name):
            self.name = name
            self.identity = Identity(name, 0, 1 << 20, 50_000_000, 1024)

        def configuration(self):
            return get_config("nano")

        def close(self):
            pass

    for name in ("slow", "other"):
        Session(MODEL, Named(name)).close()
    assert asked == [MemorySpeed(0.25, 9), MemorySpeed()]
