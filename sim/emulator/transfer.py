"""LOAD and STORE: two-dimensional copies between external memory and the on-chip memories."""

import numpy as np

from tosaic.hw.isa import Error, Instruction, Space

from .faults import Fault
from .hazards import AM, MEMORY, WM
from .state import State


def load(state: State, go: Instruction, pitch: Instruction | None) -> None:
    """Execute LOAD_GO with the pitches of the last LOAD_PITCH."""
    memory_pitch, local_pitch = _pitches(go, pitch)
    data = _memory_rows(state, go, memory_pitch)
    if state.hazards:
        state.hazards.read(MEMORY, _addresses(go, go.memory_address, memory_pitch))
        local = _addresses(go, go.local_address, local_pitch)
        state.hazards.write(AM if go.space == Space.AM else WM, local)
    if go.space == Space.AM:
        if go.streamed:
            raise Fault(Error.ILLEGAL, "only loads to the weight memory are streamed")
        state.am.write_rows(go.local_address, local_pitch, data)
        return
    word = state.config.word_bytes
    fields = {
        "memory_address": go.memory_address,
        "local_address": go.local_address,
        "row_bytes": go.row_bytes,
    }
    if go.rows > 1:
        fields |= {"memory_pitch": memory_pitch, "local_pitch": local_pitch}
    for name, value in fields.items():
        if value % word:
            raise Fault(Error.ILLEGAL, f"{name} {value} must be a multiple of {word} for the weight memory")
    words = data.reshape(go.rows, -1, word).view(np.int8)
    for row, content in enumerate(words):
        start = (go.local_address + row * local_pitch) // word
        places = (start + np.arange(len(content))) % state.config.wm_words
        state.wm[places] = content
        if go.streamed:
            state.streamed_words.extend(places.tolist())


def store(state: State, go: Instruction, pitch: Instruction | None) -> None:
    """Execute STORE_GO with the pitches of the last STORE_PITCH."""
    memory_pitch, local_pitch = _pitches(go, pitch)
    target = _memory_rows(state, go, memory_pitch)
    if state.hazards:
        state.hazards.read(AM, _addresses(go, go.local_address, local_pitch))
        state.hazards.write(MEMORY, _addresses(go, go.memory_address, memory_pitch))
    data = state.am.read_rows(go.local_address, local_pitch, go.rows, go.row_bytes)
    for row in range(go.rows):
        target[row] = data[row]


def _pitches(go: Instruction, pitch: Instruction | None) -> tuple[int, int]:
    return (pitch.memory_pitch, pitch.local_pitch) if pitch else (0, 0)


def _addresses(go: Instruction, address: int, pitch: int) -> np.ndarray:
    return (address + pitch * np.arange(go.rows)[:, None] + np.arange(go.row_bytes)).ravel()


def _memory_rows(state: State, go: Instruction, memory_pitch: int) -> np.ndarray:
    """A writable view [rows, row_bytes] of external memory."""
    if not go.rows or not go.row_bytes:
        raise Fault(Error.ILLEGAL, f"rows ({go.rows}) and row_bytes ({go.row_bytes}) must be at least 1")
    size = len(state.memory)
    end = go.memory_address + (go.rows - 1) * memory_pitch + go.row_bytes
    if end > size:
        raise Fault(
            Error.MEMORY_RANGE,
            f"bytes {go.memory_address}..{end - 1} leave the {size} bytes of external memory",
        )
    return np.lib.stride_tricks.as_strided(
        state.memory[go.memory_address :], (go.rows, go.row_bytes), (memory_pitch, 1)
    )
