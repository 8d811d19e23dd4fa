"""python bench/from_a_host.py BOARD MODEL...: what a host's link takes of an inference, counted on a virtual board.

Prints round trips, bytes on the line both ways, cycles, and inferences per second with a link that answers after 1 and
after 16 ms: round trips, bytes and the run, one after the other, at the board's own baud rate and clock."""

import sys

import numpy as np

import tosaic
from tosaic.boards.catalogue import known_boards
from tosaic.driver.transports import BridgeTransport
from tosaic.sim.board import VirtualLine
from tosaic.virtual import open_board

LATENCIES_MS = (1, 16)
LINE_BITS = 10
"""Bits that a byte takes on the line."""


class CountedLine(VirtualLine):
    """Counts bytes without the FLAGs that hold requests back, and how often the host waits after it has sent."""

    def __init__(self, board):
        super().__init__(board)
        self.begin()

    def begin(self):
        self.trips = self.bytes = 0
        self.has_sent = False

    def write(self, data):
        self.bytes += len(data.lstrip(b"\x7e")) + 1
        self.has_sent = True
        super().write(data)

    def read(self, seconds):
        received = super().read(seconds)
        self.bytes += len(received)
        if seconds > 0 and received:
            self.trips += self.has_sent
            self.has_sent = False
        return received


def main(name, *models):
    board = known_boards()[name]
    line = CountedLine(open_board(name))
    device = tosaic.Device(BridgeTransport(line, name))
    for model in models:
        session = tosaic.Session(model, device)
        random = np.random.default_rng(1)
        given = {each.name: random.integers(-128, 128, each.shape).astype(np.int8) for each in session.inputs}
        for _ in range(2):
            line.begin()
            session.run(given)
        told = [f"{model}: {line.trips} round trips, {line.bytes} bytes, {session.result.cycles} cycles"]
        for latency_ms in LATENCIES_MS:
            seconds = line.trips * latency_ms / 1000 + line.bytes * LINE_BITS / board.baud
            told.append(
                f"{1 / (seconds + session.result.cycles / board.clock_hz):.1f} a second at {latency_ms} ms"
            )
        print("; ".join(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
