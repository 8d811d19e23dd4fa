"""LOAD and STORE of the emulator in small programs: rows anywhere, and what the first wrong one says."""

import numpy as np
import pytest
from unit_programs import UnitProgram, command

from tosaic.errors import DeviceError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Instruction, Opcode, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator

CONFIG = get_config("small")
WORD, SIZE = CONFIG.word_bytes, 1 << 12
PROGRAM, SHOWN = 2048, 3072
"""Where the program is in memory, and where tests store what is in activation memory."""
MEMORY_ADDRESSES, LOCAL_ADDRESSES = 1 << 32, 1 << 24


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


def run(*commands: Instruction, ordered: bool = True, check_hazards: bool = False) -> np.ndarray:
    """Memory behind the commands; each waits for those before it where they are `ordered`."""
    assembler = Assembler(CONFIG)
    for each in commands:
        assembler.instructions.append(each)
        if ordered:
            assembler.fence()
    memory = np.arange(SIZE).astype(np.uint8)
    size = assembler.place(memory, PROGRAM)
    assert PROGRAM + size <= SHOWN
    Emulator(CONFIG, check_hazards=check_hazards).run(memory, PROGRAM, size)
    return memory


def shown(address: int, size: int, *commands: Instruction) -> list[int]:
    """Bytes of activation memory behind the commands."""
    memory = run(*commands, store_pitch(0, 0), store_go(1, size, memory_address=SHOWN, local_address=address))
    return memory[SHOWN : SHOWN + size].tolist()


def refused(*commands: Instruction) -> str:
    with pytest.raises(DeviceError) as caught:
        run(*commands)
    return str(caught.value)


ROWS = [load_pitch(5, 4), load_go(3, 2, memory_address=10, local_address=100)]
"""A transfer of two rows of two bytes, 5 bytes apart outside and 4 inside."""


def test_rows_have_pitches_on_both_sides() -> None:
    assert shown(100, 10, *ROWS) == [10, 11, 0, 0, 15, 16, 0, 0, 20, 21]
    memory = run(*ROWS, store_pitch(6, 4), store_go(2, 3, memory_address=1000, local_address=100))
    between = [number & 255 for number in range(1003, 1006)]
    assert memory[1000:1009].tolist() == [10, 11, 0, *between, 15, 16, 0]


@pytest.mark.parametrize(
    "address, touched", [(99, False), (100, True), (101, True), (102, False), (103, False)]
)
def test_bytes_between_rows_are_not_touched(address: int, touched: bool) -> None:
    """No token orders a STORE of what lies there."""
    store = store_go(1, 1, memory_address=SHOWN, local_address=address)
    if not touched:
        run(*ROWS, store, ordered=False, check_hazards=True)
        return
    with pytest.raises(
        DeviceError, match=f"reads byte {address} of the activation memory, which may still be"
    ):
        run(*ROWS, store, ordered=False, check_hazards=True)


def test_rows_without_pitches_are_in_one_place() -> None:
    assert shown(100, 4, load_go(2, 2, memory_address=10, local_address=100)) == [10, 11, 0, 0]


def weighed(*loads: Instruction, words: tuple[int, ...], streamed: int = 0) -> list[list[int]]:
    """Sums of the columns of eight words of the weight memory, from each of these on."""
    program = UnitProgram(CONFIG)
    program.put(0, np.ones(WORD, np.int8))
    program.commands += loads
    program.take(Opcode.ARRAY_INPUT, row_bytes=WORD, height=1)
    program.take(Opcode.ARRAY_WINDOW, width=1)
    program.take(Opcode.ARRAY_KERNEL, ky_count=1, run_count=1, chunks=1)
    if not streamed:
        program.take(Opcode.LOAD_SIGNAL, semaphore=2, count=1)
        program.take(Opcode.ARRAY_WAIT, semaphore=2, count=1)
    for word in words:
        program.take(Opcode.ARRAY_GO, weights=word, pixels=1, drain=1, streamed=streamed)
    program.store_sums(64, len(words))
    found = program.executed()[0, 64:][: 4 * WORD * len(words)].view("<i4")
    return found.reshape(-1, WORD).tolist()


WEIGHTS_AT = 1 << 16
"""Address of the weights in the memory of a UnitProgram."""


def test_weights_go_to_words_that_wrap() -> None:
    """Two words, of which the second one is the first of the memory, out of the program's own bytes."""
    last = CONFIG.wm_words - 1
    load = load_go(1, 2 * WORD, memory_address=0, local_address=last * WORD, space=Space.WM)
    memory = np.zeros(64, np.int8)
    Assembler(CONFIG).place(memory.view(np.uint8), 0)
    wanted = memory[: 2 * WORD].reshape(2, WORD).astype(int)
    (sums,) = weighed(load, words=(last,))
    assert sums == wanted.sum(axis=0).tolist()


def test_streamed_words_come_row_by_row() -> None:
    """The second row lies before the first one, round the end of the memory."""
    load = load_go(2, 8 * WORD, memory_address=WEIGHTS_AT, local_address=3 * WORD, space=Space.WM, streamed=1)
    loads, last = [load_pitch(WORD, -11 * WORD), load], CONFIG.wm_words
    assert weighed(*loads, words=(3, last - 8), streamed=1) == [[0] * WORD] * 2
    with pytest.raises(
        DeviceError, match=f"reads word {last - 8} of the weight memory, when the next .* is 3:"
    ):
        weighed(*loads, words=(last - 8, 3), streamed=1)


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
    text = refused(load_go(**{"space": Space.WM} | fields))
    assert text.startswith("ILLEGAL ") and said in text and text.endswith(" for the weight memory")
    run(load_go(**fields | {"memory_address": 1}))


def test_the_row_that_is_wrong_is_named() -> None:
    """The second row of weights begins within a word; the third one of bytes leaves the memory."""
    go = load_go(3, WORD, memory_address=0, space=Space.WM)
    assert refused(load_pitch(4, WORD), go).endswith(
        "memory_address 4 of row 1 must be a multiple of 8 for the weight memory"
    )
    assert "local_address 12 of row 1 must be" in refused(load_pitch(WORD, 12), go)
    text = refused(store_pitch(10, 0), store_go(3, 10, memory_address=SIZE - 29))
    assert text.startswith("MEMORY_RANGE ")
    assert text.endswith(f"bytes {SIZE - 9}..{SIZE} leave the {SIZE} bytes of external memory")
    run(store_pitch(10, 0), store_go(3, 10, memory_address=SIZE - 30))


@pytest.mark.parametrize("space", [Space.AM, Space.WM])
def test_the_last_byte_of_a_row_is_in_memory(space: Space) -> None:
    run(load_go(1, 2 * WORD, memory_address=SIZE - 2 * WORD, space=space))
    text = refused(load_go(1, 2 * WORD, memory_address=SIZE - WORD, space=space))
    assert f"bytes {SIZE - WORD}..{SIZE + WORD - 1} leave" in text


def test_rows_go_backwards_and_round() -> None:
    """In memory 32 bits of an address count, locally 24."""
    backwards = [load_pitch(-3, -6), load_go(2, 2, memory_address=4, local_address=2)]
    assert shown(2, 2, *backwards) == [4, 5]
    assert shown(CONFIG.am_bytes - 4, 2, *backwards) == [1, 2]
    first = MEMORY_ADDRESSES - 16
    text = refused(load_pitch(18, 0), load_go(2, 2, memory_address=first))
    assert f"bytes {first}..{first + 1} leave" in text
    round_ = [load_pitch(0, 6), load_go(2, 2, memory_address=7, local_address=LOCAL_ADDRESSES - 2)]
    assert shown(CONFIG.am_bytes - 2, 2, *round_) == shown(4, 2, *round_) == [7, 8]


@pytest.mark.parametrize("fields, what", [({"streamed": 1}, "streamed"), ({"packed": 1}, "packed")])
def test_only_weights_are_streamed_or_packed(fields: dict[str, int], what: str) -> None:
    assert f"only loads to the weight memory are {what}" in refused(load_go(**fields))
