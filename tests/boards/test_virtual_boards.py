"""Whole boards under Verilator, UART pins included, by the ordinary driver: networks bit-exact."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from shared_files import SHARED, found

import tosaic
from tosaic.driver.transports import BridgeTransport
from tosaic.hw.bridge.frames import FrameDecoder
from tosaic.hw.bridge.protocol import NAME_BYTES, REQUEST_HEADER, Operation
from tosaic.hw.csr_map import COUNTERS, REGISTER
from tosaic.sim.board import BoardSimulator, PseudoTerminal, VirtualLine
from tosaic.virtual import open_board, virtual_boards

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
MODELS = SHARED / "models"
NETWORKS = ("kws_dscnn", "sww_dscnn1d", "ic_resnet8", "ad_autoencoder", "vww_mobilenet", "ic_resnet_large")
IN_SDRAM = {"ulx3s-85f": NETWORKS, "ulx3s-45f": NETWORKS, "tang-nano-20k": ("kws_dscnn", "ic_resnet8")}
"""The last one is a micro-coded machine: minutes for each."""
ON = [
    *(
        pytest.param(name, marks=pytest.mark.xdist_group(f"virtual_{name}"))
        for name in ("ulx3s-45f", "icebreaker")
    ),
    pytest.param("ulx3s-85f", marks=[pytest.mark.xdist_group("virtual_ulx3s-85f"), pytest.mark.nightly]),
    pytest.param("tang-nano-20k", marks=[pytest.mark.xdist_group("virtual_tang"), pytest.mark.nightly]),
]
"""The 85F is the 45F with a larger machine. Of the others, which are the same logic in other sizes, each would be
another simulator to build."""
LOOK = ("READ_REGISTERS", REGISTER["STATUS"].offset, 4)
"""Whether a run has ended."""


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
            name[:NAME_BYTES],
            virtual_boards()[name].memory_bytes,
        )
        for image in images:
            session.run({"image": image[None]}, check=True)


@pytest.mark.parametrize(
    ("name", "network"),
    found(
        [
            pytest.param(
                name,
                network,
                marks=[pytest.mark.xdist_group(f"virtual_{name}"), pytest.mark.nightly],
            )
            for name, networks in IN_SDRAM.items()
            for network in networks
            if (MODELS / network).is_dir()
        ],
        arguments=2,
    ),
)
def test_networks_in_sdram(name, network):
    """They give the outputs of TOSA's reference model. The chip's model ends a run whose controller breaks its
    rules."""
    folder = MODELS / network
    with tosaic.Session(folder / "model.tosa", f"virtual://{name}") as session:
        outputs = session.run({session.inputs[0].name: np.load(folder / "inputs_0.npy")})
    np.testing.assert_array_equal(outputs[session.outputs[0].name], np.load(folder / "outputs_0.npy"))


@pytest.mark.xdist_group("virtual_ulx3s-45f")
def test_the_chip_of_a_board():
    """It holds what the host writes, and tells when its controller would be too fast for it."""
    board = open_board("ulx3s-45f")
    transport = BridgeTransport(VirtualLine(board), "virtual board")
    transport.write_memory(0x12_3455, b"odd")
    assert board.peek(0x12_3454, 5) == b"\0odd\0"
    board.poke(0x12_3456, b"ne")
    assert transport.read_memory(0x12_3454, 5) == b"\0one\0"
    assert transport.clear_memory(0x12_3456, 1 << 21)
    assert transport.read_memory(0x12_3454, 5) == b"\0o\0\0\0"
    with pytest.raises(ValueError, match="^2 bytes at 0x1ffffff leave the SDRAM's 33554432$"):
        board.peek((32 << 20) - 1, 2)
    chip = board.chip
    assert (
        (chip.broken, chip.first) == (0, "") and chip.reads >= 5 and chip.writes == 3 and chip.refreshes > 8
    )
    assert board.rtl.chip is not None
    # Few rows, so that all of them must be refreshed within 100,096 cycles instead of 64 ms.
    few_rows = dataclasses.replace(board.rtl.chip, row_bits=8, refresh=256 * 391)
    board = BoardSimulator(dataclasses.replace(board.rtl, chip=few_rows))
    transport = BridgeTransport(VirtualLine(board), "virtual board")
    for _ in range(3):
        transport.write_memory(0, b"x")
        assert transport.reset()
    transport.write_memory(0, b"y")
    board.run(250_000)
    assert (board.chip.broken, board.chip.first) == (0, "")
    slower = dataclasses.replace(board.rtl, chip=dataclasses.replace(board.rtl.chip, rcd=9))
    transport = BridgeTransport(VirtualLine(BoardSimulator(slower)), "virtual board")
    text = (
        r"^the virtual board ulx3s-45f: its memory controller breaks a rule of the SDRAM, \d+ times; the first one: "
        r"ACTIVE to READ or WRITE \(tRCD\), bank 0, in cycle \d+$"
    )
    with pytest.raises(tosaic.DeviceError, match=text):
        transport.write_memory(0, b"x")


class Heard:
    """A board that notes the requests which come on its line."""

    def __init__(self, board):
        self._board, self._decoder = board, FrameDecoder()
        self.requests = []

    def __getattr__(self, name):
        return getattr(self._board, name)

    def send(self, data):
        for content in self._decoder.feed(data):
            _, operation, count, address = REQUEST_HEADER.unpack_from(content)
            self.requests.append((Operation(operation).name, address, count))
        self._board.send(data)


@pytest.mark.xdist_group("virtual_icebreaker")
def test_frames_of_an_inference_on_a_serial_line():
    """There are at most 12: nine, and the looks whether it has ended, whose times follow those of earlier runs."""
    image = {"image": np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)}
    board = Heard(open_board("icebreaker"))
    terminal = PseudoTerminal(board)
    looks = []
    with tosaic.Session(DIGITS / "digits_tiny.tosa", f"serial://{terminal.path}") as session:
        session.run(image)
        for _ in range(4):
            board.requests.clear()
            session.run(image)
            looks.append(board.requests[5:].count(LOOK))
            assert [each for each in board.requests[5:] if each != LOOK] == [
                ("READ_MEMORY", session.device.identity.memory_base + session.program.outputs[0].address, 10),
                ("WRITE_REGISTERS", REGISTER["IRQ"].offset, 4),
                ("READ_REGISTERS", REGISTER["CYCLES"].offset, 8),
                ("READ_REGISTERS", REGISTER["ARRAY_BUSY"].offset, 4 * len(COUNTERS)),
            ]
            assert [operation for operation, *_ in board.requests[:5]] == [
                "READ_REGISTERS",
                "READ_REGISTERS",
                "WRITE_MEMORY",
                "WRITE_REGISTERS",
                "WRITE_REGISTERS",
            ]
            assert board.requests[3][1:] == (REGISTER["PROGRAM_ADDRESS"].offset, 20)
    terminal.close()
    # Beside other work a run may take longer than the ones before.
    assert 1 <= min(looks) <= 3


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
