"""udp://: requests over a network that loses, repeats, delays and damages datagrams; each is executed once."""

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tosaic
from tosaic.driver.transports import UdpTransport, Unreachable, open_transport
from tosaic.driver.transports import bridge as bridge_module
from tosaic.driver.transports.udp import UdpLine
from tosaic.hw.bridge.datagrams import COUNT_BITS, NUMBER_BYTES
from tosaic.hw.bridge.frames import FrameDecoder, encode_frame
from tosaic.hw.bridge.protocol import REQUEST_HEADER, WRITES, Identity, Operation, RequestStatus

IDENTITY = Identity("model", 0x1000, 256, 50_000_000, 64)
ARRIVES, LOST, TWICE, DAMAGED = range(4)
"""What may happen to a datagram; more than that: it comes after that number of others."""


class ModelBoard:
    """What boards/soc/udp_link.py and hw/bridge do, without the hardware."""

    def __init__(self):
        self.memory, self.log = bytearray(256), []
        self.last_number, self.current, self.status = 0, None, RequestStatus.OK

    def hear(self, payload: bytes) -> bytes | None:
        number = int.from_bytes(payload[:NUMBER_BYTES], "little")
        known = number >> COUNT_BITS == self.last_number >> COUNT_BITS
        if number <= self.last_number if known else number % (1 << COUNT_BITS):
            return None
        self.last_number = number
        for content in FrameDecoder().feed(payload[NUMBER_BYTES:]):
            sequence, operation, count, address = REQUEST_HEADER.unpack_from(content)
            answer = self._execute(
                sequence, Operation(operation), count, address, content[REQUEST_HEADER.size :]
            )
            return payload[:NUMBER_BYTES] + encode_frame(bytes([sequence]) + answer)
        return None

    def _execute(self, sequence, operation, count, address, data) -> bytes:
        if operation == Operation.HELLO:
            self.current = sequence
            return IDENTITY.to_bytes() + bytes([RequestStatus.OK])
        if self.current is None or (sequence - self.current) % 256 > 1:
            return bytes([RequestStatus.OUT_OF_SEQUENCE])
        repeated, self.current = sequence == self.current, sequence
        start = address - IDENTITY.memory_base
        if operation in WRITES and not repeated:
            self.memory[start : start + count] = data
            self.log.append((start, data))
        read = bytes(self.memory[start : start + count]) if operation == Operation.READ_MEMORY else b""
        return read + bytes([RequestStatus.OK])


class Network:
    """A port whose datagrams, to the board and from it, have the next of `fates`; when these are over, all arrive."""

    def __init__(self, board, fates=()):
        self.board, self.fates = board, list(fates)
        self.late: list[tuple[int, bool, bytes]] = []
        self.came: list[bytes] = []
        self.copies: list[bytes] = []
        self.is_cut = False

    def send(self, payload):
        self.copies.append(payload)
        self._pass(True, payload)
        due = [entry for entry in self.late if entry[0] <= 0]
        self.late = [(left - 1, to_board, data) for left, to_board, data in self.late if left > 0]
        for _, to_board, data in due:
            self.deliver(to_board, data)

    def _pass(self, to_board, payload):
        fate = LOST if self.is_cut else self.fates.pop(0) if self.fates else ARRIVES
        if fate == DAMAGED:
            payload = payload[:6] + bytes([payload[6] ^ 4]) + payload[7:]
        if fate > DAMAGED:
            self.late.append((fate - DAMAGED, to_board, payload))
        elif fate != LOST:
            for _ in range(2 if fate == TWICE else 1):
                self.deliver(to_board, payload)

    def deliver(self, to_board, payload):
        if not to_board:
            self.came.append(payload)
        elif (answer := self.board.hear(payload)) is not None:
            self._pass(False, answer)

    def receive(self, seconds):
        return self.came.pop(0) if self.came else None

    def pause(self, seconds):
        pass

    def close(self):
        pass


FATES = st.lists(st.sampled_from([ARRIVES, ARRIVES, LOST, TWICE, DAMAGED, 4, 5, 9]), max_size=120)


@settings(max_examples=150, deadline=None)
@given(FATES, st.lists(st.tuples(st.integers(0, 63), st.binary(min_size=1, max_size=16)), max_size=20))
def test_every_request_is_executed_once_and_in_order(fates, writes):
    board = ModelBoard()
    try:
        transport = UdpTransport(Network(board, fates), "udp://model")
    except Unreachable:
        return
    done, expected = [], bytearray(256)
    for address, data in writes:
        try:
            transport.write_memory(address, data)
        except Unreachable:
            # Six tries were lost, or a late greeting ended the session: it may have been executed, once at most.
            assert board.log in (done, [*done, (address, data)])
            return
        done.append((address, data))
        assert board.log == done
        expected[address : address + len(data)] = data
    try:
        assert transport.read_memory(0, 256) == expected
    except Unreachable:
        pass


def test_a_copy_256_requests_late():
    """Its sequence number is the next one's; its own number tells."""
    board = ModelBoard()
    network = Network(board)
    transport = UdpTransport(network, "udp://model")
    transport.write_memory(0, b"old")
    old = network.copies[-1]
    for number in range(255):
        transport.write_memory(0, bytes([number]))
    network.deliver(True, old)
    transport.write_memory(1, b"new")
    assert board.memory[:4] == b"\xfenew" and len(board.log) == 257
    # An answer that is as late is not taken for that of the next request, either.
    (last,) = FrameDecoder().feed(network.copies[-1][NUMBER_BYTES:])
    stale = old[:NUMBER_BYTES] + encode_frame(bytes([last[0] + 1 & 255, 1, 2, 3, RequestStatus.OK]))
    network.came.append(stale)
    assert transport.read_memory(1, 3) == b"new"


def test_numbers_begin_anew_with_a_greeting():
    board = ModelBoard()
    transport = UdpTransport(Network(board), "udp://model")
    transport.write_memory(0, b"x")
    session = board.last_number >> COUNT_BITS
    transport._datagrams._sent = board.last_number = board.last_number + (1 << COUNT_BITS) - 50
    transport.write_memory(0, b"y")
    assert board.last_number == (session % 4095 + 1 << COUNT_BITS) + 1 and board.memory[:1] == b"y"
    again = UdpTransport(Network(board), "udp://model")
    again.write_memory(0, b"z")
    assert board.memory[:1] == b"z"


def test_a_late_greeting_ends_a_session_and_is_told():
    """What hypothesis found while a greeting's number was 0: a write and its copy on both sides of such a greeting."""
    board = ModelBoard()
    network = Network(board, [LOST])
    transport = UdpTransport(network, "udp://model")
    network.fates = [ARRIVES, LOST]
    transport.write_memory(0, b"x")
    network.deliver(True, network.copies[0])
    network.deliver(True, network.copies[2])
    assert board.log == [(0, b"x")]
    with pytest.raises(Unreachable):
        transport.write_memory(1, b"y")
    assert board.log == [(0, b"x")]
    transport.write_memory(1, b"y")
    assert board.log == [(0, b"x"), (1, b"y")]


def test_late_copies_without_end_are_no_answer():
    class Babble(Network):
        def receive(self, seconds):
            return bytes(40)

    port = Babble(ModelBoard())
    line = UdpLine(port)
    line.is_greeting = True
    line.write(b"x")
    assert line.read(1.0) == b""


def test_nobody_answers(monkeypatch):
    network = Network(ModelBoard())
    transport = UdpTransport(network, "udp://model")
    network.is_cut = True
    text = (
        r"^udp://model: the board does not answer: 6 times READ_REGISTERS at 0x0, 0 damaged frames; is it on this "
        r"network, configured with Ethernet, and at this address\?$"
    )
    with pytest.raises(Unreachable, match=text):
        transport.read_registers(0, 1)
    network.is_cut = False
    transport.write_memory(0, b"back")
    monkeypatch.setattr(bridge_module, "ANSWER_SECONDS", (0.01,))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        with pytest.raises(Unreachable, match=rf"^udp://127.0.0.1:{port}: the board does not answer: "):
            open_transport(f"udp://127.0.0.1:{port}")
    # Now the computer refuses.
    with pytest.raises(Unreachable, match="the board does not answer"):
        open_transport(f"udp://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("udp://", r"^udp://: write udp://HOST or udp://HOST:PORT$"),
        ("udp://host/path", r"^udp://host: write udp://HOST or udp://HOST:PORT$"),
        ("udp://host:99999", r"^udp://host:99999: the port must be a number below 65536$"),
        ("udp://host?baud=1", r"there is no option 'baud'; udp has flash, selftest, twice, verify"),
    ],
)
def test_wrong_addresses(uri, text):
    with pytest.raises(tosaic.InputError, match=text):
        open_transport(uri)


def test_a_socket():
    """The same over a real one, with the model in a thread's place: its answers lie there before they are asked for."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        port = tosaic.driver.transports.udp.SocketPort("127.0.0.1", server.getsockname()[1])
        port.send(b"ping")
        payload, host = server.recvfrom(100)
        assert payload == b"ping" and port.receive(0.0) is None
        server.sendto(b"pong", host)
        assert port.receive(5.0) == b"pong"
        port.close()
