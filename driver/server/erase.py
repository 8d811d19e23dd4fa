"""Empties a machine: a program that the host assembles writes zeros over whatever a program can read later.

A program cannot read the array's delay lines, the decoder's contexts, semaphores and the flag of BRANCH as an earlier
one left them: the machine clears or masks these itself. The layer marks stay; the host shows only those of a run.
"""

import time

import numpy as np

from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.isa import (
    FIELDS,
    OFFSETS_MAX,
    Op,
    Opcode,
    Source,
    Space,
)
from tosaic.hw.vector.table import TABLE_ENTRIES
from tosaic.sim.assembler import Assembler
from tosaic.sim.registers import RegisterReport

from ..transports import RegisterTransport

ZERO_BYTES = 256
"""Zeros in front of the program, from which LOAD fills the memories. Whole words of every configuration."""
STORE_ROW_BYTES = 4096
PLACE_BYTES = 4096
"""The image of the program begins at a multiple of this, and is shorter."""
ERASE_SECONDS = 600.0
LOADED = 0
"""Semaphore: the memories are full of zeros."""


def erase(device: RegisterTransport, config: Config, start: int, end: int) -> None:
    """Zero the memories of the machine and the bytes `start` to `end` - 1 of its external memory.

    `start` is a multiple of PLACE_BYTES. Where the host has no quick way to the external memory, the machine itself
    stores the zeros. DeviceError when that fails; then nothing is known of what is left.
    """
    device.make_idle()
    size = device.identity.memory_bytes
    image, code_bytes = _image(config, start, 0, 0)
    if start + len(image) > size:
        raise DeviceError(
            f"{device.name}: the board cannot be erased: its {size} bytes of memory have no room for the "
            f"{len(image)} bytes of the program that does it"
        )
    cleared = device.clear_memory(start, end - start)
    first = start + PLACE_BYTES
    if not cleared and end > first:
        image, code_bytes = _image(config, start, first, end)
    device.write_memory(start, image)
    device.start(max(end, start + len(image)), start + ZERO_BYTES, code_bytes)
    _wait(device)
    device.acknowledge()
    own_place = min(PLACE_BYTES, size - start)
    if not cleared or not device.clear_memory(start, own_place):
        device.write_memory(start, bytes(own_place))


def _wait(device: RegisterTransport) -> None:
    report = RegisterReport(device)
    status = REGISTER["STATUS"]
    deadline = time.monotonic() + ERASE_SECONDS
    attempt = 0
    while status.field("running").extract(value := report.read("STATUS")):
        if time.monotonic() > deadline:
            device.make_idle()
            raise DeviceError(f"{device.name}: erasing the board does not end in {ERASE_SECONDS:.0f} s")
        device.wait(attempt)
        attempt += 1
    if not status.field("done").extract(value):
        raise DeviceError(
            f"{device.name}: the board cannot be erased: {report.failure([]) or 'it was reset meanwhile'}"
        )


def _image(config: Config, place: int, first: int, end: int) -> tuple[bytes, int]:
    """ZERO_BYTES of zeros, then the program; and the program's length. The image lies at `place` of the memory; the
    program stores zeros to the bytes `first` to `end` - 1."""
    program = Assembler(config)
    _fill_memories(program, place)
    _store_zeros(program, first, end)
    _define_vector(program)
    _clear_accumulators(program)
    _clear_registers(program)
    image = np.zeros(PLACE_BYTES, np.uint8)
    size = program.place(image, ZERO_BYTES)
    return image[: ZERO_BYTES + size].tobytes(), size


def _fill_memories(program: Assembler, zeros: int) -> None:
    """Fills activation and weight memory."""
    config = program.config
    program.emit(Opcode.LOAD_PITCH, memory_pitch=0, local_pitch=ZERO_BYTES)
    for space, size in ((Space.AM, config.am_bytes), (Space.WM, config.wm_bytes)):
        row_bytes = min(ZERO_BYTES, size)
        program.emit(
            Opcode.LOAD_GO,
            memory_address=zeros,
            space=space,
            local_address=0,
            row_bytes=row_bytes,
            rows=size // row_bytes,
        )
    if config.cabac_engines:
        program.emit(Opcode.LOAD_TENSOR)
        program.emit(Opcode.LOAD_STREAMS)
    for waiting in (Opcode.STORE_WAIT, Opcode.ARRAY_WAIT, Opcode.VECTOR_WAIT):
        program.pass_token(Opcode.LOAD_SIGNAL, waiting, LOADED)


def _store_zeros(program: Assembler, first: int, end: int) -> None:
    """Zeros of the activation memory into external memory."""
    row_bytes = min(STORE_ROW_BYTES, program.config.am_bytes)
    most = (1 << next(field.bits for field in FIELDS[Opcode.STORE_GO] if field.name == "rows")) - 1
    program.emit(Opcode.STORE_PITCH, memory_pitch=row_bytes, local_pitch=0)
    while first < end:
        rows = min((end - first) // row_bytes, most)
        size = row_bytes if rows else end - first
        program.emit(
            Opcode.STORE_GO, memory_address=first, local_address=0, row_bytes=size, rows=max(rows, 1)
        )
        first += size * max(rows, 1)


def _define_vector(program: Assembler) -> None:
    """Micro-program, bounds, streams, parameters, table and offsets."""
    for index in range(program.config.vector_uops):
        program.emit(Opcode.VECTOR_UOP, index=index, op=Op.MOV)
        program.emit(Opcode.VECTOR_BOUNDS, index=index)
    for stream in range(4):
        program.emit(Opcode.VECTOR_STREAM, stream=stream)
        program.vector_dims(stream)
    program.emit(Opcode.VECTOR_PARAM, address=0, bias=1, scale=1)
    program.emit(Opcode.VECTOR_TABLE, address=0, entries=TABLE_ENTRIES)
    program.emit(Opcode.VECTOR_OFFSETS, address=0, count=OFFSETS_MAX)


def _clear_accumulators(program: Assembler) -> None:
    """One tile of an image without bytes: its sums are zero, and VECTOR takes them."""
    rows = program.config.rows
    program.emit(Opcode.ARRAY_INPUT)
    program.emit(Opcode.ARRAY_WINDOW, width=rows)
    program.emit(Opcode.ARRAY_KERNEL, ky_count=1, run_count=1, chunks=1)
    program.emit(Opcode.ARRAY_GO, weights=0, pixels=rows, accumulate=0, drain=1)
    program.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.ARRAY)
    _run_first_uop(program, rows)


def _clear_registers(program: Assembler) -> None:
    """Every slot of every vector register."""
    for register in range(program.config.vector_registers):
        program.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, destination=register)
        _run_first_uop(program, program.config.vector_slots)


def _run_first_uop(program: Assembler, vectors: int) -> None:
    program.emit(
        Opcode.VECTOR_GO,
        vectors=vectors,
        slots=program.config.vector_slots,
        repeats=1,
        body_end=1,
        uops=1,
        lanes=program.config.columns,
        tail_lanes=program.config.columns,
    )
