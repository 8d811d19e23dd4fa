"""The board server and its client: tokens, turns, what goes wrong on a network."""

import contextlib
import errno
import random
import socket
import threading
import time

import numpy as np
import pytest
from device_programs import check_run, endless, tiny

import tosaic
from tosaic.driver.server import BoardServer, Limits
from tosaic.driver.server.connections import Connections
from tosaic.driver.server.server import ACCEPT_PAUSE_SECONDS
from tosaic.driver.server.turn import Turn
from tosaic.driver.transports import RtlTransport, TcpTransport
from tosaic.driver.transports.wire import (
    FIELDS,
    GREETING,
    LENGTH,
    MAX_MESSAGE_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    PROTOCOL_VERSION,
    ConnectionEnded,
    Outcome,
    Request,
    proof,
    receive_exactly,
    receive_message,
    send_message,
)
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import REGISTER

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


@contextlib.contextmanager
def limited(device=None, **limits):
    """A server with limits of its own."""
    own = device or RtlTransport(get_config("nano"), memory_bytes=1 << 20)
    made = BoardServer(own, TOKEN, limits=Limits(**limits))
    yield made
    made.close()
    own.close()


def soon():
    return time.monotonic() + 10


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
    device = tosaic.Device(connect(server))
    with pytest.raises(
        tosaic.DeviceError, match=r"^tcp://.*: the program did not end in 90000 cycles; UNITS is 0x"
    ):
        device.run(endless("nano"), endless("nano").memory(), 90_000)
    check_run(device, program, 2)
    transport = device._transport
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


def test_someone_who_does_not_give_the_device_back(program, monkeypatch):
    with limited(hold_seconds=2.0) as server:
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
        check_run(patient, program, 4)
        with pytest.raises(tosaic.DeviceError, match=r": who has the board and is silent for 2 s loses it$"):
            greedy.read_registers(0, 1)
        assert greedy.acquire() is False


def test_a_request_that_comes_byte_by_byte(program):
    """The time to say something is for the whole request."""
    with limited(hold_seconds=2.0) as server:
        greedy = connect(server)
        greedy.acquire()
        with pytest.raises(OSError):
            for _ in range(5000):
                greedy._connection.sendall(LENGTH.pack(1 << 20)[:1])
                time.sleep(0.01)
        check_run(tosaic.Device(connect(server)), program, 4)


def test_a_turn_has_an_end(program):
    with limited(turn_seconds=2.0) as server:
        greedy = connect(server)
        greedy.acquire()
        with pytest.raises(
            tosaic.DeviceError, match=r"^tcp://.*: the turn of 2 s is over, others may want the board$"
        ):
            while True:
                greedy.read_registers(0, 1)
        with pytest.raises(tosaic.DeviceError, match=r": the turn of 2 s is over, "):
            greedy.read_registers(0, 1)
        check_run(tosaic.Device(connect(server)), program, 4)


def test_a_program_has_an_end(program):
    """A loop is stopped, and its client told; who asks next has a machine that is idle."""
    with limited(run_seconds=0.3) as server:
        device = tosaic.Device(connect(server))
        with pytest.raises(
            tosaic.DeviceError,
            match=r"^tcp://.*: the program was stopped after 0\.3 s, the longest run that this board server allows$",
        ):
            device.run(endless("nano"), endless("nano").memory())
        check_run(device, program, 4)
        # Nor does it go on when its client lets go of the device.
        other = connect(server)
        other.acquire()
        forever = endless("nano")
        other.write_memory(0, forever.image)
        other.start(forever.memory_bytes, forever.program_address, forever.program_bytes)
        other.release()
        other.acquire()
        assert other.read_registers(REGISTER["STATUS"].offset, 1) == [1]


def test_turns_of_groups():
    """One turn for each group of those who wait, in the order of asking within a group; who is gone has no place."""
    turn, order, gone = Turn(), [], set()
    assert turn.take("first", 0, "a")
    assert not turn.take("impatient", 0, "b")

    def ask(name):
        got = turn.take(name, 10, name[0], lambda: name in gone)
        order.append((name, got))

    threads = []
    for name in ("a1", "a2", "a3", "b1", "ghost", "b2", "c1"):
        threads.append(threading.Thread(target=ask, args=(name,)))
        threads[-1].start()
        time.sleep(0.05)  # they ask one after the other
    turn.give("a3")  # not its turn
    gone.add("ghost")
    for given, name in enumerate(("first", "b1", "c1", "a1", "b2")):
        turn.give(name)
        for _ in range(1000):
            if sum(got for _, got in order) > given:
                break
            time.sleep(0.001)
    turn.end()
    for thread in threads:
        thread.join()
    assert [each for each in order if each[0] != "ghost"] == [
        *((name, True) for name in ("b1", "c1", "a1", "b2", "a2")),
        ("a3", False),
    ]
    assert ("ghost", False) in order


def test_strangers_do_not_keep_a_client_out(server, program):
    """The reproducer: connections that never prove the token."""
    strangers = [socket.create_connection(server.address) for _ in range(64)]
    check_run(tosaic.Device(connect(server)), program, 7)
    for stranger in strangers:
        stranger.close()
    assert all_gone(server)


def test_strangers_push_out_those_of_their_own_address():
    pairs = [socket.socketpair() for _ in range(5)]
    connections = Connections(Limits(strangers=3, strangers_per_address=2))
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


def test_a_computer_without_room_for_connections(server, program, monkeypatch):
    """accept fails for a while: the server neither ends nor spins."""
    accept, calls = server._listener.accept, []

    class Full:
        def __getattr__(self, name):
            return getattr(listener, name)

        def accept(self):
            calls.append(0)
            if len(calls) < 4:
                raise OSError(errno.EMFILE, "Too many open files")
            return accept()

    listener = server._listener
    monkeypatch.setattr(server, "_listener", Full())
    # The call of accept that waits already is still the old one.
    connect(server).close()
    began = time.monotonic()
    check_run(tosaic.Device(connect(server)), program, 8)
    assert len(calls) >= 4 and time.monotonic() - began >= 3 * ACCEPT_PAUSE_SECONDS


def asking(server, address="127.0.0.1"):
    """A connection from an address, which has asked for the device and reads no answer yet."""
    connection = greeted(server, address)
    send_message(connection, bytes([Request.ACQUIRE]) + FIELDS[Request.ACQUIRE].pack(60), soon())
    return connection


def test_ghosts_keep_nobody_out(program):
    """Who hangs up while he waits loses his place at once: among the clients, and in the order of turns."""
    with limited(clients_per_address=4) as server:
        worker = connect(server)
        worker.acquire()
        for _ in range(3):
            ghosts = [asking(server) for _ in range(3)]
            with pytest.raises(tosaic.DeviceError, match="has all the clients it takes"):
                connect(server)
            for ghost in ghosts:
                ghost.close()
            for _ in range(1000):
                if server.clients == 1:
                    break
                time.sleep(0.01)
            assert server.clients == 1
        honest = tosaic.Device(connect(server))
        worker.close()
        check_run(honest, program, 3)


def test_keepers_of_one_address_leave_a_turn_to_another(program):
    """Eight keep their turns of 0.3 s and ask again at once; one of another address waits for one turn at most."""
    with limited(turn_seconds=0.3) as server:
        stop, turns = threading.Event(), []

        def keep():
            connection = asking(server, "127.0.0.2")
            status = FIELDS[Request.READ_REGISTERS].pack(REGISTER["STATUS"].offset, 1)
            read = bytes([Request.READ_REGISTERS]) + status
            again = bytes([Request.ACQUIRE]) + FIELDS[Request.ACQUIRE].pack(60)
            asked = again
            while not stop.is_set():
                told = answer(connection)
                if asked is again:
                    turns.append(connection)
                asked = again if told[0] == Outcome.NOT_ACQUIRED else read
                send_message(connection, asked, soon())
            connection.close()

        keepers = [threading.Thread(target=keep) for _ in range(8)]
        for keeper in keepers:
            keeper.start()
        while not turns:
            time.sleep(0.01)
        honest, others = connect(server), []
        for _ in range(3):
            before = len(turns)
            honest.acquire()
            others.append(len(turns) - before)
            honest.release()
        stop.set()
        honest.close()
        for keeper in keepers:
            keeper.join()
        # One that was given before this one asked may be told after.
        assert max(others) <= 2, others


def test_a_thousand_connections(server, program):
    for number in range(1000):
        if number % 3:
            connect(server).close()
        else:
            socket.create_connection(server.address).close()
    assert all_gone(server)
    assert threading.active_count() < 20
    check_run(tosaic.Device(connect(server)), program, 5)


def admitted(server, address="127.0.0.1"):
    connection = socket.create_connection(server.address, source_address=(address, 0))
    connection.settimeout(10)
    nonce = receive_exactly(connection, len(GREETING) + NONCE_BYTES, soon())[len(GREETING) :]
    connection.sendall(proof(TOKEN, nonce))
    assert receive_exactly(connection, 1, soon()) == b"\x01"
    return connection


def greeted(server, address="127.0.0.1"):
    connection = admitted(server, address)
    send_message(connection, bytes([Request.HELLO]) + FIELDS[Request.HELLO].pack(PROTOCOL_VERSION), soon())
    assert answer(connection)[0] == 0
    return connection


def answer(connection):
    return receive_message(connection, soon())


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


def test_a_server_that_hangs_up_at_first(server, monkeypatch):
    """As one does that has too many strangers: the client tries again, and not for ever."""
    arrive, calls = server._connections.arrive, []

    def busy(connection, address):
        calls.append(address)
        arrive(connection, address)
        if len(calls) != 3:
            server._connections.push_out_oldest_stranger()

    monkeypatch.setattr(server._connections, "arrive", busy)
    connect(server).close()
    assert len(calls) == 3
    monkeypatch.setattr("tosaic.driver.transports.tcp.CONNECT_SECONDS", 0.3)
    with pytest.raises(
        tosaic.DeviceError,
        match=r"^tcp://.*: the board server hangs up: .*; if it was started with --tls-cert, write tcps://HOST:PORT\?ca",
    ):
        connect(server)


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
    """Between two runs and in the middle of one: the next run connects, and sends everything anew."""
    device = RtlTransport(get_config("nano"), memory_bytes=1 << 20)
    server = BoardServer(device, TOKEN)
    address = server.address
    client = tosaic.Device(connect(server))
    check_run(client, program, 1)

    def again():
        server.close()
        return BoardServer(device, TOKEN, *address)

    server = again()
    check_run(client, program, 2)
    transport = client._transport
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


def test_an_address_that_is_taken(server):
    with pytest.raises(
        tosaic.DeviceError, match=r"^cannot serve on 127\.0\.0\.1:\d+: Address already in use$"
    ):
        BoardServer(RtlTransport.__new__(RtlTransport), TOKEN, *server.address)
