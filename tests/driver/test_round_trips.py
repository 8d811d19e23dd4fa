"""How many accesses of a device an inference takes, and what a serial line does for short round trips."""

import pathlib
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from device_programs import tiny
from shared_files import ABSENT, SHARED

import tosaic
from tosaic.compiler.ir import DType, GraphBuilder
from tosaic.compiler.program import BootPart, DecodedBlock
from tosaic.driver.port_spans import spans_to_read, spans_to_write
from tosaic.driver.transports import RegisterTransport, RtlTransport
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import COUNTERS, REGISTER

pytestmark = pytest.mark.xdist_group("nano")
ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_tiny.tosa"
KWS = SHARED / "models" / "kws_dscnn" / "model.tosa"
LAYERS = ("MARK_COUNT", "MARK_INDEX", "MARK_LAYER")
INFERENCE = [
    ("read_registers", REGISTER["ID"].offset, 4),
    ("read_registers", REGISTER["STATUS"].offset, 1),
    ("write_memory", "input"),
    ("write_registers", REGISTER["PROGRAM_ADDRESS"].offset, 5),
    ("write_registers", REGISTER["CONTROL"].offset, 1),
    ("read_registers", REGISTER["STATUS"].offset, 1),
    ("read_memory", "output"),
    ("write_registers", REGISTER["IRQ"].offset, 1),
    ("read_registers", REGISTER["CYCLES"].offset, 2),
    ("read_registers", REGISTER["ARRAY_BUSY"].offset, len(COUNTERS)),
]


class Counting(RtlTransport):
    """Notes what is asked of it."""

    def __init__(self):
        super().__init__(get_config("nano"))
        self.asked = []

    def read_registers(self, offset, count):
        self.asked.append(("read_registers", offset, count))
        return super().read_registers(offset, count)

    def write_register(self, offset, value):
        self.asked.append(("write_registers", offset, 1))
        super().write_register(offset, value)

    def write_registers(self, offset, values):
        self.asked.append(("write_registers", offset, len(values)))
        super().write_registers(offset, values)

    def read_memory(self, address, count):
        self.asked.append(("read_memory", address, count))
        return super().read_memory(address, count)

    def write_memory(self, address, data):
        self.asked.append(("write_memory", address, len(data)))
        super().write_memory(address, data)

    def taken(self):
        """What was asked since the last time."""
        asked, self.asked = self.asked, []
        return asked

    def of_marks(self):
        """How many of these were for layer marks."""
        return sum(asked[1] in [REGISTER[name].offset for name in LAYERS] for asked in self.taken())


@pytest.fixture
def transport():
    made = Counting()
    yield made
    made.close()


@pytest.fixture
def device(transport):
    return tosaic.Device(transport)


def random_inputs(session, seed=0):
    random = np.random.default_rng(seed)
    return {each.name: random.integers(-128, 128, each.shape, dtype=np.int8) for each in session.inputs}


@pytest.mark.parametrize("network", [DIGITS, KWS], ids=["digits_tiny", "kws_dscnn"])
def test_an_inference_takes_ten_accesses(network, transport, device):
    """They were 27 and 67. kws_dscnn runs for half a million cycles and has 19 marks."""
    if not network.exists():
        pytest.skip(ABSENT)
    session = tosaic.Session(network, device)
    session.run(random_inputs(session, 1))
    transport.taken()
    session.run(random_inputs(session, 2), check=network == DIGITS)
    (read,), (written,) = session.program.outputs, session.program.inputs
    tensors = {"input": (written.address, written.bytes), "output": (read.address, read.bytes)}
    wanted = [(what, *(tensors[rest[0]] if rest[0] in tensors else rest)) for what, *rest in INFERENCE]
    assert transport.taken() == wanted


def test_layers_are_asked_for_by_who_looks_at_them(transport, device):
    session, simulated = tosaic.Session(DIGITS, device), tosaic.Session(DIGITS, "sim", "nano")
    inputs = random_inputs(session)
    simulated.run(inputs)
    for _ in range(2):
        session.run(inputs)
    assert session.result.cycles == simulated.stats["cycles"] and transport.of_marks() == 0
    assert session.stats["layers"] == simulated.stats["layers"]
    assert transport.of_marks() == 1 + 2 * len(simulated.result.marks) == 7
    assert session.stats["layers"] and session.timeline() and transport.taken() == []


def test_marks_are_a_list_to_whoever_has_them(transport, device):
    program = tiny("nano")
    result = device.run(program, program.memory())
    marks = pickle.loads(pickle.dumps(result)).marks
    assert type(marks) is list and len(marks) == 3 and result.marks == marks and marks == result.marks
    assert (result.marks[0], result.marks[1:], repr(result.marks)) == (marks[0], marks[1:], repr(marks))
    assert result.marks != marks[1:]


def test_nobody_loses_the_layers_of_a_run(transport, device):
    """Another session of the device, further samples, and the device's end come in between."""
    wanted = tosaic.Session(DIGITS, "sim", "nano")
    inputs = random_inputs(wanted)
    wanted.run(inputs)
    layers = wanted.stats["layers"]
    first, second = (tosaic.Session(DIGITS, device) for _ in range(2))
    first.run(inputs)
    second.run(inputs)
    assert transport.of_marks() == 7
    assert (first.stats["layers"], transport.of_marks()) == (layers, 0)
    second.run_batch({"image": np.zeros((3, 1, 8, 8, 1), np.int8)})
    assert transport.of_marks() == 7
    assert (second.stats["layers"], transport.of_marks()) == (layers, 0)
    kept = [device.run(tiny("nano"), tiny("nano").memory()) for _ in range(2)]
    assert [len(result.marks) for result in kept] == [3, 3]
    first.run(inputs)
    device.close()
    assert first.stats["layers"] == layers


def test_a_failed_run_has_no_figures(transport, device):
    """What a session tells is never that of an earlier run."""
    session = tosaic.Session(DIGITS, device, max_cycles=200_000)
    session.run(random_inputs(session))
    assert session.stats["cycles"] > 0
    base = transport.identity.memory_base
    transport.set_errors(base, None)
    with pytest.raises(tosaic.DeviceError, match="BUS_READ"):
        session.run(random_inputs(session))
    assert (session.stats, session.result, session.timeline()) == ({}, None, [])
    transport.set_errors(None, None)
    session.run(random_inputs(session), check=True)


class Forgetful(Counting):
    """Its line fails when somebody asks for the marks."""

    is_broken = False

    def read_registers(self, offset, count):
        if self.is_broken and offset == REGISTER["MARK_COUNT"].offset:
            raise tosaic.DeviceError("the board was reset")
        return super().read_registers(offset, count)


def test_marks_that_cannot_be_read():
    """Whoever looks at them is told, as often as they look; the next run sends everything anew."""
    transport = Forgetful()
    session = tosaic.Session(DIGITS, tosaic.Device(transport))
    session.run(random_inputs(session))
    transport.is_broken = True
    for _ in range(2):
        with pytest.raises(tosaic.DeviceError, match="^the board was reset$"):
            session.stats  # noqa: B018
    transport.taken()
    session.run(random_inputs(session), check=True)
    assert ("write_memory", 0, len(session.program.image)) in transport.taken()
    transport.is_broken = False
    assert len(session.stats["layers"]) == 3
    transport.close()


def pairs(count):
    """Inputs of 3 bytes each, of which every two are added."""
    build = GraphBuilder("pairs")
    inputs = [build.input(f"x{index}", (1, 3), DType.INT32) for index in range(2 * count)]
    for index in range(count):
        build.output(build.add("ADD", [inputs[2 * index], inputs[2 * index + 1]], output=f"y{index}"))
    return build.finish()


def test_tensors_beside_each_other_go_together(transport, device):
    """Eight inputs and four outputs, each at a multiple of 64 bytes."""
    session = tosaic.Session(pairs(4), device)
    inputs = {each.name: np.arange(3, dtype=np.int32).reshape(1, 3) + 7 for each in session.inputs}
    session.run(inputs)
    transport.taken()
    outputs = session.run(inputs, check=True)
    assert all(value.tolist() == [[14, 16, 18]] for value in outputs.values()) and len(outputs) == 4
    asked = [what for what, *_ in transport.taken()]
    assert (asked.count("write_memory"), asked.count("read_memory"), len(asked)) == (1, 1, 10)


def test_what_is_joined():
    """Gaps of up to 122 bytes, on writes none in which the boot part has left weights."""
    program = tosaic.Session(pairs(2), "emulator", "nano").program
    first, second, third, _ = program.inputs
    ports = [
        replace(third, address=1200, bytes=9),
        replace(first, address=1000, bytes=1),
        replace(second, address=1065, bytes=13),
    ]
    assert spans_to_write(program, ports) == [slice(1000, 1209)]
    parts = [slice(1000, 1001), slice(1065, 1078), slice(1200, 1209)]
    assert spans_to_read(ports) == [(slice(1000, 1209), parts)]
    farther = [replace(ports[0], address=1201), *ports[1:]]
    assert spans_to_write(program, farther) == [slice(1000, 1078), slice(1201, 1210)]
    decoded = replace(program, boot=BootPart(0, 0, (DecodedBlock(0, 1100, 4, 0),)))
    assert spans_to_write(decoded, ports) == [slice(1000, 1078), slice(1200, 1209)]


def test_a_transport_of_single_registers():
    """Needs no more than `write_register`."""

    class Single(RegisterTransport):
        written: list[tuple[int, int]] = []

        def write_register(self, offset, value):
            self.written.append((offset, value))

        def read_registers(self, offset, count):
            raise NotImplementedError

        read_memory = write_memory = close = read_registers

    made = Single()
    made.write_registers(0x40, [7, 8, 9])
    assert made.written == [(0x40, 7), (0x44, 8), (0x48, 9)]


LOW_LATENCY = """
import os, sys, termios
from tosaic.driver.transports.line import SerialLine
end, other = os.openpty()
asked = []
sys.addaudithook(lambda event, arguments: asked.append(arguments[1]) if event == "fcntl.ioctl" else None)
SerialLine(os.ttyname(other)).write(b"hello\\n")
print(os.read(end, 5).decode(), asked.count(termios.TIOCGSERIAL))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the call is of Linux")
def test_a_serial_line_asks_for_low_latency():
    """A pseudo-terminal has no such thing, and works all the same."""
    pytest.importorskip("serial")
    done = subprocess.run([sys.executable, "-c", LOW_LATENCY], capture_output=True, text=True, check=True)
    assert done.stdout == "hello 1\n"


TIMER = """
import os, pathlib, sys, warnings
from tosaic.driver.transports.line import SerialLine
end, other = os.openpty()
path = os.ttyname(other)
timer = pathlib.Path(sys.argv[1]) / pathlib.Path(path).name / "device" / "latency_timer"
timer.parent.mkdir(parents=True)
timer.write_text("16\\n") if sys.argv[2] == "ours" else timer.symlink_to("/proc/sys/kernel/ngroups_max")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    SerialLine(path, sysfs=pathlib.Path(sys.argv[1]))
told = [str(each.message) for each in told if each.category is UserWarning]
print(timer.read_text().strip(), [each.replace(path, "PORT").replace(str(timer), "TIMER") for each in told])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the file is of Linux")
def test_the_timer_of_a_usb_chip(tmp_path):
    """It is set to 1 ms; where nobody may, as in a file of the kernel that only can be read, a command is told."""
    pytest.importorskip("serial")

    def told(name):
        command = [sys.executable, "-c", TIMER, str(tmp_path / name), name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert told("ours") == "1 []\n"
    assert told("kernel's") == (
        "65536 ['serial://PORT: its USB chip holds each answer for 65536 ms, and an inference waits for three: "
        "echo 1 | sudo tee TIMER']\n"
    )
