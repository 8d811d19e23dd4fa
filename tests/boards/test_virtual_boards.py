"""Whole boards under Verilator, UART pins included, by the ordinary driver: networks bit-exact."""

import os
from pathlib import Path

import numpy as np
import pytest

import tosaic
from tosaic.sim.board import PseudoTerminal
from tosaic.virtual import open_board, virtual_boards

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
SHARED = Path(os.environ.get("TOSAIC_SHARED", ROOT.parent / "shared"))
KWS = SHARED / "models" / "kws_dscnn"
ON = [
    pytest.param(name, marks=pytest.mark.xdist_group(f"virtual_{name}"))
    for name in ("ulx3s-85f", "icebreaker")
]
"""Of the others, which are the same logic in other sizes, each would be another simulator to build."""


@pytest.mark.parametrize("name", ON)
def test_digits(name):
    """The digits network, on real images; the second run sends only its image."""
    with np.load(DIGITS / "images.npz") as archive:
        images = archive["inputs"][:2]
    with tosaic.Session(DIGITS / "digits.tosa", f"virtual://{name}") as session:
        assert session.config.name == virtual_boards()[name].config
        device = session.device
        assert device is not None
        assert (device.identity.name, device.identity.memory_bytes) == (
            name,
            virtual_boards()[name].memory_bytes,
        )
        for image in images:
            session.run({"image": image[None]}, check=True)


@pytest.mark.xdist_group("virtual_ulx3s-85f")
@pytest.mark.parametrize("index", [0] if KWS.is_dir() else [])
def test_keyword_spotting_on_ulx3s(index):
    """Against the outputs of TOSA's reference model."""
    with tosaic.Session(KWS / "model.tosa", "virtual://ulx3s-85f") as session:
        outputs = session.run({session.inputs[0].name: np.load(KWS / f"inputs_{index}.npy")})
    np.testing.assert_array_equal(outputs[session.outputs[0].name], np.load(KWS / f"outputs_{index}.npy"))


@pytest.mark.xdist_group("virtual_icebreaker")
def test_a_pseudo_terminal_is_a_serial_port():
    """The serial driver on a terminal, as any program would; unplugging it is told, and a new board is found."""
    image = {"image": np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)}
    terminal = PseudoTerminal(open_board("icebreaker"))
    session = tosaic.Session(DIGITS / "digits_tiny.tosa", f"serial://{terminal.path}")
    try:
        session.run(image, check=True)
        session.run(image, check=True)
        second = pytest.raises(tosaic.DeviceError, tosaic.Device.open, f"serial://{terminal.path}")
        assert second.match(r"cannot be opened")
    finally:
        terminal.close()
    with pytest.raises(
        tosaic.DeviceError, match=r"the line is gone \(unplugged\?\)|the board does not answer"
    ):
        session.run(image)
    session.close()
    terminal = PseudoTerminal(open_board("icebreaker"))
    with tosaic.Session(DIGITS / "digits_tiny.tosa", f"serial://{terminal.path}") as session:
        session.run(image, check=True)
    terminal.close()
