"""A whole board that starts a network from its SPI flash: no program comes from the host."""

import dataclasses
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from rest_nightly import first_of
from shared_files import SHARED, found
from typer.testing import CliRunner

import tosaic
from tosaic.boards.soc import MEMORY_BASE
from tosaic.cli.app import app
from tosaic.driver.flash_image import program_boot_image
from tosaic.driver.transports import BridgeTransport, open_transport
from tosaic.hw.bridge.boot_image import (
    BOOT_CODE,
    BOOT_CRC,
    HEAD,
    BootCode,
    BootRecord,
    RecordKind,
    boot_image,
)
from tosaic.sim.board import VirtualLine
from tosaic.virtual import open_board, write_boot_image

sys.path.insert(0, str(Path(__file__).parents[1] / "driver"))
from bad_line import BadLine  # noqa: E402
from device_programs import tiny  # noqa: E402

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
MODELS = SHARED / "models"
TINY = DIGITS / "digits_tiny.tosa"
NAME, PARTS = "arty-a7-35t", ("ethernet", "flash")
"""One simulator for the tests of both."""
pytestmark = pytest.mark.xdist_group(f"virtual_{NAME}")


@pytest.fixture(scope="module")
def board():
    made = open_board(NAME, PARTS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def image():
    with tosaic.Session(TINY, "emulator", "nano") as session:
        return program_boot_image(session.program, MEMORY_BASE)


def opened(board, boots=True):
    """The line, which keeps what is written, a transport and a device at it."""
    line = BadLine(VirtualLine(board))
    transport = BridgeTransport(line, NAME, boots)
    return line, transport, tosaic.Device(transport)


def digit(seed):
    return {"image": np.random.default_rng(seed).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)}


def state(transport):
    return transport.read_registers(BOOT_CODE, 1)[0]


def test_digits_from_flash(board, image):
    """The host sends inputs and reads outputs, through two sessions; when it loads something else, that is known."""
    write_boot_image(board, NAME, image)
    assert len(image) > 2_000
    for _ in range(2):
        line, transport, device = opened(board)
        session = tosaic.Session(TINY, device)
        for index in range(2):
            session.run(digit(index), check=True)
        assert sum(map(len, line.written)) < 3_000 < len(image) and state(transport) == BootCode.DONE
    assert transport.read_registers(BOOT_CRC, 1) == list(struct.unpack("<I", image[-4:]))
    other = tiny("nano")
    other = dataclasses.replace(other, image=other.image + bytes(64))
    device.run(other, other.memory())
    assert state(transport) == BootCode.LEFT
    line, transport, device = opened(board)
    tosaic.Session(TINY, device).run(digit(2), check=True)
    assert sum(map(len, line.written)) > len(image)
    transport.reset()
    assert state(transport) == BootCode.LEFT


def test_a_reset_of_the_machine_in_the_middle(board, image):
    """The boot begins anew, and a host's access to memory waits for its end."""
    write_boot_image(board, NAME, image)
    _, transport, device = opened(board, boots=False)
    board.run(30_000)
    assert state(transport) == BootCode.BOOTING
    transport.reset()
    assert state(transport) == BootCode.BOOTING
    line, transport, device = opened(board)
    tosaic.Session(TINY, device).run(digit(0), check=True)
    assert sum(map(len, line.written)) < 3_000 and state(transport) == BootCode.DONE


@pytest.mark.parametrize("fault", first_of(["damaged", "endless", "nothing"], 1))
def test_an_image_that_cannot_be_used(board, image, fault):
    """It ends in a code that the host reads, and the lamp blinks; a host that knows of no flash works as ever."""
    half = len(image) // 2
    images = {
        "damaged": (image[:half] + bytes([image[half] ^ 1]) + image[half + 1 :], BootCode.DAMAGED),
        "endless": (HEAD.pack(HEAD.unpack_from(image)[0], 0xFFFFFFFF), BootCode.DAMAGED),
        "nothing": (b"", BootCode.NO_IMAGE),
    }
    content, code = images[fault]
    write_boot_image(board, NAME, content)
    _, transport, device = opened(board)
    session = tosaic.Session(TINY, device)
    if code.is_fault:
        text = rf"^{NAME}: booting from flash failed: {code.name} \(fault {code.value}\): write the image of"
        with pytest.raises(tosaic.DeviceError, match=text):
            session.run(digit(0))
        assert state(transport) == code
    _, transport, device = opened(board, boots=False)
    tosaic.Session(TINY, device).run(digit(0), check=True)


def test_a_program_that_fails(board):
    """Its registers have the reason."""
    run = [
        BootRecord(RecordKind.MEMORY, MEMORY_BASE, b"\xff" * 64),
        BootRecord(RecordKind.REGISTERS, 0x40, struct.pack("<4I", 0, 64, MEMORY_BASE, 4096)),
        BootRecord(RecordKind.REGISTERS, 0x10, struct.pack("<I", 1)),
        BootRecord(RecordKind.RUN),
    ]
    write_boot_image(board, NAME, boot_image(run))
    _, transport, device = opened(board)
    board.run(100_000)
    assert state(transport) == BootCode.PROGRAM_FAILED


def test_by_the_command_line(tmp_path):
    """`tosaic boot-image`, and the board booting from it, its host on the network."""
    path = tmp_path / "image.bin"
    arguments = ["boot-image", str(TINY), "--board", NAME, "-o", str(path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith(f"{path.stat().st_size} bytes, for offset 0x800000 of the flash\n")
    transport = open_transport(f"virtual://{NAME}?link=udp&flash={path}")
    with tosaic.Session(TINY, tosaic.Device(transport)) as session:
        session.run(digit(0), check=True)
        assert state(transport) == BootCode.DONE
    with pytest.raises(tosaic.InputError, match="^kv260 does not boot from flash; these do: ulx3s-85f, "):
        CliRunner().invoke(app, [*arguments[:3], "kv260", *arguments[4:]], catch_exceptions=False)
    with pytest.raises(tosaic.InputError, match="none.bin: cannot be read: No such file"):
        tosaic.Device.open(f"virtual://{NAME}?flash={tmp_path / 'none.bin'}")


@pytest.mark.nightly
@pytest.mark.xdist_group("virtual_ulx3s-85f-flash")
@pytest.mark.parametrize("network", found(name for name in ("kws_dscnn",) if (MODELS / name).is_dir()))
def test_networks_in_sdram(network):
    """A board whose memory starts by itself, too."""
    folder, name = MODELS / network, "ulx3s-85f"
    board = open_board(name, ("flash",))
    line, transport, device = opened(board, boots=False)
    session = tosaic.Session(folder / "model.tosa", device)
    write_boot_image(board, name, program_boot_image(session.program, MEMORY_BASE))
    line, transport, device = opened(board)
    session = tosaic.Session(folder / "model.tosa", device)
    outputs = session.run({session.inputs[0].name: np.load(folder / "inputs_0.npy")})
    np.testing.assert_array_equal(outputs[session.outputs[0].name], np.load(folder / "outputs_0.npy"))
    assert sum(map(len, line.written)) < 5_000 and state(transport) == BootCode.DONE
