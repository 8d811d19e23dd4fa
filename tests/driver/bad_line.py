"""A line between driver and board that does what bad lines do."""

import random
from collections.abc import Callable

Damage = Callable[[bytes], bytes]


def unchanged(data: bytes) -> bytes:
    return data


class BadLine:
    """Passes bytes on to `line`; `to_board` and `to_host` may change them. Each write is one request frame."""

    def __init__(self, line):
        self.line = line
        self.byte_seconds = line.byte_seconds
        self.to_board: Damage = unchanged
        self.to_host: Damage = unchanged
        self.on_pause: Callable[[], None] = lambda: None
        self.written: list[bytes] = []
        self._next = b""

    def heal(self) -> None:
        self.to_board = self.to_host = unchanged
        self.on_pause = lambda: None

    def write(self, data: bytes) -> None:
        self.written.append(data)
        if changed := self.to_board(data):
            self.line.write(changed)

    def read(self, seconds: float) -> bytes:
        while received := self.line.read(seconds):
            if changed := self.to_host(received):
                return changed
        return b""

    def fill_bytes(self, cycles: int, clock_hz: int) -> int | None:
        return self.line.fill_bytes(cycles, clock_hz)

    def pause(self, seconds: float) -> None:
        self.on_pause()
        self.line.pause(seconds)

    def clear(self, address: int, count: int) -> bool:
        return self.line.clear(address, count)

    def close(self) -> None:
        self.line.close()


def unplugged(data: bytes) -> bytes:
    """Nothing arrives."""
    return b""


def flipping(seed: int, share: float) -> Damage:
    """Flips a bit of every `share`-th byte."""
    rng = random.Random(seed)

    def damage(data: bytes) -> bytes:
        return bytes(byte ^ (1 << rng.randrange(8) if rng.random() < share else 0) for byte in data)

    return damage


def garbled(seed: int) -> Damage:
    """Random bytes, now and then, before and behind what was sent."""
    rng = random.Random(seed)

    def damage(data: bytes) -> bytes:
        before = rng.randbytes(rng.choice([0, 1, 5, 40]))
        return before + data + rng.randbytes(rng.choice([0, 0, 1, 7]))

    return damage


def dropping(seed: int, share: float) -> Damage:
    """Loses whole frames."""
    rng = random.Random(seed)
    return lambda data: b"" if rng.random() < share else data


def repeating(times: int) -> Damage:
    """Says everything several times."""
    return lambda data: data * times
