"""A whole board on a network: frames at the pins of its PHY, the ordinary driver behind them."""

import random
from pathlib import Path

import numpy as np
import pytest
from shared_files import SHARED

import tosaic
from tosaic.driver.transports import UdpTransport, Unreachable
from tosaic.sim.board.network import frame_body
from tosaic.virtual import open_board, virtual_port

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
MODELS = SHARED / "models"
NAME = "arty-a7-35t"
PARTS = ("ethernet", "flash")
"""One simulator for the tests of both."""
pytestmark = pytest.mark.xdist_group(f"virtual_{NAME}")


class Cable:
    """One that loses, repeats and damages a share of the frames, either way."""

    def __init__(self, seed, share):
        self.rng, self.share = random.Random(seed), share
        self.done = dict.fromkeys(("lost", "twice", "damaged"), 0)

    def __call__(self, frame):
        if self.rng.random() >= self.share:
            return [frame]
        what = self.rng.choice(list(self.done))
        self.done[what] += 1
        place = self.rng.randrange(len(frame))
        damaged = frame[:place] + bytes([frame[place] ^ 1 << self.rng.randrange(8)]) + frame[place + 1 :]
        return {"lost": [], "twice": [frame, frame], "damaged": [damaged]}[what]


def run_digits(cable, count):
    """Runs digits over a cable, checked against golden; how many requests behind the greeting were repeated."""
    transport = UdpTransport(virtual_port(open_board(NAME, PARTS), NAME, cable), f"virtual://{NAME}?link=udp")
    greeted = transport.repeats
    with np.load(DIGITS / "images.npz") as archive:
        images = archive["inputs"][:count]
    session = tosaic.Session(DIGITS / "digits.tosa", tosaic.Device(transport))
    for image in images:
        session.run({"image": image[None]}, check=True)
    session.close()
    return transport.repeats - greeted


def test_digits():
    """Nothing but ARP and UDP is on the cable, and nothing is asked twice but the greeting, which ARP holds up."""
    kinds = set()

    def cable(frame):
        body = frame_body(frame)
        assert body is not None
        kinds.add(body[12:14].hex())
        return [frame]

    assert run_digits(cable, 2) == 0
    assert kinds == {"0806", "0800"}


@pytest.mark.nightly
def test_digits_over_a_bad_cable():
    cable = Cable(5, 0.1)
    assert run_digits(cable, 1) > 5
    assert min(cable.done.values()) > 2


def test_a_cable_that_is_cut():
    cut = []

    def cable(frame):
        return [] if cut else [frame]

    transport = UdpTransport(virtual_port(open_board(NAME, PARTS), NAME, cable), f"virtual://{NAME}?link=udp")
    transport.write_memory(3, b"before")
    cut.append(True)
    with pytest.raises(Unreachable, match="the board does not answer: 6 times READ_MEMORY at 0x10000003"):
        transport.read_memory(3, 6)
    cut.clear()
    assert transport.read_memory(3, 6) == b"before"


def test_parts_and_links_that_there_are_not():
    with pytest.raises(tosaic.InputError, match="^virtual://icebreaker: icebreaker has no 'ethernet'"):
        tosaic.Device.open("virtual://icebreaker?link=udp")
    with pytest.raises(
        tosaic.InputError, match=f"^virtual://{NAME}: link must be one of uart, udp, not 'usb'$"
    ):
        tosaic.Device.open(f"virtual://{NAME}?link=usb")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name",
    [NAME, pytest.param("ecpix5-85f", marks=pytest.mark.xdist_group("virtual_ecpix5-85f"))],
)
def test_a_network_by_its_address(name):
    """MII and RGMII. digits by `virtual://`, kws_dscnn where it fits."""
    network = MODELS / "kws_dscnn"
    if name == NAME or not network.is_dir():
        with (
            np.load(DIGITS / "images.npz") as archive,
            tosaic.Session(DIGITS / "digits.tosa", f"virtual://{name}?link=udp") as session,
        ):
            session.run({"image": archive["inputs"][:1]}, check=True)
        return
    with tosaic.Session(network / "model.tosa", f"virtual://{name}?link=udp") as session:
        outputs = session.run({session.inputs[0].name: np.load(network / "inputs_0.npy")})
    np.testing.assert_array_equal(outputs[session.outputs[0].name], np.load(network / "outputs_0.npy"))
