"""Programs for a desk: the commands of docs/howto_c.md, against the simulator, a board server and a board on UDP."""

import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from c_programs import STRICT, run
from device_programs import tiny

import tosaic
import tosaic.examples
from tosaic.cli import app
from tosaic.driver.c_kit import write_c_kit
from tosaic.driver.c_kit.folder import SOURCES
from tosaic.driver.server import BoardServer
from tosaic.driver.transports import RtlTransport
from tosaic.hw.bridge.datagrams import NUMBER_BYTES
from tosaic.hw.bridge.frames import FrameDecoder, encode_frame
from tosaic.hw.bridge.protocol import REQUEST_HEADER, Operation, RequestStatus
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import REGISTER

pytestmark = [
    pytest.mark.xdist_group("nano"),
    pytest.mark.skipif(shutil.which("pkg-config") is None, reason="there is no pkg-config"),
]
PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "howto_c.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
CONFIG = get_config("nano")
TOKEN = "a token of this test"


def called(words, monkeypatch):
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert not ended.value.code


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)


@pytest.fixture(scope="module")
def desk(tmp_path_factory, image):
    """A folder where the page's first commands ran, and its program was compiled as it says; the class."""
    folder = tmp_path_factory.mktemp("desk")
    model = pathlib.Path(tosaic.examples.__path__[0]) / "digits" / "digits.tosa"
    (folder / "digits.tosa").write_bytes(model.read_bytes())
    np.save(folder / "x.npy", image)
    (folder / "app.c").write_text(next(text for language, text in BLOCKS if language == "c"))
    lines = BLOCKS[0][1].splitlines()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in lines[:2]:
            called(shlex.split(line), patch)
    shown = next(text for language, text in BLOCKS if not language and "pkg-config" in text)
    build = "\n".join([lines[2].replace("python", sys.executable), *shown.splitlines()[:-1]])
    run(["bash", "-ec", build], folder)
    (scores,) = tosaic.run(str(model), {"image": image}, "emulator", config="nano").values()
    return folder, int(scores.argmax())


def told(desk, address, image, environment=None):
    """What the program prints for an address: the class, or what went wrong with exit code 1."""
    done = subprocess.run(
        ["./app", address],
        cwd=desk[0],
        input=image.tobytes(),
        capture_output=True,
        env={**os.environ, **(environment or {})},
        timeout=60,
    )
    assert (done.returncode, bool(done.stderr)) in ((0, False), (1, True))
    return (done.stdout or done.stderr).decode().strip()


def expected(desk):
    return rf"class {desk[1]} after \d+ cycles"


def test_the_simulator_in_the_programs_process(desk, image):
    first = told(desk, "sim://nano", image)
    assert re.fullmatch(expected(desk), first)
    assert told(desk, "sim://small", image) == (
        "there is no simulator of small here: tosaic c-kit -o KIT --simulator small"
    )


def test_what_tosaic_serve_serves(desk, image):
    command = [sys.executable, "-m", "tosaic", "serve", "sim://nano", "--port", "0"]
    environment = {**os.environ, "TOSAIC_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as serving:
        try:
            address = next(
                found[0]
                for line in serving.stdout
                if (found := re.search(r"tcp://[\w.]+:\d+", line.decode()))
            )
            assert re.fullmatch(expected(desk), told(desk, address, image, {"TOSAIC_TOKEN": TOKEN}))
        finally:
            serving.terminate()


def test_a_board_server(desk, image, tmp_path):
    server = BoardServer(RtlTransport(CONFIG), TOKEN)
    try:
        address = "tcp://{}:{}".format(*server.address)
        for _ in range(2):
            assert re.fullmatch(expected(desk), told(desk, address, image, {"TOSAIC_TOKEN": TOKEN}))
        file = tmp_path / "token"
        file.write_text(TOKEN + "\n")
        file.chmod(0o600)
        assert re.fullmatch(expected(desk), told(desk, f"{address}?token_file={file}", image))
        file.chmod(0o644)
        assert told(desk, f"{address}?token_file={file}", image) == (
            f"{file}: others can read this token: chmod 600 {file}"
        )
        refused = "the board server refuses the token; `tosaic serve` shows the right one"
        assert told(desk, address, image, {"TOSAIC_TOKEN": "another"}) == refused
        # HMAC hashes a key that is longer than a block.
        assert told(desk, address, image, {"TOSAIC_TOKEN": 100 * "x"}) == refused
        assert told(desk, address, image, {"TOSAIC_TOKEN": ""}) == (
            "the board server wants its token: set TOSAIC_TOKEN, or name a file with ?token_file=FILE"
        )
    finally:
        server.close()
    assert told(desk, address, image, {"TOSAIC_TOKEN": TOKEN}).endswith("nobody answers: Connection refused")


def test_another_configuration_is_refused(desk, image, tmp_path):
    write_c_kit(tmp_path / "digits.h", tiny("small"), {})
    (tmp_path / "app.c").write_text((desk[0] / "app.c").read_text())
    library = str(desk[0] / "kit" / "lib")
    run(
        [
            "gcc",
            "app.c",
            f"-I{desk[0] / 'kit/include'}",
            f"-L{library}",
            f"-Wl,-rpath,{library}",
            "-ltosaic",
            "-o",
            "app",
        ],
        tmp_path,
    )
    assert told((tmp_path, 0), "sim://nano", image) == (
        "the program was compiled for another configuration: compile for the machine's"
    )


class Board(threading.Thread):
    """The bridge's protocol over UDP in front of a simulated machine; some answers are lost, others come twice."""

    def __init__(self):
        super().__init__(daemon=True)
        self.machine = RtlTransport(CONFIG)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.answers = 0
        self.lost_after: int | None = None

    def run(self):
        newest, kept = -1, (None, b"")
        while True:
            payload, host = self.socket.recvfrom(1 << 16)
            number = int.from_bytes(payload[:NUMBER_BYTES], "little")
            (content,) = FrameDecoder().feed(payload[NUMBER_BYTES:])
            sequence, operation, count, address = REQUEST_HEADER.unpack_from(content)
            if operation == 0:
                return
            if operation != Operation.HELLO and number <= newest:
                continue
            newest = number
            if operation != Operation.HELLO and kept[0] == sequence:
                data = kept[1]
            else:
                data = self.answer(operation, count, address, content[REQUEST_HEADER.size :])
                kept = sequence, data
            self.answers += 1
            if self.answers % 40 == 39 or (self.lost_after is not None and self.answers > self.lost_after):
                continue
            frame = encode_frame(bytes([sequence]) + data + bytes([RequestStatus.OK]))
            for _ in range(2):
                self.socket.sendto(number.to_bytes(NUMBER_BYTES, "little") + frame, host)

    def answer(self, operation, count, address, data):
        machine = self.machine
        if operation == Operation.HELLO:
            return identity_of(machine).to_bytes()
        if operation == Operation.READ_REGISTERS:
            if address == REGISTER["STATUS"].offset:
                machine.wait(0)
            return b"".join(
                value.to_bytes(4, "little") for value in machine.read_registers(address, count // 4)
            )
        if operation == Operation.WRITE_REGISTERS:
            machine.write_register(address, int.from_bytes(data, "little"))
        elif operation == Operation.READ_MEMORY:
            return machine.read_memory(address - machine.identity.memory_base, count)
        else:
            assert operation == Operation.WRITE_MEMORY and len(data) == count
            machine.write_memory(address - machine.identity.memory_base, data)
        return b""


def identity_of(machine):
    """Returns the identity that a board tells: 4 KiB in a frame at most."""
    return dataclasses.replace(machine.identity, name="test", data_bytes=4096)


@pytest.fixture
def board():
    made = Board()
    made.start()
    yield made
    port = made.socket.getsockname()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ender:
        ender.sendto(bytes(NUMBER_BYTES) + encode_frame(REQUEST_HEADER.pack(0, 0, 0, 0)), port)
    made.join(10)
    made.socket.close()
    made.machine.close()


def test_a_board_on_ethernet_that_loses_and_repeats_datagrams(desk, image, board):
    assert re.fullmatch(expected(desk), told(desk, f"udp://127.0.0.1:{board.socket.getsockname()[1]}", image))
    assert board.answers > 20


@pytest.mark.nightly
def test_a_board_that_falls_silent_is_told(desk, image, board):
    board.lost_after = 10
    assert told(desk, f"udp://127.0.0.1:{board.socket.getsockname()[1]}", image) == (
        "the way to the machine is lost: the port tells why the board does not answer: is it on this network, with "
        "Ethernet, and at this address?"
    )


@pytest.mark.parametrize(
    "address, message",
    {
        "nano": "nano: no address: give tcp://HOST:PORT, udp://HOST or sim://CONFIG",
        "tcps://there": "tcps://there: there is no TLS here: use tcp:// through a tunnel of ssh",
        "tcp://": "tcp://: this is no HOST or HOST:PORT",
        "tcp://there:": "tcp://there:: this is no HOST or HOST:PORT",
        "udp://there?x=1": "udp://there?x=1: no address: give tcp://HOST:PORT, perhaps with ?token_file=FILE, "
        "udp://HOST or sim://CONFIG",
    }.items(),
)
def test_wrong_addresses(desk, image, address, message):
    assert told(desk, address, image) == message


def test_gcc_alone(desk, image):
    """`gcc app.c -ltosaic` where the compiler looks into the kit, as it does into /usr/local."""
    folder, _ = desk
    places = {"C_INCLUDE_PATH": "include", "LIBRARY_PATH": "lib", "LD_LIBRARY_PATH": "lib"}
    found = {**os.environ, **{name: str(folder / "kit" / place) for name, place in places.items()}}
    run(["gcc", "app.c", "-ltosaic", "-o", "plain"], folder, env=found)
    done = run(["./plain", "sim://nano"], folder, env=found, input=image.tobytes())
    assert re.fullmatch(expected(desk), done.stdout.decode().strip())


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
def test_the_pages_cmake_file(desk, image, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(next(text for language, text in BLOCKS if language == "cmake"))
    for name in ("app.c", "digits.h"):
        (tmp_path / name).write_bytes((desk[0] / name).read_bytes())
    run(["cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={desk[0] / 'kit'}"], tmp_path)
    run(["cmake", "--build", "build"], tmp_path)
    done = run(["build/app", "sim://nano"], tmp_path, input=image.tobytes())
    assert re.fullmatch(expected(desk), done.stdout.decode().strip())


@pytest.mark.parametrize("source", sorted(path.name for path in (SOURCES / "desk").glob("*.c")))
def test_strict_compilers_take_it(desk, tmp_path, source):
    include = f"-I{desk[0] / 'kit' / 'include'}"
    command = ["gcc", *STRICT, "-Wshadow", "-Wconversion", "-O2", "-fPIC", include, "-c"]
    run([*command, str(SOURCES / "desk" / source), "-o", "out.o"], tmp_path)


def test_without_a_compiler_the_kit_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(sys, "argv", ["tosaic", "c-kit", "-o", str(tmp_path / "kit")])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.strip() == (
        "tosaic: error: the C kit needs no-such-compiler, which is not there; install a C compiler or set CC"
    )
