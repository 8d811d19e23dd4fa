"""A pool of three boards of which one is killed and the others are reset: `python bench/board_pool.py --jobs 200`.

Three board servers, each a process with the Verilated RTL, run the small digits network on a new image each. Prints how
many results equal golden; exit code 1 unless all do.
"""

import argparse
import multiprocessing
import os
import pathlib
import signal
import time
import warnings

import numpy as np

import tosaic
import tosaic.examples
from tosaic.driver.server import BoardServer
from tosaic.driver.transports import RtlTransport
from tosaic.driver.transports.token import TOKEN_VARIABLE
from tosaic.hw.config_text import get_config

MODEL = pathlib.Path(tosaic.examples.__path__[0]) / "digits" / "digits_tiny.tosa"
TOKEN = "the token of this benchmark"


class Resettable(RtlTransport):
    """A board whose reset button is an event."""

    def press(self, event) -> None:
        self.event = event

    def start(self, *arguments) -> None:
        super().start(*arguments)
        if self.event.is_set():
            self.event.clear()
            self.soft_reset()


def serve(config: str, said, event) -> None:
    device = Resettable(get_config(config), memory_bytes=1 << 20)
    device.press(event)
    server = BoardServer(device, TOKEN)
    said.put((os.getpid(), server.address))
    time.sleep(3600)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--config", default="nano")
    chosen = parser.parse_args()
    os.environ[TOKEN_VARIABLE] = TOKEN
    RtlTransport(
        get_config(chosen.config), memory_bytes=1 << 20
    ).close()  # Built once, not by three at a time.
    spawn = multiprocessing.get_context("spawn")
    said, events = spawn.Queue(), [spawn.Event() for _ in range(3)]
    boards = [spawn.Process(target=serve, args=(chosen.config, said, event), daemon=True) for event in events]
    for board in boards:
        board.start()
    places = [said.get() for _ in boards]
    uri = "pool://" + ",".join(f"{host}:{port}" for _, (host, port) in places)
    random = np.random.default_rng(1)
    images = [{"image": random.integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)} for _ in range(chosen.jobs)]
    golden, right, began = tosaic.Session(MODEL, "golden"), 0, time.monotonic()
    with tosaic.Session(MODEL, uri) as session, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number, outputs in enumerate(session.map(images)):
            right += np.array_equal(outputs["scores"], golden.run(images[number])["scores"])
            if number == chosen.jobs // 4:
                os.kill(places[0][0], signal.SIGKILL)
            if number == chosen.jobs // 2:
                for event in events:
                    event.set()
    reset = sum(not event.is_set() for event in events)
    for board in boards:
        board.kill()
    for each in told:
        print(each.message)
    print(
        f"{right} right of {chosen.jobs} in {time.monotonic() - began:.1f} s; 1 board killed, {reset} reset on the way"
    )
    return int(right != chosen.jobs)


if __name__ == "__main__":
    raise SystemExit(main())
