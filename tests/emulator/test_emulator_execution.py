"""A run of a program: where it begins and ends, what it may count to, and which cycles are predicted anew."""

from typing import Any

import numpy as np
import pytest

import tosaic.sim.emulator.machine as machine_module
from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import variant
from tosaic.hw.isa import Condition, CoreProgram, Opcode
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator
from tosaic.sim.emulator.external_memory import ExternalBytes
from tosaic.sim.emulator.trace import Trace

SMALL = CONFIGS["small"]
PAIR = variant(CONFIGS["nano"], {"cores": 2})
MOST = 4095
"""What a semaphore counts to."""
Command = tuple[Opcode, dict[str, int]]


def assembled(commands: list[Command], config: Any = SMALL) -> Assembler:
    assembler = Assembler(config)
    for opcode, fields in commands:
        assembler.emit(opcode, **fields)
    return assembler


def executed(*commands: Command, most: int | None = None, config: Any = SMALL) -> Trace:
    memory = np.zeros(4096, np.uint8)
    size = assembled(list(commands), config).place(memory, 1024)
    found = Emulator(config).execute(ExternalBytes.of(memory), 1024, size, max_instructions=most)
    return found[0]


def refused(*commands: Command, **options: Any) -> str:
    with pytest.raises(DeviceError) as caught:
        executed(*commands, **options)
    return str(caught.value)


NOP: Command = (Opcode.NOP, {})


@pytest.mark.parametrize("most", [3, 4])
def test_instructions_up_to_a_limit(most: int) -> None:
    assert len(executed(NOP, most=most).instructions) == 3
    limit = "not at its end after 2 instructions: an endless loop?"
    assert refused(NOP, most=2) == f"PROGRAM at program counter 32 (END): {limit}"


def test_a_loop_without_end_is_ended() -> None:
    text = refused((Opcode.BRANCH, {"condition": Condition.ALWAYS, "target": 16}), most=50)
    assert text.startswith("PROGRAM at program counter 16 (BRANCH ")
    assert text.endswith("not at its end after 50 instructions: an endless loop?")


@pytest.mark.parametrize("length, fits", [(1072, True), (1071, False), (2000, True)])
def test_a_program_lies_in_memory(length: int, fits: bool) -> None:
    memory = np.zeros(4096, np.uint8)
    size = assembled([NOP]).place(memory, 1024)
    assert size == 48
    own = ExternalBytes.of(memory[:length])
    if fits:
        assert len(Emulator(SMALL).execute(own, 1024, size)[0].instructions) == 3
        return
    with pytest.raises(DeviceError) as caught:
        Emulator(SMALL).execute(own, 1024, size)
    assert str(caught.value) == (
        "MEMORY_RANGE: the program's bytes 1024..1071 leave the 1071 bytes of external memory"
    )


@pytest.mark.parametrize("address, size", [(-16, 48), (0, -1)])
def test_a_program_begins_in_memory(address: int, size: int) -> None:
    with pytest.raises(DeviceError, match="^MEMORY_RANGE: the program's bytes "):
        Emulator(SMALL).execute(ExternalBytes.of(np.zeros(256, np.uint8)), address, size)


def test_an_empty_program_has_no_end() -> None:
    with pytest.raises(
        DeviceError, match="^PROGRAM_END at program counter 0: 0 bytes of program have no END$"
    ):
        Emulator(SMALL).execute(ExternalBytes.of(np.zeros(64, np.uint8)), 64, 0)


def test_a_program_may_not_lie_where_its_results_go() -> None:
    """The machine reads it ahead: what it would execute depends on time."""
    memory = np.zeros(256, np.uint8)
    store = (Opcode.STORE_GO, dict(memory_address=0, local_address=0, row_bytes=128, rows=1))
    size = assembled([store, NOP]).place(memory, 0)
    with pytest.raises(
        DeviceError, match=r"bytes 0\.\.127 reach the program in bytes 0\.\.63, which may not change"
    ):
        Emulator(SMALL).execute(ExternalBytes.of(memory), 0, size)
    assert memory[:64].any()


# --- branches


@pytest.mark.parametrize(
    "target, legal", [(16, True), (48, True), (64, False), (40, False), (1 << 16, False)]
)
def test_branches_lead_to_instructions_of_the_program(target: int, legal: bool) -> None:
    """The program has four instructions, the last one at 48. The target must be there even if the branch is not
    taken."""
    branch = (Opcode.BRANCH, {"condition": Condition.NEVER, "target": target})
    if legal:
        assert executed(branch, NOP).jumps == {}
        return
    text = refused(branch, NOP)
    assert text.endswith("the target must be a multiple of 16 and at most 48")
    assert text.startswith("ILLEGAL at program counter 16 (BRANCH ")


@pytest.mark.parametrize(
    "condition, jumps",
    [
        (Condition.ALWAYS, {1: 3}),
        (Condition.NEVER, {}),
        (Condition.IF_CLEAR, {1: 3}),
        (Condition.IF_SET, {}),
    ],
)
def test_branches_that_are_taken(condition: Condition, jumps: dict[int, int]) -> None:
    """The trace has each taken branch by its place among the executed instructions, with the number of its target."""
    branch = (Opcode.BRANCH, {"condition": condition, "target": 48})
    trace = executed(branch, NOP)
    assert trace.jumps == jumps
    assert len(trace.instructions) == (3 if jumps else 4)
    assert [each.opcode for each in trace.instructions][-1] is Opcode.END


# --- semaphores


def signal(count: int, semaphore: int = 2, **fields: int) -> Command:
    return Opcode.LOAD_SIGNAL, dict(semaphore=semaphore, count=count, **fields)


def test_a_semaphore_counts_to_its_largest_number() -> None:
    most = 255
    times = [signal(most)] * (MOST // most) + [signal(MOST % most)] * (MOST % most > 0)
    assert len(executed(*times).instructions) == len(times) + 2
    text = refused(*times, signal(1))
    assert text.endswith("semaphore 2 counts to 4095 only")


def test_a_semaphore_of_another_core_is_named() -> None:
    most = 255
    times = [signal(most, cores=0b10)] * (MOST // most + 1)
    text = refused(*times, config=PAIR)
    assert text.endswith("semaphore 2 of core 1 counts to 4095 only")


@pytest.mark.parametrize("opcode", [Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT])
def test_semaphores_that_there_are(opcode: Opcode) -> None:
    config = variant(SMALL, {"semaphores": 12})
    last = dict(semaphore=11, count=1)
    if opcode is Opcode.LOAD_SIGNAL:
        executed((opcode, last), config=config)
    else:
        executed((Opcode.LOAD_SIGNAL, last), (opcode, last), config=config)
    text = refused((opcode, dict(semaphore=12, count=1)), config=config)
    assert text.startswith("ILLEGAL at program counter 16 ")
    assert text.endswith("there are 12 semaphores")


def test_a_core_that_waits_for_a_semaphore_that_is_not_there() -> None:
    config = variant(PAIR, {"semaphores": 14})
    memory = np.zeros(4096, np.uint8)
    wait = assembled([(Opcode.STORE_WAIT, dict(semaphore=14, count=1))], config)
    streams = [CoreProgram(place, wait.place(memory, place)) for place in (0, 1024)]
    with pytest.raises(
        DeviceError, match="^ILLEGAL at program counter 16 of core 0 .*there are 14 semaphores$"
    ):
        Emulator(config).execute(ExternalBytes.of(memory), *streams[0], others=streams[1:])


def test_tokens_are_taken() -> None:
    wait = (Opcode.STORE_WAIT, dict(semaphore=2, count=3))
    executed(signal(6), wait, wait)
    text = refused(signal(5), wait, wait)
    assert text.endswith("semaphore 2 is 2 and no earlier SIGNAL raises it to 3: deadlock in program order")


# --- the first instruction


def test_a_program_begins_with_begin() -> None:
    memory = np.zeros(256, np.uint8)
    assembler = assembled([NOP])
    del assembler.instructions[0]
    size = assembler.place(memory, 0)
    with pytest.raises(DeviceError) as caught:
        Emulator(SMALL).execute(ExternalBytes.of(memory), 0, size)
    assert str(caught.value).startswith(
        "ILLEGAL at program counter 0: a program's first instruction is BEGIN, not NOP"
    )


# --- cycles


class Predictions:
    """How often cycles were predicted."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self.count = 0
        predict = machine_module.predict

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return predict(*arguments)

        patch.setattr(machine_module, "predict", counted)


def test_cycles_are_predicted_anew_where_something_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code, its place, the memory's speed; not the data."""
    counted, emulator = Predictions(monkeypatch), Emulator(SMALL)
    load = (Opcode.LOAD_GO, dict(memory_address=2048, local_address=0, row_bytes=64, rows=1))

    def run(*commands: Command, address: int = 0, byte: int = 0, **speed: Any) -> int:
        memory = np.full(4096, byte, np.uint8)
        size = assembled(list(commands)).place(memory, address)
        return emulator.run(memory, address, size, **speed).cycles

    same = run(load)
    assert (run(load), run(load, byte=7), counted.count) == (same, same, 1)
    assert run(load, latency_cycles=90) > same
    assert counted.count == 2
    assert run(load, latency_cycles=90, bandwidth_bytes=1.0) > same
    assert counted.count == 3
    run(load)
    run(load, address=1024)
    run(load, NOP, address=1024)
    assert counted.count == 6


def test_the_way_through_branches_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code goes another way with other data."""
    counted, emulator = Predictions(monkeypatch), Emulator(SMALL)
    commands: list[Command] = [
        (Opcode.LOAD_GO, dict(memory_address=2048, local_address=0, row_bytes=8, rows=1)),
        signal(1),
        (Opcode.VECTOR_WAIT, dict(semaphore=2, count=1)),
        (Opcode.VECTOR_TEST, dict(address=0)),
        (Opcode.BRANCH, dict(condition=Condition.IF_SET, target=7 * 16)),
        NOP,
    ]
    cycles = []
    for byte in (0, 1, 1, 0):
        memory = np.zeros(4096, np.uint8)
        memory[2048] = byte
        size = assembled(commands).place(memory, 0)
        cycles.append(emulator.run(memory, 0, size).cycles)
    assert cycles[0] == cycles[3] != cycles[1] == cycles[2]
    assert counted.count == 3


def test_a_limit_of_cycles() -> None:
    memory = np.zeros(4096, np.uint8)
    size = assembled([NOP]).place(memory, 0)
    cycles = Emulator(SMALL).run(memory, 0, size).cycles
    assert Emulator(SMALL).run(memory, 0, size, max_cycles=cycles).cycles == cycles
    text = f"^the program did not end in {cycles - 1} cycles; by the cycle model it takes {cycles}$"
    with pytest.raises(DeviceError, match=text):
        Emulator(SMALL).run(memory, 0, size, max_cycles=cycles - 1)


@pytest.mark.parametrize("memory", [np.zeros(64, np.int8), np.zeros((8, 8), np.uint8)], ids=["type", "rank"])
def test_memory_is_bytes_in_a_row(memory: np.ndarray) -> None:
    with pytest.raises(DeviceError, match="^external memory must be a writable one-dimensional uint8 array$"):
        Emulator(SMALL).run(memory, 0, 16)
    window = bytearray(256)
    size = assembled([]).place(np.frombuffer(window, np.uint8), 0)
    assert Emulator(SMALL).run(window, 0, size).cycles > 0
