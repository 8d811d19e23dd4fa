"""The token protocol has no deadlock that depends on time: every schedule of short programs on an abstract machine.

The machine has what can make a unit wait: dispatch in the program's order into bounded queues, semaphores, signals that
are counted some time after they were given, and the array's bounded queue of vectors. A command waits for something
that stays until the command's own unit takes it, so what one schedule ends all schedules end, and the checker
(sim/emulator/verify.py) need run one.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import Opcode
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator.verify import verify

UNITS = ("LOAD", "VECTOR", "STORE")
WAITER = ("VECTOR", "STORE", "LOAD")
"""The unit that waits for each semaphore."""
QUEUE, VECTORS = 1, 1
"""Places for commands of a unit beside the one that it executes, and for vectors."""
Command = tuple[str, str, int]
"""Unit, "wait", "signal", "push" or "pop", and the semaphore."""
State = tuple[int, tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, ...], int]
"""Next command to dispatch, numbers of the commands of each unit, the counters, what each unit signalled and is not
counted, vectors."""


def steps(program: tuple[Command, ...], state: State) -> Iterator[State]:
    """Where each of the machine's parts can get on its own."""
    position, queues, counters, pending, vectors = state
    if position < len(program):
        unit = UNITS.index(program[position][0])
        if len(queues[unit]) <= QUEUE:
            yield position + 1, put(queues, unit, (*queues[unit], position)), counters, pending, vectors
    for unit, queue in enumerate(queues):
        if pending[unit] >= 0:
            counted = put(counters, pending[unit], counters[pending[unit]] + 1)
            yield position, queues, counted, put(pending, unit, -1), vectors
        if not queue:
            continue
        _, action, semaphore = program[queue[0]]
        left = put(queues, unit, queue[1:])
        if action == "wait" and counters[semaphore]:
            taken = put(counters, semaphore, counters[semaphore] - 1)
            yield position, left, taken, pending, vectors
        elif action == "signal" and pending[unit] < 0:
            yield position, left, counters, put(pending, unit, semaphore), vectors
        elif action == "push" and vectors < VECTORS:
            yield position, left, counters, pending, vectors + 1
        elif action == "pop" and vectors:
            yield position, left, counters, pending, vectors - 1


def put(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


def ends(program: tuple[Command, ...]) -> set[State]:
    """The states in which nothing can go on, of all schedules."""
    nothing: State = (0, ((),) * len(UNITS), (0,) * len(WAITER), (-1,) * len(UNITS), 0)
    seen, open_states, found = {nothing}, [nothing], set[State]()
    while open_states:
        state = open_states.pop()
        following = list(steps(program, state))
        if not following:
            found.add(state)
        for each in following:
            if each not in seen:
                seen.add(each)
                open_states.append(each)
    return found


def commands(semaphores: int) -> list[Command]:
    waits = [(WAITER[semaphore], "wait", semaphore) for semaphore in range(semaphores)]
    signals = [(unit, "signal", semaphore) for unit in UNITS for semaphore in range(semaphores)]
    return [*waits, *signals, ("LOAD", "push", 0), ("VECTOR", "pop", 0)]


def left_over(program: tuple[Command, ...]) -> int:
    """The tokens that no WAIT takes; -1 where a WAIT does not find its own among the signals before it."""
    counters = [0] * len(WAITER)
    for _, action, semaphore in program:
        counters[semaphore] += {"wait": -1, "signal": 1}.get(action, 0)
        if counters[semaphore] < 0:
            return -1
    return sum(counters)


def in_order(program: tuple[Command, ...]) -> bool:
    """Whether each WAIT finds its token among the signals before it, and none is left over."""
    return not left_over(program)


def programs_in_order(
    tokens: list[Command], length: int, begun: tuple[Command, ...] = ()
) -> Iterator[tuple[Command, ...]]:
    """All programs of this number of commands that are in order, and begin with `begun`."""
    missing = length - len(begun)
    if not 0 <= left_over(begun) <= missing:
        return
    if not missing:
        yield begun
        return
    for token in tokens:
        yield from programs_in_order(tokens, length, (*begun, token))


def test_every_schedule_of_a_program_ends_in_the_same_state() -> None:
    for program in itertools.product(commands(2), repeat=4):
        assert len(ends(program)) == 1, program


def test_tokens_in_order_never_lock() -> None:
    only_tokens = [command for command in commands(3) if command[1] in ("wait", "signal")]
    checked = 0
    for program in programs_in_order(only_tokens, 6):
        (end,) = ends(program)
        assert end[0] == len(program) and not any(end[1]), program
        checked += 1
    assert checked > 7000


def test_two_waiters_of_a_semaphore_may_lock() -> None:
    """What the checker refuses for that reason: who gets the token depends on time."""
    program = (("LOAD", "signal", 0), ("VECTOR", "wait", 0), ("VECTOR", "signal", 0), ("STORE", "wait", 0))
    assert len(ends(program)) > 1


@pytest.mark.parametrize("seed", range(3))
def test_the_checker_accepts_tokens_in_order_only(seed: int) -> None:
    config, found = CONFIGS["nano"], set[bool]()
    only_tokens = [command for command in commands(2) if command[1] in ("wait", "signal")]
    for program in list(itertools.product(only_tokens, repeat=4))[seed::41]:
        assembler = Assembler(config)
        for unit, action, semaphore in program:
            assembler.emit(Opcode[f"{unit}_{action.upper()}"], semaphore=semaphore, count=1)
        memory = np.zeros(4096, np.uint8)
        size = assembler.place(memory, 0)
        try:
            accepted = bool(verify(config, memory, 0, size))
        except DeviceError:
            accepted = False
        assert accepted == in_order(program), program
        found.add(accepted)
    assert found == {True, False}
