"""Random programs of kinds that are not safe, and beside them programs that nearly are: over themselves, of memory that
nobody wrote, in loops without an exit, of large counts."""

import dataclasses
from collections.abc import Callable

import numpy as np

from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import INSTRUCTION_BYTES, STORE_STREAM, Condition, Element, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

CONFIG = CONFIGS["nano"]
MEMORY_BYTES, PROGRAM, DATA, RESULTS = 1 << 16, 1 << 12, 1 << 14, 3 << 14
"""The window, and where in it the program, bytes at random, and results begin."""
LOADED, LOADED_WEIGHTS = 1 << 13, 1 << 11
"""Bytes from 0 on of the on-chip memories that most programs load."""
COPIED = 1 << 12
"""Where results are in the activation memory."""
GO = {"vectors": 1, "slots": 1, "repeats": 1, "uops": 1, "lanes": 4, "tail_lanes": 4}


@dataclasses.dataclass(frozen=True)
class Unsafe:
    """A program, and whether it is one that has to be refused."""

    kind: str
    program: Stimulus
    refused: bool

    @property
    def known(self) -> np.ndarray:
        """All of external memory but the place for results."""
        return np.arange(MEMORY_BYTES) < RESULTS


class Made(Assembler):
    """A program in the making. `safe`: it is to be one that nearly is not."""

    def __init__(self, rng: np.random.Generator, *, safe: bool = True):
        super().__init__(CONFIG)
        self.rng, self.safe = rng, safe

    def draw(self, low: int, high: int) -> int:
        """Uniform in low..high."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, *values: int) -> int:
        return values[self.draw(0, len(values) - 1)]

    def load(self, *units: str) -> None:
        """All that most programs read, before these units begin."""
        self.emit(Opcode.LOAD_GO, memory_address=DATA, row_bytes=LOADED, rows=1)
        fields = {"memory_address": DATA, "space": Space.WM, "row_bytes": LOADED_WEIGHTS, "rows": 1}
        self.emit(Opcode.LOAD_GO, **fields)
        for number, unit in enumerate(units):
            self.pass_token(Opcode.LOAD_SIGNAL, Opcode[f"{unit}_WAIT"], number)

    def store(self, unit: str, address: int = COPIED, count: int = 16) -> None:
        """Bytes of the activation memory are results once the unit has made them."""
        self.pass_token(Opcode[f"{unit}_SIGNAL"], Opcode.STORE_WAIT, 8)
        fields = {"memory_address": RESULTS, "local_address": address, "row_bytes": count, "rows": 1}
        self.emit(Opcode.STORE_GO, **fields)

    def place_of(self, count: int, end: int = LOADED) -> int:
        """Returns a place for `count` bytes before `end`; in an unsafe program some of them lie beyond it."""
        if self.safe:
            return self.pick(end - count, self.draw(0, end - count))
        return end - count + self.pick(1, self.draw(1, count), self.draw(count, 4 * count))

    def copy(self, **uop: int) -> None:
        """A micro-operation whose result is stored as 4 bytes."""
        self.emit(Opcode.VECTOR_UOP, index=0, to_memory=1, **uop)
        self.emit(Opcode.VECTOR_STREAM, stream=STORE_STREAM, address=COPIED)

    def multiply(self, **go: int) -> None:
        """An ARRAY_GO of one word of weights for each lane of a word of the image."""
        self.emit(Opcode.ARRAY_WINDOW, width=4, x_step=4)
        self.emit(Opcode.ARRAY_KERNEL, ky_count=1, run_count=1, chunks=1)
        self.emit(Opcode.ARRAY_GO, **{"pixels": 1, "drain": 1, **go})


def _stored(made: Made) -> None:
    """STORE reads what nobody wrote."""
    made.load("STORE")
    rows, count = made.draw(1, 3), made.draw(1, 40)
    made.emit(Opcode.STORE_PITCH, memory_pitch=64, local_pitch=0)
    place = made.place_of(count)
    fields = {"memory_address": RESULTS, "local_address": place, "row_bytes": count, "rows": rows}
    made.emit(Opcode.STORE_GO, **fields)


def _streamed(made: Made) -> None:
    """A stream of VECTOR does."""
    made.load("VECTOR")
    element, splat, stream = made.draw(0, 4), made.draw(0, 1), made.draw(0, 2)
    made.copy(a_source=Source.LOAD, a_index=stream)
    size = Element(element).bytes * (1 if splat else 4)
    fields = {"stream": stream, "element": element, "splat": splat, "address": made.place_of(size)}
    made.emit(Opcode.VECTOR_STREAM, **fields)
    made.emit(Opcode.VECTOR_GO, **GO)
    made.store("VECTOR", count=4)


def _loaded_once(made: Made) -> None:
    """Adds a branch of which only one way writes what VECTOR reads."""
    made.load("VECTOR")
    made.emit(Opcode.VECTOR_TEST, address=made.draw(0, 100))
    branch = len(made.instructions)
    made.emit(Opcode.BRANCH, condition=made.pick(Condition.IF_SET, Condition.IF_CLEAR))
    made.emit(Opcode.LOAD_GO, memory_address=DATA, local_address=LOADED, row_bytes=64, rows=1)
    made.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 4)
    made.lead_here(branch)
    made.copy(a_source=Source.LOAD)
    place = LOADED - 4 if made.safe else LOADED + made.draw(-3, 60)
    made.emit(Opcode.VECTOR_STREAM, stream=0, address=place)
    made.emit(Opcode.VECTOR_GO, **GO)
    made.store("VECTOR", count=4)


def _image(made: Made) -> None:
    """The array reads bytes of an image."""
    made.load("ARRAY", "VECTOR")
    pixels = made.draw(1, 4)
    made.emit(Opcode.ARRAY_INPUT, address=made.place_of(4 * pixels), row_bytes=4 * pixels, height=1)
    made.copy(a_source=Source.ARRAY)
    made.multiply(pixels=pixels)
    made.vector_dims(STORE_STREAM, [(pixels, 4)])
    made.emit(Opcode.VECTOR_GO, **{**GO, "vectors": pixels, "slots": made.draw(1, 4)})
    made.store("VECTOR", count=4 * pixels)


def _weights(made: Made) -> None:
    """The array reads weights."""
    made.load("ARRAY", "VECTOR")
    made.emit(Opcode.ARRAY_INPUT, address=made.draw(0, 100), row_bytes=16, height=1)
    made.copy(a_source=Source.ARRAY)
    blocks = made.draw(1, 3)
    first = LOADED_WEIGHTS // 4 - 4 * blocks + (0 if made.safe else made.draw(1, 40))
    made.multiply(weights=first, more_blocks=blocks - 1)
    made.vector_dims(STORE_STREAM, [(blocks, 4)])
    made.emit(Opcode.VECTOR_GO, **{**GO, "vectors": blocks})
    made.store("VECTOR", count=4 * blocks)


def _taps(made: Made) -> None:
    """The array reads taps of a depthwise convolution."""
    made.load("ARRAY", "VECTOR")
    made.emit(Opcode.ARRAY_INPUT, address=0, row_bytes=64, height=1)
    made.emit(Opcode.ARRAY_WINDOW, width=16, x_step=4)
    line = {"delay": 2, "skip": 0, "line": 16, "out_width": 2, "out_height": 1, "x_stride": 1, "y_stride": 1}
    made.emit(Opcode.ARRAY_DEPTHWISE, **line)
    made.copy(a_source=Source.ARRAY)
    first = LOADED_WEIGHTS // 4 - CONFIG.rows + (0 if made.safe else made.draw(1, 40))
    made.emit(Opcode.ARRAY_DEPTHWISE_GO, weights=first, advances=16, group_rows=2, drain=1)
    made.emit(Opcode.VECTOR_GO, **{**GO, "vectors": 2})
    made.store("VECTOR", count=4)


def _sums(made: Made) -> None:
    """The array goes on from more sums than there are."""
    made.load("ARRAY", "VECTOR")
    made.emit(Opcode.ARRAY_INPUT, address=0, row_bytes=16, height=1)
    made.copy(a_source=Source.ARRAY)
    pixels = 2 if made.safe else 1
    made.multiply(pixels=pixels, drain=0)
    made.emit(Opcode.ARRAY_GO, pixels=2, accumulate=1, drain=1)
    made.vector_dims(STORE_STREAM, [(2, 4)])
    made.emit(Opcode.VECTOR_GO, **{**GO, "vectors": 2, "slots": 2})
    made.store("VECTOR", count=8)


def _parameters(made: Made) -> None:
    """VECTOR_PARAM."""
    made.load("VECTOR")
    bias, narrow = made.draw(0, 1), made.draw(0, 1)
    scale = made.draw(0, 1) if bias else 1
    count = 4 * bias * (2 if narrow else 4) + 4 * scale * 5
    made.copy(a_source=Source.LOAD, op=Op.RESCALE if scale else Op.MOV, bias=bias, per_channel=scale)
    fields = {"address": made.place_of(count), "bias": bias, "scale": scale, "narrow": narrow}
    made.emit(Opcode.VECTOR_PARAM, **fields)
    made.emit(Opcode.VECTOR_GO, **GO)
    made.store("VECTOR", count=4)


def _table(made: Made) -> None:
    """VECTOR_TABLE."""
    made.load("VECTOR")
    entries = made.pick(256, 512)
    made.copy(a_source=Source.LOAD, op=Op.TABLE8 if entries == 256 else Op.TABLE16)
    made.emit(Opcode.VECTOR_TABLE, address=made.place_of(4 * entries), entries=entries)
    made.emit(Opcode.VECTOR_GO, **GO)
    made.store("VECTOR", count=4)


def _offsets(made: Made) -> None:
    """VECTOR_OFFSETS."""
    made.load("VECTOR")
    count = made.draw(1, 20)
    made.copy(a_source=Source.LOAD)
    # Behind bytes of the memory that are 0.
    place = made.place_of(4 * count, LOADED)
    made.emit(Opcode.VECTOR_OFFSETS, address=place, count=count)
    made.emit(Opcode.VECTOR_STREAM, stream=1, address=0)
    made.emit(Opcode.VECTOR_GO, **GO)
    made.store("VECTOR", count=4)


def _tested(made: Made) -> None:
    """VECTOR_TEST decides what is stored."""
    made.load("VECTOR", "STORE")
    made.emit(Opcode.VECTOR_TEST, address=made.place_of(1))
    branch = len(made.instructions)
    made.emit(Opcode.BRANCH, condition=made.pick(Condition.IF_SET, Condition.IF_CLEAR))
    made.emit(Opcode.STORE_GO, memory_address=RESULTS, row_bytes=8, rows=1)
    made.lead_here(branch)


def _register(made: Made) -> None:
    """A register, or more slots of it than were written."""
    made.load("VECTOR")
    number, slots = made.draw(0, 7), made.draw(2, 8)
    written = slots if made.safe else made.draw(0, slots - 1)
    if written:
        made.emit(Opcode.VECTOR_UOP, index=0, a_source=Source.LOAD, destination=number)
        made.emit(Opcode.VECTOR_GO, **{**GO, "vectors": written, "slots": written})
    made.copy(a_source=Source.REGISTER, a_index=number)
    made.vector_dims(STORE_STREAM, [(slots, 4)])
    made.emit(Opcode.VECTOR_GO, **{**GO, "vectors": slots, "slots": slots})
    made.store("VECTOR", count=4 * slots)


def _external(made: Made) -> None:
    """LOAD reads external memory that nobody wrote."""
    count, space = made.draw(1, 10) * 4, made.draw(0, 1)
    if made.safe:
        place = RESULTS - count
    else:
        place = RESULTS - count + 4 * made.draw(1, 40)
    made.emit(Opcode.LOAD_GO, memory_address=place, space=space, row_bytes=count, rows=1)
    if not space:
        made.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 8)
        made.emit(Opcode.STORE_GO, memory_address=RESULTS + 4096, row_bytes=count, rows=1)


def _over_itself(made: Made) -> None:
    """STORE reaches the program: its next instructions, those behind, its first or its last byte."""
    made.load("STORE")
    idle = made.draw(0, 60)
    end = PROGRAM + INSTRUCTION_BYTES * (len(made.instructions) + 4 + idle)
    count = made.draw(1, 64)
    near = made.pick(PROGRAM - count, end)
    over = made.pick(PROGRAM - count + 1, end - 1, made.draw(PROGRAM, end - 1))
    pitch = made.pick(0, 64, (1 << 32) - 64)
    made.emit(Opcode.STORE_PITCH, memory_pitch=0 if made.safe else pitch, local_pitch=16)
    first = near if made.safe else over
    if not made.safe and pitch:
        first = (first - pitch) % (1 << 32)
    rows = made.draw(2, 3) if pitch else 1
    fields = {"memory_address": first, "local_address": made.draw(0, 1000), "row_bytes": count, "rows": rows}
    made.emit(Opcode.STORE_GO, **fields)
    made.pass_token(Opcode.STORE_SIGNAL, Opcode.LOAD_WAIT, 9)
    for _ in range(idle - 1):
        made.emit(Opcode.NOP)


def _turn(made: Made) -> None:
    """One from the 4 bytes at COPIED."""
    fields = {"a_source": Source.LOAD, "b_source": Source.IMMEDIATE, "op": Op.SUB}
    made.copy(**fields)
    made.emit(Opcode.VECTOR_BOUNDS, index=0, immediate=1)
    made.emit(Opcode.VECTOR_STREAM, stream=0, address=COPIED)
    made.emit(Opcode.VECTOR_GO, **GO)


def _loop(made: Made) -> None:
    """A loop that counts down, one within one, or one that nothing ends."""
    made.load("VECTOR")
    for _ in range(made.draw(0, 5)):
        made.emit(Opcode.NOP)
    again, kind = made.offset, made.draw(0, 5)
    if made.safe:
        kind = 6
    if kind == 0:
        made.emit(Opcode.BRANCH, target=again, condition=Condition.ALWAYS)
        return
    if kind == 1:
        # Brought by each turn again, from where nothing changes it.
        made.emit(Opcode.LOAD_GO, memory_address=DATA, local_address=COPIED, row_bytes=16, rows=1)
        made.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 4)
    if kind in (2, 3, 6):
        _turn(made)
    inner = made.offset
    # Of kind 2 another byte counts; of kind 3 a loop within the loop does not change what it tests.
    made.emit(Opcode.VECTOR_TEST, address=COPIED + (16 if kind == 2 else 0))
    if kind == 3:
        made.emit(Opcode.BRANCH, target=inner, condition=Condition.IF_SET)
    if kind == 4:
        made.emit(Opcode.BRANCH, target=again, condition=Condition.ALWAYS)
    made.emit(Opcode.BRANCH, target=again, condition=made.pick(Condition.IF_SET, Condition.IF_CLEAR))


def _many(made: Made) -> None:
    """Large counts, and many paths."""
    made.load("VECTOR", "ARRAY")
    kind = made.draw(0, 5)
    small, large = made.draw(1, 2000), made.draw(1 << 20, (1 << 24) - 1)
    count = small if made.safe else large
    if kind == 0:
        made.copy(a_source=Source.LOAD)
        made.emit(Opcode.VECTOR_GO, **{**GO, "vectors": count, "repeats": 8, "body_end": 1, "slots": 8})
    elif kind == 1:
        made.copy(a_source=Source.LOAD)
        repeats = count % (1 << 16) if made.safe else made.draw(60_000, 65_535)
        made.emit(Opcode.VECTOR_GO, **{**GO, "vectors": 50, "repeats": repeats, "body_end": 1})
    elif kind == 2:
        made.emit(
            Opcode.LOAD_GO,
            memory_address=DATA,
            row_bytes=count % 8000 + 8000,
            rows=1 if made.safe else 65_535,
        )
    elif kind == 3:
        made.emit(Opcode.ARRAY_INPUT, address=0, row_bytes=16, height=1)
        made.copy(a_source=Source.ARRAY)
        made.multiply(pixels=count)
        made.emit(Opcode.VECTOR_GO, **{**GO, "vectors": count})
    elif kind == 4:
        made.emit(Opcode.ARRAY_INPUT, address=0, row_bytes=16, height=1)
        made.emit(Opcode.ARRAY_WINDOW, width=1)
        chunks = 4 if made.safe else 60_000
        made.emit(Opcode.ARRAY_KERNEL, ky_count=3, run_count=4 if made.safe else 1000, chunks=chunks)
        made.emit(Opcode.ARRAY_GO, pixels=1)
    else:
        for number in range(4 if made.safe else made.draw(16, 24)):
            branch = len(made.instructions)
            made.emit(Opcode.BRANCH, condition=Condition.IF_SET)
            fields = {"stream": number % 4, "pair": number // 4 % 3, "count_low": 2 + number, "count_high": 1}
            made.emit(Opcode.VECTOR_DIMS, stride_low=0, stride_high=0, **fields)
            made.lead_here(branch)


KINDS: tuple[Callable[[Made], None], ...] = (
    *(_over_itself, _stored, _streamed, _over_itself, _loaded_once, _image, _loop, _weights, _taps, _sums),
    *(_many, _parameters, _table, _loop, _offsets, _tested, _register, _external, _many, _loop),
)


def unsafe_program(number: int) -> Unsafe:
    """Program `number`: kinds take turns."""
    rng = np.random.default_rng(number)
    turn, kind = divmod(number, len(KINDS))
    made = Made(rng, safe=turn % 3 == 1)
    memory = rng.integers(0, 256, MEMORY_BYTES).astype(np.uint8)
    KINDS[kind](made)
    size = made.place(memory, PROGRAM)
    return Unsafe(KINDS[kind].__name__.strip("_"), Stimulus(memory, PROGRAM, size), not made.safe)


def filled(byte: int) -> Stimulus:
    """A program that leaves this byte everywhere: in memories, parameters, a table, offsets, registers and sums."""
    made = Made(np.random.default_rng(0))
    for space, size in ((Space.AM, CONFIG.am_bytes), (Space.WM, CONFIG.wm_bytes)):
        fields = {"memory_address": 1 << 15, "space": space, "row_bytes": 1 << 14}
        made.emit(Opcode.LOAD_PITCH, memory_pitch=0, local_pitch=1 << 14)
        made.emit(Opcode.LOAD_GO, **fields, rows=size >> 14)
    for number, unit in enumerate(("ARRAY", "VECTOR")):
        made.pass_token(Opcode.LOAD_SIGNAL, Opcode[f"{unit}_WAIT"], number)
    made.emit(Opcode.VECTOR_PARAM, bias=1, scale=1)
    made.emit(Opcode.VECTOR_TABLE, entries=512)
    made.emit(Opcode.VECTOR_OFFSETS, count=512)
    for register in range(CONFIG.vector_registers):
        made.emit(Opcode.VECTOR_UOP, index=0, a_source=Source.LOAD, destination=register)
        slots = {"vectors": CONFIG.vector_slots, "slots": CONFIG.vector_slots}
        made.emit(Opcode.VECTOR_GO, **{**GO, **slots})
    made.emit(Opcode.ARRAY_INPUT, address=0, row_bytes=16, height=1)
    made.multiply(pixels=CONFIG.rows, drain=0)
    memory = np.full(MEMORY_BYTES, byte, np.uint8)
    return Stimulus(memory, PROGRAM, made.place(memory, PROGRAM))
