"""A program that moves rows through the activation memory, for the tests and the benches that they run."""

import numpy as np

from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, Space
from tosaic.sim.assembler import Assembler

CONFIG = get_config("nano,cabac_engines=2")
"""One machine, and so one simulator, for all tests of the bench; two decoders work side by side in it."""
PROGRAM = 8192
WINDOW_BYTES = 16384
ROWS, ROW_BYTES = 5, 37
SOURCE, SOURCE_PITCH = 131, 101
TARGET, TARGET_PITCH = 2053, 43
LOAD_PC, STORE_PC = 32, 96
"""Byte offsets of the two GOs in the program."""


def copy_program(
    rows: int = ROWS, source: int = SOURCE, row_bytes: int = ROW_BYTES
) -> tuple[np.ndarray, int]:
    """A window and the program's size; nothing in it is aligned."""
    window = np.random.default_rng(1).integers(0, 256, WINDOW_BYTES).astype(np.uint8)
    assembler = Assembler(CONFIG)
    assembler.emit(Opcode.LOAD_PITCH, memory_pitch=SOURCE_PITCH, local_pitch=41)
    assembler.emit(
        Opcode.LOAD_GO, memory_address=source, space=Space.AM, local_address=3, row_bytes=row_bytes, rows=rows
    )
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 0)
    assembler.emit(Opcode.STORE_PITCH, memory_pitch=TARGET_PITCH, local_pitch=41)
    assembler.emit(Opcode.STORE_GO, memory_address=TARGET, local_address=3, row_bytes=row_bytes, rows=rows)
    return window, assembler.place(window, PROGRAM)


def copied(window: np.ndarray) -> np.ndarray:
    """What the program makes of a window."""
    expected = window.copy()
    for row in range(ROWS):
        start = SOURCE + SOURCE_PITCH * row
        expected[TARGET + TARGET_PITCH * row :][:ROW_BYTES] = window[start : start + ROW_BYTES]
    return expected
