"""LOAD and STORE: two-dimensional copies between external memory and the on-chip memories."""

import dataclasses

import numpy as np

from tosaic.hw.isa import Error, Instruction, Space
from tosaic.hw.packed_weights import PackedError, unpack
from tosaic.hw.row_crc import rows_crc

from .faults import Fault
from .hazards import AM, MEMORY, WM
from .state import CoreState, agreed

MEMORY_ADDRESSES = 1 << 32
LOCAL_ADDRESSES = 1 << 24
"""Row addresses wrap."""


@dataclasses.dataclass(frozen=True)
class UnpackedRow:
    """A row of a packed LOAD_GO."""

    words: int
    cycles: int
    """That unpacking takes by itself."""


def load(state: CoreState, go: Instruction, pitch: Instruction | None) -> list[UnpackedRow]:
    """Execute LOAD_GO with the pitches of the last LOAD_PITCH; the rows that were unpacked."""
    if (go.streamed or go.packed) and go.space == Space.AM:
        what = "streamed" if go.streamed else "packed"
        raise Fault(Error.ILLEGAL, f"only loads to the weight memory are {what}")
    if go.packed and not state.config.unpackers:
        raise Fault(Error.ILLEGAL, f"configuration {state.config.name} has no unpacker for packed weights")
    memory_rows, local_rows = rows_of(state, go, pitch, to_wm=go.space == Space.WM)
    if go.checked:
        rows = agreed(state.domain.known(state.memory.read_rows(memory_rows, go.row_bytes)))
        state.crc = rows_crc(state.crc, memory_rows.tolist(), rows, state.config.word_bytes)
    if go.packed:
        return [
            _unpack(state, go, start, local)
            for start, local in zip(memory_rows.tolist(), local_rows.tolist(), strict=True)
        ]
    if state.hazards:
        target = AM if go.space == Space.AM else WM
        state.hazards.copy(MEMORY, _bytes(memory_rows, go), target, _bytes(local_rows, go))
    data = state.memory.read_rows(memory_rows, go.row_bytes)
    if go.space == Space.AM:
        state.am.write_rows(local_rows, data)
        return []
    word = state.config.word_bytes
    words = np.ascontiguousarray(data).reshape(len(data), go.rows, -1, word).view(state.domain.word)
    for row, start in enumerate((local_rows // word).tolist()):
        _place_words(state, go, start, words[:, row])
    return []


def check(state: CoreState, wanted: Instruction) -> None:
    """Execute LOAD_CHECK."""
    found, state.crc = state.crc, 0
    if found != wanted.crc:
        raise Fault(
            Error.DATA, f"the CRC of what was loaded is 0x{found:08x}: constants in memory have changed"
        )


def _place_words(state: CoreState, go: Instruction, start: int, words: np.ndarray) -> None:
    """Words [1 or samples, n, W] of a row go to the weight memory, from word `start` on."""
    count, size = words.shape[1], state.config.wm_words
    state.wm.write(state.wm.places(start, count), words)
    if go.streamed:
        state.streamed_words.append((start + np.arange(count)) % size)


def _unpack(state: CoreState, go: Instruction, start: int, local: int) -> UnpackedRow:
    """A row of packed weights."""
    word = state.config.word_bytes
    row = state.read_known(start, go.row_bytes)
    try:
        weights, cycles = unpack(row, word)
    except PackedError as error:
        raise Fault(Error.ILLEGAL, f"the packed row at {start} is wrong: {error}") from None
    words = state.domain.cells(weights.reshape(1, -1, word).view(np.uint8)).view(state.domain.word)
    if state.hazards:
        state.hazards.read(MEMORY, start + np.arange(go.row_bytes))
        state.hazards.write(WM, local + np.arange(weights.size))
    _place_words(state, go, local // word, words)
    return UnpackedRow(words.shape[1], cycles)


def store(state: CoreState, go: Instruction, pitch: Instruction | None) -> None:
    """Execute STORE_GO with the pitches of the last STORE_PITCH."""
    memory_rows, local_rows = rows_of(state, go, pitch, to_wm=False)
    _check_programs(state, go, memory_rows)
    if state.hazards:
        state.hazards.copy(AM, _bytes(local_rows, go), MEMORY, _bytes(memory_rows, go))
    state.memory.write_rows(memory_rows, state.am.read_rows(local_rows, go.row_bytes))


def rows_of(
    state: CoreState, go: Instruction, pitch: Instruction | None, *, to_wm: bool
) -> tuple[np.ndarray, np.ndarray]:
    """int64 [rows] each: where the rows begin in external and in on-chip memory. The first row that is wrong says with
    which error; the hardware looks at one after the other."""
    if not go.rows or not go.row_bytes:
        raise Fault(Error.ILLEGAL, f"rows ({go.rows}) and row_bytes ({go.row_bytes}) must be at least 1")
    number = np.arange(go.rows, dtype=np.int64)
    memory_pitch, local_pitch = (pitch.memory_pitch, pitch.local_pitch) if pitch else (0, 0)
    if go.rows == 1 and not to_wm and go.memory_address + go.row_bytes <= len(state.memory):
        return number + go.memory_address, number + go.local_address
    memory_rows = (go.memory_address + number * memory_pitch) % MEMORY_ADDRESSES
    local_rows = (go.local_address + number * local_pitch) % LOCAL_ADDRESSES
    word, size = state.config.word_bytes, len(state.memory)
    misaligned = (memory_rows | local_rows | go.row_bytes) % word != 0 if to_wm else np.zeros(go.rows, bool)
    outside = memory_rows + go.row_bytes > size
    wrong = np.flatnonzero(misaligned | outside)
    if not len(wrong):
        return memory_rows, local_rows
    row = wrong[0]
    if misaligned[row]:
        _misaligned(int(row), int(memory_rows[row]), int(local_rows[row]), go, word)
    first, last = memory_rows[row], memory_rows[row] + go.row_bytes - 1
    raise Fault(Error.MEMORY_RANGE, f"bytes {first}..{last} leave the {size} bytes of external memory")


def _check_programs(state: CoreState, go: Instruction, memory_rows: np.ndarray) -> None:
    """A program is read ahead of its execution, so a store to it changes now this, now that: no program may."""
    for program in state.programs:
        reached = (memory_rows < program.stop) & (memory_rows + go.row_bytes > program.start)
        if reached.any():
            first = int(memory_rows[reached][0])
            raise Fault(
                None,
                f"bytes {first}..{first + go.row_bytes - 1} reach the program in bytes {program.start}.."
                f"{program.stop - 1}, which may not change while it runs",
            )


def source_of(state: CoreState, go: Instruction, pitch: Instruction | None, byte: int) -> int:
    """The byte of external memory that a LOAD_GO brings to `byte` of the activation memory, as it does."""
    memory_rows, local_rows = rows_of(state, go, pitch, to_wm=False)
    size = state.config.am_bytes
    behind = (byte - local_rows) % size
    last = np.flatnonzero(behind < go.row_bytes)[-1]
    # A row longer than the memory goes around it: its last turn stays.
    turns = (go.row_bytes - 1 - behind[last]) // size
    return int(memory_rows[last] + behind[last] + turns * size)


def _misaligned(row: int, memory_address: int, local_address: int, go: Instruction, word: int) -> None:
    fields = {
        "memory_address": memory_address,
        "local_address": local_address,
        "row_bytes": go.row_bytes,
    }
    for name, value in fields.items():
        if value % word:
            place = f" of row {row}" if row else ""
            raise Fault(
                Error.ILLEGAL, f"{name} {value}{place} must be a multiple of {word} for the weight memory"
            )


def _bytes(rows: np.ndarray, go: Instruction) -> np.ndarray:
    """The addresses of all bytes of rows that begin there."""
    return (rows[:, None] + np.arange(go.row_bytes)).ravel()
