"""The network of a virtual board: a host at the other end of its cable, from UDP down to the check sequence."""

import ipaddress
import struct
import zlib
from collections.abc import Callable

from .simulator import BoardSimulator

PREAMBLE = bytes([0x55] * 7 + [0xD5])
ARP, IPV4, UDP = 0x0806, 0x0800, 17
HOST_MAC, BROADCAST = bytes.fromhex("025453000002"), b"\xff" * 6
HOST_PORT = 40_000
SHORTEST = 60
"""Bytes of a frame before its check sequence."""
_ARP = struct.Struct(">HHBBH6s4s6s4s")
_IPV4 = struct.Struct(">BBHHHBBH4s4s")
_UDP = struct.Struct(">HHHH")
_ASK, _ANSWER = 1, 2
CYCLES_PER_LOOK = 20_000
ANSWER_CYCLES = 60_000
"""Several times what the longest request takes, ARP included."""
MAX_UNDER_WAY = 64


def make_frame(to: bytes, sender: bytes, kind: int, content: bytes) -> bytes:
    """All that is on the cable."""
    body = (to + sender + kind.to_bytes(2, "big") + content).ljust(SHORTEST, b"\0")
    return PREAMBLE + body + zlib.crc32(body).to_bytes(4, "little")


def frame_body(frame: bytes) -> bytes | None:
    """Returns the bytes between preamble and check sequence, if these are right."""
    start = frame.find(0xD5) + 1
    body, check = frame[start:-4], frame[-4:]
    right = start and set(frame[: start - 1]) <= {0x55} and len(body) >= SHORTEST
    return body if right and zlib.crc32(body) == int.from_bytes(check, "little") else None


def checksum(header: bytes) -> int:
    """Returns the checksum of an IPv4 header."""
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def make_datagram(sender: tuple[bytes, int], to: tuple[bytes, int], payload: bytes) -> bytes:
    """An IPv4 packet with UDP in it, from one (address, port) to another, without UDP's own check, as IPv4 allows."""
    length = _UDP.size + len(payload)
    fields = (0x45, 0, _IPV4.size + length, 0, 0, 64, UDP)
    header = _IPV4.pack(*fields, 0, sender[0], to[0])
    header = _IPV4.pack(*fields, checksum(header), sender[0], to[0])
    return header + _UDP.pack(sender[1], to[1], length, 0) + payload


class VirtualPort:
    """A host's UDP port on the network of a simulated board, whose clock runs while somebody waits.

    `on_cable` gets every frame, whole, and says which ones arrive in its place: none, several, damaged ones.
    """

    byte_seconds = 0.0

    def __init__(
        self,
        board: BoardSimulator,
        ip: str,
        port: int,
        on_cable: Callable[[bytes], list[bytes]] | None = None,
    ):
        self.board = board
        self.on_cable = on_cable or (lambda frame: [frame])
        self.damaged = 0
        """Frames from the board with a wrong check sequence."""
        self._ip, self._port = ipaddress.IPv4Address(ip).packed, port
        self._host_ip = (ipaddress.IPv4Address(ip) + 1).packed
        self._board_mac = b""
        self._waiting: list[bytes] = []
        self._came: list[bytes] = []
        self._sent_at = 0

    def send(self, payload: bytes) -> None:
        """A datagram to the board; before its hardware address is known, the host asks for that."""
        self._sent_at = self.board.cycle
        packet = make_datagram((self._host_ip, HOST_PORT), (self._ip, self._port), payload)
        if self._board_mac:
            self._put(self._board_mac, IPV4, packet)
            return
        self._waiting = [*self._waiting, packet][-MAX_UNDER_WAY:]
        self._put(BROADCAST, ARP, self._arp(_ASK, bytes(6), self._ip))

    def receive(self, seconds: float) -> bytes | None:
        """The next datagram, None if none comes within ANSWER_CYCLES after the last one was sent. `seconds` only tell
        whether to wait at all."""
        end = max(self._sent_at, self.board.cycle) + ANSWER_CYCLES
        while not self._came and seconds > 0 and self.board.cycle < end:
            self._run(CYCLES_PER_LOOK)
        if not self._came:
            self._run(1)
        return self._came.pop(0) if self._came else None

    def pause(self, seconds: float) -> None:
        """Let the board work."""
        self._run(CYCLES_PER_LOOK)

    def close(self) -> None:
        self.board.close()

    # --- inside

    def _put(self, to: bytes, kind: int, content: bytes) -> None:
        for frame in self.on_cable(make_frame(to, HOST_MAC, kind, content)):
            self.board.send_frame(frame)

    def _arp(self, what: int, mac: bytes, ip: bytes) -> bytes:
        return _ARP.pack(1, IPV4, 6, 4, what, HOST_MAC, self._host_ip, mac, ip)

    def _run(self, cycles: int) -> None:
        self.board.run(cycles)
        for sent in self.board.frames():
            for frame in self.on_cable(sent):
                body = frame_body(frame)
                if body is None:
                    self.damaged += 1
                elif body[:6] in (HOST_MAC, BROADCAST):
                    self._hear(int.from_bytes(body[12:14], "big"), body[14:])

    def _hear(self, kind: int, content: bytes) -> None:
        if kind == ARP:
            what, mac, ip, _, asked = _ARP.unpack_from(content)[4:]
            if asked != self._host_ip or ip != self._ip:
                return
            self._board_mac = mac
            if what == _ASK:
                self._put(mac, ARP, self._arp(_ANSWER, mac, ip))
            for packet in self._waiting:
                self._put(mac, IPV4, packet)
            self._waiting = []
        elif kind == IPV4:
            header = _IPV4.unpack_from(content)
            source, target, length, _ = _UDP.unpack_from(content, _IPV4.size)
            right = (
                checksum(content[: _IPV4.size]) == 0
                and header[6] == UDP
                and header[8:] == (self._ip, self._host_ip)
            )
            if right and (source, target) == (self._port, HOST_PORT):
                self._came.append(content[_IPV4.size + _UDP.size : _IPV4.size + length])
