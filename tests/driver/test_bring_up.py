"""The bring-up kit names faults that are planted in a machine, its memory, its clock and its link."""

import json
import time
import zipfile

import numpy as np
import pytest

import tosaic
from tosaic.driver.bring_up import FAULTS, bring_up, write_report
from tosaic.driver.transports import RtlTransport
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import REGISTER

pytestmark = pytest.mark.xdist_group("nano")
NANO = get_config("nano")
MEMORY_BYTES = 1 << 18
WORD = NANO.bus_bytes
CYCLES = REGISTER["CYCLES"].offset


class Board(RtlTransport):
    """A sound machine with a memory of 256 KiB."""

    def __init__(self, **options):
        super().__init__(NANO, memory_bytes=MEMORY_BYTES, **options)
        self.runs = 0

    def start(self, *arguments, **named):
        self.runs += 1
        super().start(*arguments, **named)


class StuckBit(Board):
    """Bit 5 of each word is 1."""

    def write_memory(self, address, data):
        super().write_memory(address, data)
        self.memory[0::WORD] |= 1 << 5


class LostAddress(Board):
    """The address line of 16 KiB is always 0."""

    def _folded(self, address):
        return address & ~(1 << 14)

    def read_memory(self, address, count):
        return super().read_memory(self._folded(address), count)

    def write_memory(self, address, data):
        super().write_memory(self._folded(address), data)


class Forgetful(Board):
    """Data change while time goes by."""

    def pause(self, seconds):
        self.memory[:: 1 << 7] ^= 1


class Garbage(Board):
    """Memory gives back anything."""

    def read_memory(self, address, count):
        return np.random.default_rng(address).bytes(count)


class WrongClock(Board):
    """Runs at 100 MHz, built for 50."""

    has_real_clock = True

    def __init__(self):
        super().__init__()
        self.identity = Identity("board", 0x1000_0000, MEMORY_BYTES, 50_000_000, 1 << 15)

    def read_registers(self, offset, count):
        if offset == CYCLES and count == 1:
            return [int(time.perf_counter() * 100e6) % (1 << 32)]
        return super().read_registers(offset, count)


class Narrow(Board):
    """The machine writes the lower half of each word only."""

    def read_memory(self, address, count):
        data = super().read_memory(address, count)
        if self.runs:
            words = np.frombuffer(data, np.uint8).reshape(-1, WORD).copy()
            words[:, WORD // 2 :] = 0
            data = words.tobytes()
        return data


class Damaged(Board):
    """The output of run number `first` and of later ones is wrong in one byte, that of a run in each `every`."""

    first, every = 1, 1

    def read_memory(self, address, count):
        data = super().read_memory(address, count)
        if self.runs >= self.first and (self.runs - self.first) % self.every == 0:
            data = bytes([data[0] ^ 0x10]) + data[1:]
        return data


class BadCopy(Damaged):
    """LOAD or STORE loses a byte."""


class BadVector(Damaged):
    first = 2


class BadArray(Damaged):
    first = 7


class BadNetwork(Damaged):
    first = 12


class Unsteady(Damaged):
    first, every = 3, 2


class Mute(Board):
    """Nothing answers."""

    def read_registers(self, offset, count):
        raise tosaic.DeviceError(
            "board: the board does not answer: 6 times READ, 0 damaged frames; is it plugged in"
        )


class Noisy(Board):
    """Answers come damaged."""

    def read_registers(self, offset, count):
        raise tosaic.DeviceError(
            "board: the board does not answer: 6 times READ, 4 damaged frames; is it plugged in"
        )


class Foreign(Board):
    """Something else answers."""

    def read_registers(self, offset, count):
        return [0x1234] * count


class OtherConfiguration(Board):
    """The bitstream was built for another configuration."""

    def read_registers(self, offset, count):
        values = super().read_registers(offset, count)
        place = (REGISTER["CONFIG_HASH"].offset - offset) // 4
        return [*values[:place], 1, *values[place + 1 :]] if 0 <= place < count else values


class NoMemoryThere(Board):
    """The machine's accesses are answered by an error."""

    def start(self, *arguments, **named):
        self.set_errors(0x1000_0000 + 4096, None)
        super().start(*arguments, **named)


class NoAnswerToReads(Board):
    """The machine's port to the memory answers no read: it waits for the program's first word."""

    def __init__(self):
        super().__init__(latency_cycles=1 << 30)


def brought_up(board):
    said = []
    return bring_up(board, "board", NANO, said.append), said


def test_a_sound_board():
    report, said = brought_up(Board)
    assert report.fault is None and all(step.ok for step in said)
    assert [(step.name, step.told) for step in said] == [
        ("link", "200 accesses, sim"),
        ("machine", "configuration nano"),
        ("memory", "13 blocks of 64 bytes in 256 KiB"),
        ("clock", "not compared: only a processor beside the machine sees its clock"),
        ("LOAD, STORE", "1024 bytes"),
        ("VECTOR", "256 bytes, 5 runs"),
        ("ARRAY", "256 bytes, 5 runs"),
        ("digits.tosa", "10 bytes, 5 runs"),
        ("digits_tiny.tosa", "10 bytes, 5 runs"),
    ]


@pytest.mark.parametrize(
    "board, fault, step",
    [
        (Mute, "no-answer", "link"),
        (Noisy, "noisy-link", "link"),
        (Foreign, "other-design", "machine"),
        (OtherConfiguration, "other-configuration", "machine"),
        (StuckBit, "memory-bit", "memory"),
        (LostAddress, "memory-address", "memory"),
        (Forgetful, "memory-loss", "memory"),
        (Garbage, "memory-data", "memory"),
        (WrongClock, "wrong-clock", "clock"),
        (Narrow, "port-width", "LOAD, STORE"),
        (NoMemoryThere, "bus-error", "LOAD, STORE"),
        (NoAnswerToReads, "hang", "LOAD, STORE"),
        (BadCopy, "load-store", "LOAD, STORE"),
        (BadVector, "vector", "VECTOR"),
        (Unsteady, "unsteady", "VECTOR"),
        (BadArray, "array", "ARRAY"),
        (BadNetwork, "network", "digits.tosa"),
    ],
)
def test_faults_have_names(board, fault, step):
    report, said = brought_up(board)
    assert report.fault is FAULTS[fault], report.detail
    assert (said[-1].name, said[-1].ok) == (step, False)
    assert said[-1].told == f"{fault}: {report.detail}"


def test_the_bundle_holds_what_was_found(tmp_path):
    report, _ = brought_up(BadVector)
    write_report(tmp_path / "board.zip", report)
    with zipfile.ZipFile(tmp_path / "board.zip") as archive:
        assert set(archive.namelist()) == {"bring-up.log", "bring-up.json", "found.npy", "wanted.npy"}
        log = archive.read("bring-up.log").decode().splitlines()
        figures = json.loads(archive.read("bring-up.json"))
    assert log[0] == "board, configuration nano"
    assert log[-1] == "FAULT VECTOR: vector: 1 of 256 bytes are wrong"
    assert figures["fault"] == "vector" and figures["board"]["memory_bytes"] == MEMORY_BYTES
