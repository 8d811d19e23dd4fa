"""The board server and its client: tokens, what goes wrong on a network, servers that come and go."""

import contextlib
import os
import pathlib
import random
import resource
import socket
import threading
import time

import numpy as np
import pytest
from device_programs import check_run, endless, tiny
from server_clients import TOKEN, admitted, all_gone, answer, connect, greeted, limited, soon

import tosaic
from tosaic.driver.server import BoardServer, ServerLimits
from tosaic.driver.server.connections import Connections
from tosaic.driver.server.server import ACCEPT_PAUSE_SECONDS
from tosaic.driver.transports import RtlTransport, TcpTransport
from tosaic.driver.transports.wire import (
    FIELDS,
    GREETING,
    LENGTH,
    MAX_MESSAGE_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    ConnectionEnded,
    Request,
    receive_exactly,
    receive_message,
    send_message,
)
from tosaic.hw.config_text import get_config

MODEL = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
pytestmark = pytest.mark.xdist_group("nano")


@pytest.fixture(scope="module")
def small():
    """A transport to a machine in this process."""
    made = RtlTransport(get_config("nano"), memory_bytes=1 << 20)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(small):
    made = BoardServer(small, TOKEN)
    yield made
    made.close()


@pytest.fixture(scope="module")
def program():
    return tiny("nano")


def test_a_session_over_tcp(server, monkeypatch):
    monkeypatch.setenv("TOSAIC_TOKEN", TOKEN)
    host, port = server.address
    assert host == "127.0.0.1"
    image = {"image": np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)}
    with tosaic.Session(MODEL, f"tcp://{host}:{port}") as session:
        assert session.config.name == "nano"
        session.run(image, check=True)
        session.run(image, check=True)
    with contextlib.closing(connect(server)) as client:
        assert client.device == "sim://nano"


def test_a_wrong_token_is_refused(server, small):
    for token in ("", "Not a secret", TOKEN + "x"):
        with pytest.raises(
            tosaic.DeviceError, match=r"^tcp://127\.0\.0\.1:\d+: the board server refuses the token; "
        ):
            connect(server, token)
    connect(server).close()
    with pytest.raises(ValueError, match=r"^token must not be empty$"):
        BoardServer(small, "")


def test_who_only_looks_in_is_dropped():
    """No proof, no answer, and no thread kept for long: not for a byte now and then, either."""
    with limited(handshake_seconds=0.3) as server:
        silent, slow = (socket.create_connection(server.address) for _ in range(2))
        for connection in (silent, slow):
            receive_exactly(connection, len(GREETING) + NONCE_BYTES, soon())
        with contextlib.suppress(OSError):
            for _ in range(PROOF_BYTES - 1):
                slow.sendall(b"x")
                time.sleep(0.02)
        for connection in (silent, slow):
            connection.settimeout(10)
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b""
            connection.close()
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
    with pytest.raises(
        tosaic.DeviceError, match=r"the connection to the board server is lost: it was closed$"
    ):
        device.run(endless("nano"), endless("nano").memory())
    check_run(tosaic.Device(connect(server)), program, 1)


def test_errors_of_the_device_arrive_in_words(server, program):
    transport = connect(server)
    device = tosaic.Device(transport)
    with pytest.raises(
        tosaic.DeviceError, match=r"^tcp://.*: the program did not end in 90000 cycles; UNITS is 0x"
    ):
        device.run(endless("nano"), endless("nano").memory(), 90_000)
    check_run(device, program, 2)
    transport.acquire()
    with pytest.raises(
        tosaic.DeviceError,
        match=r"^tcp://.*: sim://nano: 4 bytes at 0x100000 lie outside its 1048576 bytes of memory$",
    ):
        transport.read_memory(1 << 20, 4)
    with pytest.raises(
        tosaic.DeviceError, match=r"^tcp://.*: sim://nano: register 0xffc is not for clients$"
    ):
        transport.read_registers(0xFFC, 1)
    assert transport.reset() is False
    transport.release()
    with pytest.raises(tosaic.DeviceError, match=r"^tcp://.*: the device was not acquired$"):
        transport.finish()
    device.close()


def test_strangers_do_not_keep_a_client_out(server, program):
    """The reproducer: connections that never prove the token."""
    strangers = [socket.create_connection(server.address) for _ in range(64)]
    check_run(tosaic.Device(connect(server)), program, 7)
    for stranger in strangers:
        stranger.close()
    assert all_gone(server)


def test_strangers_push_out_those_of_their_own_address():
    pairs = [socket.socketpair() for _ in range(5)]
    connections = Connections(ServerLimits(strangers=3, strangers_per_address=2))
    gone = []
    for (mine, theirs), address in zip(pairs, "aabac", strict=True):
        theirs.setblocking(False)
        connections.arrive(mine, address)
    for number, (_, theirs) in enumerate(pairs):
        with contextlib.suppress(BlockingIOError):
            assert theirs.recv(1) == b""
            gone.append(number)
    # 0 for the third of "a"; then, for "c", 1, the oldest of the address with the most.
    assert gone == [0, 1] and len(connections) == 3
    connections.push_out_oldest_stranger()
    assert len(connections) == 2
    for pair in pairs:
        for end in pair:
            end.close()


def test_more_clients_than_there_are_places():
    with limited(clients_per_address=2) as server:
        inside = [connect(server) for _ in range(2)]
        with pytest.raises(
            tosaic.DeviceError,
            match=r"^tcp://.*: the board server has all the clients it takes: try again later$",
        ):
            connect(server)
        inside[0].close()
        for _ in range(1000):
            if server.clients < 2:
                break
            time.sleep(0.01)
        connect(server).close()


def test_a_computer_without_room_for_connections(program):
    """accept fails for a while: the server neither ends nor spins."""
    with limited() as server:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        clients = [socket.socket() for _ in range(20)]
        lowest = os.dup(0)
        os.close(lowest)
        try:
            # No number is left; a call of accept that waits already has one, which serves one client after the other.
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
            for client in clients:
                client.connect(server.address)
            began = time.process_time()
            time.sleep(3 * ACCEPT_PAUSE_SECONDS)
            assert time.process_time() - began < ACCEPT_PAUSE_SECONDS
            clients[-1].setblocking(False)
            with pytest.raises(BlockingIOError):
                clients[-1].recv(1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        clients[-1].settimeout(10)
        for client in clients:
            assert receive_exactly(client, len(GREETING), soon()) == GREETING
            client.close()
        check_run(tosaic.Device(connect(server)), program, 8)


def test_a_thousand_connections(server, program):
    for number in range(1000):
        if number % 3:
            connect(server).close()
        else:
            socket.create_connection(server.address).close()
    assert all_gone(server)
    assert threading.active_count() < 20
    check_run(tosaic.Device(connect(server)), program, 5)


@pytest.mark.parametrize(
    "body, wanted",
    [
        (b"\xff", b"\x02no request: ff"),
        (b"\x14\0\0", b"\x02no request: 140000"),
        (b"\x10\x02\0\0\0more", b"\x02HELLO has 4 bytes too many"),
        (b"\x12", b"\x02RELEASE before HELLO"),
        (
            b"\x01",
            b"\x01this board server speaks version 2 of its protocol, the client version 1: install the server's "
            b"version of tosaic",
        ),
        (
            b"\x10\x09\0\0\0",
            b"\x01this board server speaks version 2 of its protocol, the client version 9: install the server's "
            b"version of tosaic",
        ),
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
    interesting = (0, 1, 4, 0x10, 0x40, 1 << 12, (1 << 20) - 1, 1 << 20, 1 << 31, (1 << 32) - 1)
    for _ in range(50):
        connection = greeted(server) if rng.randrange(8) else admitted(server)
        with contextlib.suppress(ConnectionEnded, OSError):  # The server may hang up.
            if rng.randrange(4):
                send_message(connection, bytes([Request.ACQUIRE]) + FIELDS[Request.ACQUIRE].pack(10), soon())
                answer(connection)
            for _ in range(rng.randint(1, 8)):
                request = rng.choice(list(Request))
                count = FIELDS[request].size // 4
                fields = [rng.choice((*interesting, rng.randrange(1 << 32))) for _ in range(count)]
                body = bytes([request]) + FIELDS[request].pack(*fields)
                if request == Request.ACQUIRE:
                    body = bytes([request]) + bytes(4)
                match rng.randint(0, 7):
                    case 0:
                        body = rng.randbytes(rng.randint(1, 40))
                    case 1:
                        body += rng.randbytes(rng.randint(1, 20))
                length = rng.choice(
                    [len(body)] * 12 + [0, MAX_MESSAGE_BYTES + 1, rng.randrange(1 << 32), len(body) + 5]
                )
                connection.sendall(LENGTH.pack(length) + body)
                if length != len(body):
                    break
                answer(connection)
        connection.close()
    assert all_gone(server)
    check_run(tosaic.Device(connect(server)), program, 6)


def test_no_server(monkeypatch):
    with pytest.raises(tosaic.DeviceError, match=r"^tcp://127\.0\.0\.1:9: no board server answers: "):
        TcpTransport("127.0.0.1", 9, TOKEN)
    monkeypatch.setattr("tosaic.driver.transports.tcp.CONNECT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as other:

        def greet():
            with other.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(tosaic.DeviceError, match=r": this is no Tosaic board server$"):
            TcpTransport(*other.getsockname(), TOKEN)
        thread.join()


@contextlib.contextmanager
def hanging_up(server, times):
    """The address of a relay to a server, which ends so many connections before it lets one through."""
    with socket.create_server(("127.0.0.1", 0)) as front, contextlib.ExitStack() as ends:
        accepted = []

        def relay(source, target):
            with contextlib.suppress(OSError):
                while data := source.recv(4096):
                    target.sendall(data)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(ends.enter_context(front.accept()[0]))
                    if len(accepted) <= times:
                        accepted[-1].close()
                        continue
                    behind = ends.enter_context(socket.create_connection(server.address))
                    for pair in ((accepted[-1], behind), (behind, accepted[-1])):
                        threading.Thread(target=relay, args=pair, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield front.getsockname(), accepted
        front.shutdown(socket.SHUT_RDWR)


def test_a_server_that_hangs_up_at_first(server, monkeypatch):
    """A server with too many strangers does so: the client tries again, and not for ever."""
    with hanging_up(server, 2) as (address, accepted):
        TcpTransport(*address, TOKEN).close()
        assert len(accepted) == 3
    monkeypatch.setattr("tosaic.driver.transports.tcp.CONNECT_SECONDS", 0.3)
    with (
        hanging_up(server, 1 << 30) as (address, _),
        pytest.raises(
            tosaic.DeviceError,
            match=r"^tcp://.*: the board server hangs up: .*; if it was started with --tls-cert, write tcps://HOST:PORT\?ca",
        ),
    ):
        TcpTransport(*address, TOKEN)


def test_a_server_of_another_version():
    """What a server of version 1 answers to the first request of this client."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve():
            with other.accept()[0] as connection:
                connection.sendall(GREETING + bytes(NONCE_BYTES))
                receive_exactly(connection, PROOF_BYTES, soon())
                connection.sendall(b"\x01")
                body = receive_message(connection, soon())
                send_message(connection, b"\x02no request: " + body.hex().encode(), soon())

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(
            tosaic.DeviceError,
            match=r": the board server speaks an older protocol than this client's, version 2: install this tosaic ",
        ):
            TcpTransport(*other.getsockname(), TOKEN)
        thread.join()


def test_a_server_that_is_killed_and_started_again(program):
    """It is killed between two runs and in the middle of one: the next run connects, and sends everything anew."""
    device = RtlTransport(get_config("nano"), memory_bytes=1 << 20)
    server = BoardServer(device, TOKEN)
    address = server.address
    transport = connect(server)
    client = tosaic.Device(transport)
    check_run(client, program, 1)

    def again():
        server.close()
        return BoardServer(device, TOKEN, *address)

    server = again()
    check_run(client, program, 2)
    wait = transport.wait

    def killed(attempt):
        server.close()
        wait(attempt)

    transport.wait = killed
    with pytest.raises(tosaic.DeviceError, match=r"^tcp://.*: the connection to the board server is lost: "):
        client.run(endless("nano"), endless("nano").memory())
    transport.wait = wait
    with pytest.raises(tosaic.DeviceError, match=r"^tcp://.*: no board server answers: Connection refused$"):
        check_run(client, program, 3)
    server = BoardServer(device, TOKEN, *address)
    check_run(client, program, 3)
    server.close()
    device.close()


def test_another_device_at_the_same_address(program):
    devices = [RtlTransport(get_config("nano"), memory_bytes=1 << size) for size in (20, 21)]
    server = BoardServer(devices[0], TOKEN)
    client = tosaic.Device(connect(server))
    check_run(client, program, 1)
    server.close()
    server = BoardServer(devices[1], TOKEN, *server.address)
    with pytest.raises(
        tosaic.DeviceError, match=r"^tcp://.*: another device is served now: sim: open it anew$"
    ):
        check_run(client, program, 2)
    server.close()
    for device in devices:
        device.close()


def test_an_address_that_is_taken(server, small):
    with pytest.raises(
        tosaic.DeviceError, match=r"^cannot serve on 127\.0\.0\.1:\d+: Address already in use$"
    ):
        BoardServer(small, TOKEN, *server.address)
