"""Programs on `nano` that fill every memory of the machine with a secret, and that read each memory without having
written it."""

import dataclasses

import numpy as np

from tosaic.hw.config_text import get_config
from tosaic.hw.isa import OFFSETS_MAX, STORE_STREAM, Element, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler

CONFIG = get_config("nano")
SECRET = np.random.default_rng(21).integers(1, 256, CONFIG.am_bytes, np.uint8).tobytes()
SECRET_WORD = 0x5EC12E7
WINDOW_BYTES, CODE_AT, OUT_AT = 1 << 18, 1 << 16, 1 << 17


@dataclasses.dataclass(frozen=True)
class Leak:
    """A program and its data, both for fixed places; what it read is `count` bytes at OUT_AT."""

    data: bytes
    assembler: Assembler
    count: int

    def image(self) -> tuple[bytes, int]:
        """Bytes from address 0 on, and the length of the program at CODE_AT."""
        memory = np.zeros(OUT_AT, np.uint8)
        memory[: len(self.data)] = np.frombuffer(self.data, np.uint8)
        size = self.assembler.place(memory, CODE_AT)
        return memory.tobytes(), size


def _stream(a: Assembler, stream: int, address: int, element: Element, counts, **more: int) -> None:
    """Two dimensions: (count, stride), (count, stride)."""
    a.emit(Opcode.VECTOR_STREAM, stream=stream, address=address, element=element, **more)
    a.vector_dims(stream, counts)


def _go(a: Assembler, vectors: int, slots: int = 16, repeats: int = 1, uops: int = 1) -> None:
    a.emit(
        Opcode.VECTOR_GO,
        vectors=vectors,
        slots=slots,
        repeats=repeats,
        body_end=uops,
        uops=uops,
        lanes=CONFIG.columns,
        tail_lanes=CONFIG.columns,
    )


def _load(a: Assembler, space: Space, count: int) -> None:
    """Loads `count` bytes from address 0; the other units wait for them."""
    a.emit(Opcode.LOAD_GO, space=space, row_bytes=count, rows=1)
    for unit, semaphore in ((Opcode.ARRAY_WAIT, 0), (Opcode.VECTOR_WAIT, 1), (Opcode.STORE_WAIT, 2)):
        a.pass_token(Opcode.LOAD_SIGNAL, unit, semaphore)


def _store(a: Assembler, local: int, count: int) -> None:
    """Stores `count` bytes to OUT_AT when VECTOR has written them."""
    a.pass_token(Opcode.VECTOR_SIGNAL, Opcode.STORE_WAIT, 3)
    a.emit(Opcode.STORE_GO, memory_address=OUT_AT, local_address=local, row_bytes=count, rows=1)


def _one_tile(a: Assembler, **go: int) -> None:
    """ARRAY reads two pixels of four bytes from address 0 of the activation memory."""
    a.emit(Opcode.ARRAY_INPUT, row_bytes=8, height=1)
    a.emit(Opcode.ARRAY_WINDOW, x_step=4, width=2)
    a.emit(Opcode.ARRAY_KERNEL, ky_count=1, run_count=1, chunks=1)
    a.emit(Opcode.ARRAY_GO, **({"weights": 0, "pixels": 2, "accumulate": 0, "drain": 0} | go))


def secret() -> Leak:
    """Leaves the secret in every memory, and fifteen marks."""
    a = Assembler(CONFIG)
    _load(a, Space.AM, CONFIG.am_bytes)
    _load(a, Space.WM, CONFIG.wm_bytes)
    a.emit(Opcode.VECTOR_PARAM, address=256, bias=1, scale=1)
    a.emit(Opcode.VECTOR_TABLE, address=512, entries=512)
    a.emit(Opcode.VECTOR_OFFSETS, address=4096, count=OFFSETS_MAX)
    _stream(a, 0, 64, Element.INT8, ((16, 4), (1, 0)))
    _stream(a, STORE_STREAM, 0, Element.INT8, ((1, 0), (1, 0)))
    for register in range(CONFIG.vector_registers):
        a.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, destination=register)
        _go(a, 16)
    for index in range(CONFIG.vector_uops):
        a.emit(Opcode.VECTOR_UOP, index=index, op=Op.MOV, a_source=Source.IMMEDIATE, to_memory=1)
        a.emit(Opcode.VECTOR_BOUNDS, index=index, immediate=SECRET_WORD)
    _one_tile(a)
    for layer in range(15):
        a.emit(Opcode.VECTOR_MARK, layer=0x5EC0 + layer)
    return Leak(SECRET, a, 0)


def activation_memory() -> Leak:
    a = Assembler(CONFIG)
    a.emit(Opcode.STORE_GO, memory_address=OUT_AT, row_bytes=CONFIG.am_bytes, rows=1)
    return Leak(b"", a, CONFIG.am_bytes)


def weight_memory() -> Leak:
    """Two of four words in a row: the pixels are unit vectors, so their sums are weights."""
    a = Assembler(CONFIG)
    _load(a, Space.AM, 8)
    blocks = CONFIG.wm_words // CONFIG.columns
    _stream(a, STORE_STREAM, 64, Element.INT8, ((2 * blocks, 4), (1, 0)))
    a.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.ARRAY, to_memory=1)
    _one_tile(a, drain=1, more_blocks=blocks - 1)
    _go(a, 2 * blocks)
    _store(a, 64, 8 * blocks)
    return Leak(bytes([1, 0, 0, 0, 0, 1, 0, 0]), a, 8 * blocks)


def vector_registers() -> Leak:
    """The low byte of every lane."""
    a = Assembler(CONFIG)
    for register in range(CONFIG.vector_registers):
        _stream(a, STORE_STREAM, 64 * register, Element.INT8, ((16, 4), (1, 0)))
        a.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.REGISTER, a_index=register, to_memory=1)
        _go(a, 16)
    _store(a, 0, 64 * CONFIG.vector_registers)
    return Leak(b"", a, 64 * CONFIG.vector_registers)


def accumulators() -> Leak:
    """The low byte of every lane: goes on from the sums, with pixels that are zero."""
    a = Assembler(CONFIG)
    _load(a, Space.AM, 8)
    _stream(a, STORE_STREAM, 64, Element.INT8, ((2, 4), (1, 0)))
    a.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.ARRAY, to_memory=1)
    _one_tile(a, accumulate=1, drain=1)
    _go(a, 2, slots=2)
    _store(a, 64, 8)
    return Leak(bytes(8), a, 8)


def micro_program() -> Leak:
    a = Assembler(CONFIG)
    _stream(a, STORE_STREAM, 0, Element.INT32, ((16, 16), (1, 0)))
    _go(a, 1, uops=16)
    _store(a, 0, 256)
    return Leak(b"", a, 256)


def parameters() -> Leak:
    """The biases, and a number rescaled by multiplier and shift."""
    a = Assembler(CONFIG)
    _stream(a, STORE_STREAM, 0, Element.INT32, ((2, 16), (1, 0)))
    a.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, bias=1, to_memory=1)
    a.emit(
        Opcode.VECTOR_UOP,
        index=1,
        op=Op.RESCALE,
        a_source=Source.IMMEDIATE,
        per_channel=1,
        to_memory=1,
    )
    a.emit(Opcode.VECTOR_BOUNDS, index=1, immediate=1 << 20)
    _go(a, 1, uops=2)
    _store(a, 0, 32)
    return Leak(b"", a, 32)


def table() -> Leak:
    """Shows both halves of every entry: TABLE16 at its first and second place."""
    a = Assembler(CONFIG)
    places = np.array([-32768 + 128 * entry + step for entry in range(512) for step in (0, 1)], np.int32)
    data = np.repeat(places, 4).tobytes()
    _load(a, Space.AM, len(data))
    _stream(a, 0, 0, Element.INT32, ((1024, 16), (1, 0)))
    _stream(a, STORE_STREAM, 16384, Element.INT32, ((1024, 16), (1, 0)))
    a.emit(Opcode.VECTOR_UOP, index=0, op=Op.TABLE16, a_source=Source.LOAD, to_memory=1)
    _go(a, 1024)
    _store(a, 16384, 16384)
    return Leak(data, a, 16384)


def offsets() -> Leak:
    """Every place of the activation memory tells where it is."""
    a = Assembler(CONFIG)
    data = np.arange(CONFIG.am_bytes // 8, dtype="<u4").tobytes()
    _load(a, Space.AM, len(data))
    _stream(a, 0, 0, Element.INT32, ((1, 0), (OFFSETS_MAX, 0)), indexed=1, splat=1)
    _stream(a, STORE_STREAM, 16384, Element.INT32, ((1, 0), (OFFSETS_MAX, 16)))
    a.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
    _go(a, OFFSETS_MAX)
    _store(a, 16384, 16 * OFFSETS_MAX)
    return Leak(data, a, 16 * OFFSETS_MAX)


READERS = {
    "activation memory": activation_memory,
    "weight memory": weight_memory,
    "vector registers": vector_registers,
    "accumulators": accumulators,
    "micro-program": micro_program,
    "parameters": parameters,
    "table": table,
    "offsets": offsets,
}
