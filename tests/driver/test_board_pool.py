"""`pool://`: work goes to free boards of the right configuration, lost boards cost nothing, `map` keeps order."""

import pathlib
import threading
import time
import warnings

import numpy as np
import pytest

import tosaic
import tosaic.examples
from tosaic.driver.board_pool import BoardPool, open_device
from tosaic.driver.targets import TargetOptions, make_runner
from tosaic.errors import DeviceError, InputError
from tosaic.hw.config import CONFIGS

DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits" / "digits_tiny.tosa"


class EmulatedBoard:
    """A board whose machine is the emulator; it fails at some of its runs, and is gone after others."""

    memory_speed = None

    def __init__(self, name, config="nano", resets=(), dies_at=None):
        self.name, self.config, self.resets, self.dies_at = name, CONFIGS[config], resets, dies_at
        self.runs, self.at_once = 0, threading.Lock()

    def configuration(self):
        if self.dies_at is not None and self.runs > self.dies_at:
            raise DeviceError(f"{self.name}: the connection to the board server is lost")
        return self.config

    def run(self, program, window, max_cycles):
        assert self.at_once.acquire(blocking=False), "one run at a time"
        try:
            self.runs += 1
            self.configuration()
            if self.runs in self.resets:
                window[:] = 255
                raise DeviceError(f"{self.name}: the machine was reset while the program ran")
            return make_runner("emulator", program, TargetOptions())(window)
        finally:
            self.at_once.release()

    def close(self):
        pass


def pool_of(*boards):
    named = {board.name: board for board in boards}
    return BoardPool("pool://test", list(named), named.__getitem__)


def images(count):
    random = np.random.default_rng(1)
    return [{"image": random.integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)} for _ in range(count)]


def test_two_hundred_jobs_with_a_board_killed_and_one_reset():
    boards = EmulatedBoard("a"), EmulatedBoard("b", dies_at=9), EmulatedBoard("c", resets=(5,))
    pool, jobs = pool_of(*boards), images(200)
    with warnings.catch_warnings(record=True) as told:
        # Others come of what tests before this one have left, whenever it is collected.
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        found = list(tosaic.Session(DIGITS, pool).map(jobs))
    golden = list(tosaic.Session(DIGITS, "golden").map(jobs))
    assert [out["scores"].tolist() for out in found] == [out["scores"].tolist() for out in golden]
    assert [str(each.message).split(",")[0] for each in told] == ["pool://test: board b is lost"]
    assert pool.size == 2 and boards[1].runs == 10
    assert sum(board.runs for board in boards) == 202


def test_work_goes_to_the_right_configuration():
    small, nano = EmulatedBoard("s", "small"), EmulatedBoard("n", "nano")
    pool = pool_of(small, nano)
    list(tosaic.Session(DIGITS, pool, config="nano").map(images(3)))
    assert (small.runs, nano.runs) == (0, 3)
    with pytest.raises(DeviceError, match="no board of the pool has configuration base: compile for another"):
        tosaic.Session(DIGITS, pool, config="base").run(images(1)[0])


def test_a_run_that_fails_everywhere_is_told():
    pool = pool_of(EmulatedBoard("a", resets=(1,)), EmulatedBoard("b", resets=(1,)))
    with pytest.raises(DeviceError, match="the machine was reset"):
        tosaic.Session(DIGITS, pool, config="nano").run(images(1)[0])
    assert pool.size == 2


class HeldBoard(EmulatedBoard):
    """A board whose runs wait until the gate is open."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.began, self.gate = threading.Event(), threading.Event()

    def run(self, program, window, max_cycles):
        self.began.set()
        assert self.gate.wait(10)
        return super().run(program, window, max_cycles)


def test_a_run_does_not_wait_for_a_board_that_is_lost_meanwhile():
    """It fails on `a` and waits for `b`, which is at work and then lost: there is nothing left to wait for. What was
    at work on `b` goes to `a`."""
    lost, other = HeldBoard("b", dies_at=0), EmulatedBoard("a", resets=(1,))
    pool = pool_of(lost, other)
    program = tosaic.Session(DIGITS, "emulator", "nano").program
    ended = []

    def run(name):
        try:
            pool.run(program, program.memory())
            ended.append(f"{name} is done")
        except DeviceError as error:
            ended.append(f"{name}: {error}")

    first, second = (threading.Thread(target=run, args=(name,)) for name in ("first", "second"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first.start()
        assert lost.began.wait(10)
        second.start()
        while other.runs == 0:
            time.sleep(0.01)
        lost.gate.set()
        for thread in (first, second):
            thread.join(timeout=10)
    assert not first.is_alive() and not second.is_alive()
    assert sorted(ended) == [
        "first is done",
        "second: pool://test: the run failed on every board that is left: see the warnings of the boards, or add one",
    ]


def test_what_is_no_pool():
    with pytest.raises(InputError, match="write pool://HOST:PORT,HOST:PORT"):
        open_device("pool://")
    with pytest.raises(InputError, match="there is no option 'baud'"):
        tosaic.Session(DIGITS, "pool://a:1?baud=3")
