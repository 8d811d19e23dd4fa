"""The board server and its client: tokens, turns, what goes wrong on a network."""

import random
import socket
import threading
import time

import numpy as np
import pytest
from device_programs import check_run, endless, tiny

import tosaic
from tosaic.driver import server as server_module
from tosaic.driver.server import BoardServer
from tosaic.driver.transports import RtlTransport, TcpTransport
from tosaic.driver.transports.wire import (
    FIELDS,
    GREETING,
    LENGTH,
    MAX_MESSAGE_BYTES,
    NONCE_BYTES,
    Request,
    proof,
    receive_exactly,
)
from tosaic.hw.config import get_config

pytestmark = pytest.mark.xdist_group("nano")
TOKEN = "not a secret"


@pytest.fixture(scope="module")
def server():
    device = RtlTransport(get_config("nano"), memory_bytes=1 << 20)
    made = BoardServer(device, TOKEN)
    yield made
    made.close()
    device.close()


@pytest.fixture(scope="module")
def program():
    return tiny("nano")


def connect(server, token=TOKEN):
    return TcpTransport(*server.address, token)


def all_gone(server):
    """The server's threads notice within moments that their clients went."""
    for _ in range(1000):
        if not server.clients:
            return True
        time.sleep(0.01)
    return False


def test_a_session_over_tcp(server, monkeypatch):
    monkeypatch.setenv("TOSAIC_TOKEN", TOKEN)
    from pathlib import Path

    model = Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
    host, port = server.address
    assert host == "127.0.0.1"
    image = {"image": np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)}
    with tosaic.Session(model, f"tcp://{host}:{port}") as session:
        assert session.config.name == "nano"
        assert session.device._transport.device == "sim://nano"
        session.run(image, check=True)
        session.run(image, check=True)


def test_a_wrong_token_is_refused(server):
    for token in ("", "Not a secret", TOKEN + "x"):
        with pytest.raises(
            tosaic.DeviceError, match=r"^tcp://127\.0\.0\.1:\d+: the board server refuses the token; "
        ):
            connect(server, token)
    connect(server).close()
    with pytest.raises(ValueError, match=r"^token must not be empty$"):
        BoardServer(RtlTransport.__new__(RtlTransport), "")


def test_who_only_looks_in_is_dropped(server, monkeypatch):
    """No proof, no answer, and no thread kept for long."""
    monkeypatch.setattr(server_module, "HANDSHAKE_SECONDS", 0.05)
    silent = socket.create_connection(server.address)
    receive_exactly(silent, len(GREETING) + NONCE_BYTES)
    silent.settimeout(10)
    assert silent.recv(1) == b""
    silent.close()
    assert all_gone(server)


def test_four_clients_in_turn(server, program):
    """Each runs networks of its own; none sees another's results."""
    problems = []

    def client(number):
        try:
            device = tosaic.Device(connect(server))
            for seed in range(5):
                check_run(device, program, 100 * number + seed)
            device.close()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_client_that_vanishes_while_its_program_runs(server, program):
    gone = connect(server)
    device = tosaic.Device(gone)
    gone.wait = lambda attempt: gone.close()
    with pytest.raises(tosaic.DeviceError, match=r"the connection to the board server is lost"):
        device.run(endless("nano"), endless("nano").memory())
    check_run(tosaic.Device(connect(server)), program, 1)


def test_errors_of_the_device_arrive_in_words(server, program):
    device = tosaic.Device(connect(server))
    with pytest.raises(
        tosaic.DeviceError, match=r"^tcp://.*: the program did not end in 90000 cycles; UNITS is 0x"
    ):
        device.run(endless("nano"), endless("nano").memory(), 90_000)
    check_run(device, program, 2)
    transport = device._transport
    transport.acquire()
    with pytest.raises(
        tosaic.DeviceError, match=r"^tcp://.*: sim://nano: 4 bytes at 0x100000 lie outside its memory$"
    ):
        transport.read_memory(1 << 20, 4)
    with pytest.raises(
        tosaic.DeviceError, match=r"^tcp://.*: the control port answers the read of register 0xffc with 2,"
    ):
        transport.read_registers(0xFFC, 1)
    assert transport.reset() is False
    transport.release()
    with pytest.raises(tosaic.DeviceError, match=r"^tcp://.*: the device was not acquired$"):
        transport.write_register(0, 0)
    device.close()


def test_someone_who_does_not_give_the_device_back(server, program, monkeypatch):
    greedy = connect(server)
    greedy.acquire()
    monkeypatch.setattr("tosaic.driver.transports.tcp.TURN_SECONDS", 0)
    patient = tosaic.Device(connect(server))
    with pytest.raises(
        tosaic.DeviceError, match=r": another client has the board and does not give it back$"
    ):
        check_run(patient, program, 3)
    # Silence is not for ever, either.
    monkeypatch.setattr("tosaic.driver.transports.tcp.TURN_SECONDS", 60)
    monkeypatch.setattr(server_module, "HOLD_SECONDS", 0.05)
    greedy.read_registers(0, 1)
    check_run(patient, program, 4)


def test_a_thousand_connections(server, program):
    for number in range(1000):
        if number % 3:
            connect(server).close()
        else:
            socket.create_connection(server.address).close()
    assert all_gone(server)
    assert threading.active_count() < 20
    check_run(tosaic.Device(connect(server)), program, 5)


def admitted(server):
    connection = socket.create_connection(server.address)
    connection.settimeout(10)
    nonce = receive_exactly(connection, len(GREETING) + NONCE_BYTES)[len(GREETING) :]
    connection.sendall(proof(TOKEN, nonce))
    assert receive_exactly(connection, 1) == b"\x01"
    return connection


def answer(connection):
    (length,) = LENGTH.unpack(receive_exactly(connection, LENGTH.size))
    return receive_exactly(connection, length)


@pytest.mark.parametrize(
    "body, wanted",
    [
        (b"\xff", b"\x02no request: ff"),
        (b"\x04\0\0", b"\x02no request: 040000"),
        (b"\x01more", b"\x02IDENTIFY has 4 bytes too many"),
    ],
)
def test_nonsense_is_told_and_ends_the_connection(server, body, wanted):
    connection = admitted(server)
    connection.sendall(LENGTH.pack(len(body)) + body)
    assert answer(connection) == wanted
    assert connection.recv(1) == b""
    connection.close()


def test_fuzzed_messages(server, program):
    """Lengths, operations and fields at random: the server and its device stand."""
    rng = random.Random(1)
    for _ in range(150):
        connection = admitted(server)
        for _ in range(rng.randint(1, 4)):
            request = rng.choice(list(Request))
            body = bytes([request]) + rng.randbytes(FIELDS[request].size)
            if request == Request.ACQUIRE:
                body = bytes([request]) + bytes(4)
            match rng.randint(0, 5):
                case 0:
                    body = rng.randbytes(rng.randint(1, 40))
                case 1:
                    body += rng.randbytes(rng.randint(1, 20))
            length = rng.choice(
                [len(body)] * 6 + [0, MAX_MESSAGE_BYTES + 1, rng.randrange(1 << 32), len(body) + 5]
            )
            try:
                connection.sendall(LENGTH.pack(length) + body)
                if length != len(body):
                    break
                answer(connection)
            except Exception:  # The server hung up, as it may.
                break
        connection.close()
    assert all_gone(server)
    check_run(tosaic.Device(connect(server)), program, 6)


def test_no_server():
    with pytest.raises(tosaic.DeviceError, match=r"^tcp://127\.0\.0\.1:9: no board server answers: "):
        TcpTransport("127.0.0.1", 9, TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as other:

        def greet():
            with other.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(tosaic.DeviceError, match=r": this is no Tosaic board server$"):
            TcpTransport(*other.getsockname(), TOKEN)
        thread.join()


def test_an_address_that_is_taken(server):
    with pytest.raises(
        tosaic.DeviceError, match=r"^cannot serve on 127\.0\.0\.1:\d+: Address already in use$"
    ):
        BoardServer(RtlTransport.__new__(RtlTransport), TOKEN, *server.address)
