"""LOAD and STORE of the emulator alone: rows anywhere, and what the first wrong one says."""

import numpy as np
import pytest

from tosaic.hw.config_text import get_config
from tosaic.hw.isa import FIELDS, Error, Instruction, Opcode, Space, make
from tosaic.sim.emulator.external_memory import ExternalMemory
from tosaic.sim.emulator.faults import Fault
from tosaic.sim.emulator.hazards import AM, MEMORY, WM
from tosaic.sim.emulator.state import State
from tosaic.sim.emulator.transfer import LOCAL_ADDRESSES, MEMORY_ADDRESSES, load, store

CONFIG = get_config("small")
WORD, SIZE = CONFIG.word_bytes, 1 << 12


def command(opcode: Opcode, **fields: int) -> Instruction:
    return make(opcode, **{field.name: 0 for field in FIELDS[opcode]} | fields)


class Told:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, list[int]]] = []

    def read(self, name: str, addresses: np.ndarray) -> None:
        self.told.append(("read", name, addresses.tolist()))

    def write(self, name: str, addresses: np.ndarray) -> None:
        self.told.append(("write", name, addresses.tolist()))

    def copy(self, source: str, addresses: np.ndarray, target: str, places: np.ndarray) -> None:
        self.read(source, addresses)
        self.write(target, places)


def state(hazards: Told | None = None) -> State:
    memory = np.arange(SIZE).astype(np.uint8)
    return State(CONFIG, ExternalMemory.of(memory), hazards)  # type: ignore[arg-type]


def load_go(rows: int = 1, row_bytes: int = WORD, **fields: int) -> Instruction:
    return command(Opcode.LOAD_GO, rows=rows, row_bytes=row_bytes, **fields)


def store_go(rows: int = 1, row_bytes: int = WORD, **fields: int) -> Instruction:
    return command(Opcode.STORE_GO, rows=rows, row_bytes=row_bytes, **fields)


def load_pitch(memory: int, local: int) -> Instruction:
    return command(
        Opcode.LOAD_PITCH, memory_pitch=memory % MEMORY_ADDRESSES, local_pitch=local % LOCAL_ADDRESSES
    )


def store_pitch(memory: int, local: int) -> Instruction:
    return command(Opcode.STORE_PITCH, memory_pitch=memory, local_pitch=local)


def test_rows_have_pitches_on_both_sides() -> None:
    machine, told = state(), Told()
    load(machine, load_go(3, 2, memory_address=10, local_address=100), load_pitch(5, 4))
    assert machine.am.read(100, 10)[0].tolist() == [10, 11, 0, 0, 15, 16, 0, 0, 20, 21]
    machine.hazards = told  # type: ignore[assignment]
    store(machine, store_go(2, 3, memory_address=1000, local_address=100), store_pitch(6, 4))
    assert machine.memory.read(1000, 9)[0].tolist() == [
        10,
        11,
        0,
        *[x & 255 for x in range(1003, 1006)],
        15,
        16,
        0,
    ]
    assert told.told == [
        ("read", AM, [100, 101, 102, 104, 105, 106]),
        ("write", MEMORY, [1000, 1001, 1002, 1006, 1007, 1008]),
    ]


def test_rows_without_pitches_are_in_one_place() -> None:
    told = Told()
    machine = state(told)
    load(machine, load_go(2, 2, memory_address=10, local_address=100), None)
    assert told.told == [("read", MEMORY, [10, 11, 10, 11]), ("write", AM, [100, 101, 100, 101])]


def test_weights_go_to_words_that_wrap() -> None:
    told = Told()
    machine = state(told)
    last = CONFIG.wm_bytes - WORD
    load(machine, load_go(1, 2 * WORD, memory_address=64, local_address=last, space=Space.WM), None)
    words = machine.wm.read(machine.wm.places(CONFIG.wm_words - 1, 2))[0]
    assert words.ravel().tolist() == list(range(64, 64 + 2 * WORD))
    assert told.told == [
        ("read", MEMORY, [*range(64, 64 + 2 * WORD)]),
        ("write", WM, [*range(last, last + 2 * WORD)]),
    ]
    assert not machine.streamed_words


def test_streamed_words_are_told_row_by_row() -> None:
    machine = state()
    go = load_go(2, 2 * WORD, local_address=3 * WORD, space=Space.WM, streamed=1)
    load(machine, go, load_pitch(WORD, -5 * WORD))
    last = CONFIG.wm_words
    assert [words.tolist() for words in machine.streamed_words] == [[3, 4], [last - 2, last - 1]]


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"memory_address": WORD + 1}, f"memory_address {WORD + 1} must be a multiple of {WORD}"),
        ({"local_address": 3}, f"local_address 3 must be a multiple of {WORD}"),
        ({"row_bytes": WORD + 2}, f"row_bytes {WORD + 2} must be a multiple of {WORD}"),
        # The first field that is wrong is named, before one that leaves the memory.
        ({"memory_address": SIZE + 1, "local_address": 1}, f"memory_address {SIZE + 1} must be a multiple"),
    ],
)
def test_weights_begin_and_end_at_words(fields: dict[str, int], said: str) -> None:
    with pytest.raises(Fault, match=f"{said}.* for the weight memory") as caught:
        load(state(), load_go(**{"space": Space.WM} | fields), None)
    assert caught.value.code is Error.ILLEGAL
    if "row_bytes" not in fields:
        load(state(), load_go(**fields | {"memory_address": 1}), None)


def test_the_row_that_is_wrong_is_named() -> None:
    """The second row of weights begins within a word; the third one of bytes leaves the memory."""
    go = load_go(3, WORD, memory_address=0, space=Space.WM)
    with pytest.raises(
        Fault, match="memory_address 4 of row 1 must be a multiple of 8 for the weight memory"
    ):
        load(state(), go, load_pitch(4, WORD))
    with pytest.raises(Fault, match="local_address 12 of row 1 must be"):
        load(state(), go, load_pitch(WORD, 12))
    outside = store_go(3, 10, memory_address=SIZE - 29)
    with pytest.raises(Fault, match=f"bytes {SIZE - 9}..{SIZE} leave the {SIZE} bytes of external") as caught:
        store(state(), outside, store_pitch(10, 0))
    assert caught.value.code is Error.MEMORY_RANGE
    store(state(), store_go(3, 10, memory_address=SIZE - 30), store_pitch(10, 0))


@pytest.mark.parametrize("space", [Space.AM, Space.WM])
@pytest.mark.parametrize("end, fits", [(SIZE, True), (SIZE + WORD, False)])
def test_the_last_byte_of_a_row_is_in_memory(space: Space, end: int, fits: bool) -> None:
    go = load_go(1, 2 * WORD, memory_address=end - 2 * WORD, space=space)
    if fits:
        load(state(), go, None)
        return
    with pytest.raises(Fault, match=f"bytes {SIZE - WORD}..{SIZE + WORD - 1} leave"):
        load(state(), go, None)


def test_rows_go_backwards_and_round() -> None:
    """Of addresses 32 bits count in memory, 24 locally."""
    machine = state()
    go = load_go(2, 2, memory_address=4, local_address=2)
    load(machine, go, load_pitch(-3, -6))
    assert machine.am.read(2, 2)[0].tolist() == [4, 5]
    assert machine.am.read(CONFIG.am_bytes - 4, 2)[0].tolist() == [1, 2]
    first = MEMORY_ADDRESSES - 16
    with pytest.raises(Fault, match=f"bytes {first}..{first + 1} leave"):
        load(state(), load_go(2, 2, memory_address=first), load_pitch(18, 0))
    assert LOCAL_ADDRESSES == 1 << 24
    told = Told()
    load(state(told), load_go(2, 2, local_address=LOCAL_ADDRESSES - 2), load_pitch(0, 6))
    assert told.told[1] == ("write", AM, [LOCAL_ADDRESSES - 2, LOCAL_ADDRESSES - 1, 4, 5])


@pytest.mark.parametrize("fields, what", [({"streamed": 1}, "streamed"), ({"packed": 1}, "packed")])
def test_only_weights_are_streamed_or_packed(fields: dict[str, int], what: str) -> None:
    with pytest.raises(Fault, match=f"only loads to the weight memory are {what}"):
        load(state(), load_go(**fields), None)
