"""Bits that flip in a machine's memory, and in a run, are told where a device is watched."""

import pathlib

import numpy as np
import pytest

import tosaic
from tosaic.driver.transports import RtlTransport, Watch
from tosaic.hw.config_text import get_config

pytestmark = pytest.mark.xdist_group("nano")
DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
IMAGE = {"image": np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)}
FLIPS = 250


class Flipping(RtlTransport):
    """Flips a bit of memory before run number `run`, and of what is read behind it in run number `upset`."""

    run = upset = None

    def __init__(self):
        super().__init__(get_config("nano"), memory_bytes=1 << 18)
        self.runs, self.place = 0, (0, 0)

    def start(self, *arguments, **named):
        if self.runs == self.run:
            self.memory[self.place[0]] ^= 1 << self.place[1]
        self.runs += 1
        super().start(*arguments, **named)

    def read_memory(self, address, count):
        data = super().read_memory(address, count)
        return data if self.runs != self.upset else bytes([data[0] ^ 4]) + data[1:]


def opened(watch):
    transport = Flipping()
    return transport, tosaic.Session(DIGITS, tosaic.Device(transport, watch=watch))


def places(program, in_code=False):
    """Bits of constants, the image without instructions; or of instructions, which have a check byte each."""
    random = np.random.default_rng(7)
    code = [range(address, address + size) for address, size in program.streams]
    found = [at for at in range(len(program.image)) if in_code == any(at in each for each in code)]
    return [(int(random.choice(found)), int(random.integers(8))) for _ in range(FLIPS)]


def test_flips_in_constants_are_all_told():
    """250 of 250 in the run in which they matter, by their place; the run behind each is right again."""
    transport, session = opened(Watch(verify_runs=1))
    right = session.run(IMAGE, check=True)["scores"]
    for place in places(session.program):
        transport.run, transport.place = transport.runs, place
        where = f"0x{place[0]:x} in its constants: "
        wanted = rf"bytes of the program have changed in the machine's memory: 1, the first at {where}"
        with pytest.raises(tosaic.DeviceError, match=wanted):
            session.run(IMAGE)
        assert session.result is None
    assert np.array_equal(session.run(IMAGE)["scores"], right)
    transport.close()


def test_flips_in_instructions_are_all_told():
    """By the machine, whose check byte finds every single one, or by the comparison."""
    transport, session = opened(Watch(verify_runs=1))
    session.run(IMAGE)
    for place in places(session.program, in_code=True)[:50]:
        transport.run, transport.place = transport.runs, place
        with pytest.raises(tosaic.DeviceError, match="ILLEGAL|have changed in the machine's memory"):
            session.run(IMAGE)
    session.run(IMAGE, check=True)
    transport.close()


def test_flips_in_constants_without_a_watch():
    """None of them is told, and some change every later result."""
    transport, session = opened(Watch())
    right = session.run(IMAGE)["scores"]
    wrong = 0
    for place in places(session.program):
        transport.run, transport.place = transport.runs, place
        wrong += not np.array_equal(session.run(IMAGE)["scores"], right)
        transport.memory[place[0]] ^= 1 << place[1]
    assert wrong > 0
    transport.close()


def test_every_third_run():
    """A flip is told by the next look: after the first run, the fourth and the seventh."""
    transport, session = opened(Watch(verify_runs=3))
    (place, *_) = places(session.program)
    session.run(IMAGE)
    transport.run, transport.place = 1, place
    session.run(IMAGE)
    session.run(IMAGE)
    with pytest.raises(tosaic.DeviceError, match="have changed in the machine's memory"):
        session.run(IMAGE)
    session.run(IMAGE, check=True)
    transport.close()


def test_every_run_twice():
    """An upset of one run is told; without one the outputs are given once, and figures are those of a run."""
    transport, session = opened(Watch(runs_twice=True))
    session.run(IMAGE, check=True)
    assert (transport.runs, len(session.stats["layers"])) == (2, 3)
    for upset in (3, 6):
        transport.upset = upset
        wanted = (
            r"1 of 10 bytes of 'scores' differ between two runs on the same inputs: a bit has flipped in one"
        )
        with pytest.raises(tosaic.DeviceError, match=wanted):
            session.run(IMAGE)
        transport.upset = None
    session.run(IMAGE, check=True)
    transport.close()


def test_options_of_a_device():
    """Every scheme has them."""
    with tosaic.Session(DIGITS, "sim://nano?verify=1&twice=1") as session:
        session.run(IMAGE, check=True)


@pytest.mark.parametrize(
    "uri, wanted",
    [
        (
            "sim://nano?verify=often",
            r"^sim://nano\?verify=often: verify is the number of runs after each of which the program is compared "
            r"in the machine's memory, or 0, not 'often'$",
        ),
        (
            "sim://nano?twice=2",
            r"^sim://nano\?twice=2: twice must be 1 to do every run twice, or 0, not '2'$",
        ),
    ],
)
def test_wrong_options(uri, wanted):
    with pytest.raises(tosaic.InputError, match=wanted):
        tosaic.Device.open(uri)
