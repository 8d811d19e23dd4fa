"""Loops of as many turns as each bit of their counters has, and counts of exactly one bit."""

from collections.abc import Callable, Iterator

import numpy as np
from directed_array import ENDS_AT, LOOPS, ONE_STEP, ROOM, SAFE_AT, depthwise_job, job_alone, take_last
from directed_fields import SET_UP, emit_fields, take
from directed_programs import OUTPUT_AT, OUTPUT_BYTES, go, program, stream
from directed_wide import between, operand_fields, outputs_of, wide, written

from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, STREAM_DIMS, Element, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

KERNEL_BITS = range(4, 13)
"""Bits of the turns of a kernel's loops, each of which takes four cycles."""
STREAM_BITS = range(9, 14)
"""Bits of the turns of a stream's loops, each of which takes one cycle; other programs have fewer turns."""
TURN_BITS = 14
"""Bits of the turns of a stream's loop that counts through all numbers."""
MOST_TURNS = (1 << 16) - 1
UNFINISHED, UNFINISHED_VECTORS, UNFINISHED_BYTES = 12, 16, 1536
"""Loops that are not run to their end; vectors of each, and bytes between what they leave."""
WHOLE_BITS = range(4, 11)
"""Bits of turns of a kernel's loops that are powers of two."""
LINE_BITS = 18
"""Bits of the length of an image row that a kernel reads."""
BLOCK_BITS = range(4, 14)
"""Bits of the number of blocks, each of which takes some cycles."""
REPEAT_BITS = range(6, 12)
"""Bits of the repetitions of a body."""
OUTPUT_BITS = {"out_height": range(4, 15), "skip": range(12, 17), "line": range(12, 16)}
"""Bits of the numbers of outputs, of vectors before the first output, and of vectors in a line; each takes a
cycle."""
OFFSET_BITS, OFFSETS_BYTES = range(3, 9), 1040
"""Bits of the number of offsets, and the bytes at which they are made."""
TEMPLATE = {"row_bytes": 1 << 20, "height": 1 << 14, "y_step": 1, "y_step_bytes": 77, "drain": 1}
"""An image in which every place is."""
COUNTED = {
    "out_width": 16,
    "out_height": 16,
    "line": 16,
    "skip": 10,
    "x_stride": 6,
    "y_stride": 6,
    "group_rows": 4,
}
"""Fields of depthwise convolutions, with the bits that they may have here."""


def kernels(config: Config, loop: str) -> Stimulus:
    """Sums of 17, 33, ... steps of one of a kernel's loops."""
    rng = np.random.default_rng(len(loop))

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for bit in KERNEL_BITS:
            fields = TEMPLATE | ONE_STEP | {"pixels": 1, "width": 1, "address": SAFE_AT}
            fields |= {"x_step": 1, "weights": wide(rng, 9), "input_zp": between(rng, -9, 9)}
            fields |= {"run_step": between(rng, 1, 9), "ky_step": 1, "ky_step_bytes": between(rng, -99, 99)}
            fields[loop] = (1 << bit) + between(rng, 1, 4)
            address = job_alone(assembler, fields, address)

    return written(config, rng, emit, ROOM)


def lone_counts(config: Config, name: str) -> Stimulus:
    """Depthwise convolutions of which one field has exactly one bit, each of them, in few advances."""
    rng = np.random.default_rng(len(name))

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for bit in range(COUNTED[name]):
            fields = TEMPLATE | {"address": SAFE_AT + between(rng, 0, 4096), "x_step": between(rng, -9, 9)}
            fields |= {"width": 1 << 13, "weights": wide(rng, 9), "delay": between(rng, 2, 9)}
            fields |= {"line": between(rng, 1, 5), "x_stride": 1, "y_stride": 1, "skip": between(rng, 0, 3)}
            fields |= {"out_width": between(rng, 1, 4), "out_height": between(rng, 1, 3), "group_rows": 1}
            fields |= {"idle_rows": between(rng, 0, config.rows - 1), name: 1 << bit}
            fields["advances"] = config.rows + fields["skip"] + between(rng, 9, 20)
            address = depthwise_job(assembler, fields, address)
        assert address <= ENDS_AT

    return written(config, rng, emit, ROOM)


def stream_loops(config: Config, number: int) -> Stimulus:
    """Vectors by one stream, with 515, 1027, ... turns of one of its loops, and a few more behind its end: what is left
    at the first turns has its highest bit."""

    def emit(assembler: Assembler) -> None:
        fields = {"op": Op.MOV, "a_source": Source.LOAD, "a_index": number % STORE_STREAM, "to_memory": 1}
        assembler.emit(Opcode.VECTOR_UOP, index=0, **fields)
        for bit in STREAM_BITS:
            turns, dim = (1 << bit) + 3, (bit + number) % STREAM_DIMS
            dims = [(1, 0)] * STREAM_DIMS
            dims[dim], dims[(dim + 2) % STREAM_DIMS] = (turns, 1), (2, 5)
            far = OUTPUT_AT + 16 * bit
            if number == STORE_STREAM:
                stream(assembler, 0, 64 + bit, [(1 << 15, 1)])
                stream(assembler, STORE_STREAM, far, dims)
            else:
                # The last vector remains in memory: where the loop ends tells the turns.
                stream(assembler, number, 64, dims)
                stream(assembler, STORE_STREAM, far, [(1 << 15, 0)])
            go(assembler, turns + 3, 1)

    return program(config, emit)


def full_stream_loops(config: Config, number: int) -> Stimulus:
    """Turns of each loop of a stream that count through all numbers of TURN_BITS bits, and all but one; where it ends
    is seen."""

    def emit(assembler: Assembler) -> None:
        fields = {"op": Op.MOV, "a_source": Source.LOAD, "a_index": number % STORE_STREAM, "to_memory": 1}
        assembler.emit(Opcode.VECTOR_UOP, index=0, **fields)
        for each in range(2 * STREAM_DIMS):
            turns, dim = (1 << TURN_BITS) - 1 - each // STREAM_DIMS, each % STREAM_DIMS
            dims = [(1, 0)] * STREAM_DIMS
            dims[dim], dims[(dim + 2) % STREAM_DIMS] = (turns, 0), (50, 5)
            stores = number == STORE_STREAM
            others = [(1 << 7, 1), (1 << 8, 0)] if stores else [(1 << 15, 0)]
            stream(assembler, number % STORE_STREAM, 64, others if stores else dims)
            stream(assembler, STORE_STREAM, OUTPUT_AT + 512 * each, dims if stores else others)
            go(assembler, turns + 3, 1)

    return program(config, emit)


def unfinished_loops(config: Config, number: int) -> Stimulus:
    """Loops of a stream, each by itself, that would have nearly all turns there are: the first ones of them."""
    rng = np.random.default_rng(number)

    def emit(assembler: Assembler) -> None:
        fields = {"op": Op.MOV, "a_source": Source.LOAD, "a_index": number % STORE_STREAM, "to_memory": 1}
        assembler.emit(Opcode.VECTOR_UOP, index=0, **fields)
        for each in range(UNFINISHED):
            dim = each % STREAM_DIMS
            near = number == STORE_STREAM
            step = between(rng, 0, 90) if near else between(rng, -(1 << 22), 1 << 22)
            dims = [(1, wide(rng, 10))] * STREAM_DIMS
            dims[dim] = (MOST_TURNS - wide(rng, 4), step)
            others = [(1 << 15, config.columns)]
            stream(assembler, number % STORE_STREAM, 64, others if near else dims)
            stream(assembler, STORE_STREAM, OUTPUT_AT + UNFINISHED_BYTES * each, dims if near else others)
            go(assembler, UNFINISHED_VECTORS, 1)

    return program(config, emit)


def most_vectors(config: Config, vectors: int) -> Stimulus:
    """Returns a program of 2^18 vectors and some more, of which the last one remains in memory, one place further for
    each 2^15."""

    def emit(assembler: Assembler) -> None:
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
        dims = [(1 << 15, 0), (1 << 6, 1)]
        for number, place in ((0, 64), (STORE_STREAM, OUTPUT_AT)):
            stream(assembler, number, place, dims)
        go(assembler, vectors, 1)

    return program(config, emit)


def whole_kernels(config: Config, loop: str) -> Stimulus:
    """Sums of 16, 32, ... steps of one of a kernel's loops."""
    rng = np.random.default_rng(len(loop) + 50)

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for bit in WHOLE_BITS:
            fields = TEMPLATE | ONE_STEP | {"pixels": 1, "width": 1, "address": SAFE_AT, "x_step": 1}
            fields |= {
                "weights": wide(rng, 9),
                "run_step": 3,
                "ky_step": 1,
                "ky_step_bytes": 5,
                loop: 1 << bit,
            }
            address = job_alone(assembler, fields, address)

    return written(config, rng, emit, ROOM)


def many_blocks(config: Config, more: int) -> Stimulus:
    """Returns a program of as many blocks as each power of two, and `more`; VECTOR stores all of them in one
    place."""
    rng = np.random.default_rng(more)

    def emit(assembler: Assembler) -> None:
        for bit in BLOCK_BITS:
            blocks = (1 << bit) + more
            fields = TEMPLATE | ONE_STEP | {"pixels": 1, "width": 1, "address": SAFE_AT, "x_step": 1}
            fields |= {"weights": wide(rng, 9), "more_blocks": blocks - 1}
            emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
            stream(assembler, STORE_STREAM, OUTPUT_AT + 16 * bit, [(blocks, 0)], element=Element.INT32)
            assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.ARRAY, to_memory=1)
            go(assembler, blocks, 1)
            assembler.fence()

    return written(config, rng, emit, ROOM)


def longest_chunks(config: Config, bit: int) -> Stimulus:
    """A sum of as many chunks as this power of two, and some more."""
    rng = np.random.default_rng(bit)

    def emit(assembler: Assembler) -> None:
        fields = TEMPLATE | ONE_STEP | {"pixels": 1, "width": 1, "address": SAFE_AT, "x_step": 1}
        job_alone(assembler, fields | {"weights": wide(rng, 9), "chunks": (1 << bit) + 2}, OUTPUT_AT)

    return written(config, rng, emit, ROOM)


def far_lines(config: Config, step: int) -> Stimulus:
    """Rows of a kernel that soon leave the image, and lie up to 2^18 rows below it, where no image is."""
    rng = np.random.default_rng(step)

    def emit(assembler: Assembler) -> None:
        fields = TEMPLATE | ONE_STEP | {"pixels": 1, "width": 1, "address": SAFE_AT, "x_step": 1}
        fields |= {"ky_step": step, "ky_count": (1 << LINE_BITS) // step, "ky_step_bytes": 5}
        job_alone(assembler, fields | {"weights": wide(rng, 9), "input_zp": 3}, OUTPUT_AT)

    return written(config, rng, emit, ROOM)


def whole_distances(config: Config, seed: int) -> Stimulus:
    """Words whose distance to the image's right border has exactly one bit; lines at the image's lower border, which
    may be anywhere, and above it."""
    rng = np.random.default_rng(seed)
    least = {"row_bytes": (1 << 23) - 5, "height": (1 << 15) - 3}
    pixel = ONE_STEP | {"pixels": 1, "width": 1, "drain": 1, "x_start": 9, "y_start": 2} | least

    def places() -> Iterator[dict[str, int]]:
        for bit in range(23):
            yield {"x_start": least["row_bytes"] - (1 << bit)}
        for _ in range(12):
            height = between(rng, 1 << 13, (1 << 15) - 1)
            yield from ({"height": height, "y_start": height - above} for above in (0, 1))

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for each in places():
            fields = {"address": SAFE_AT + between(rng, 0, 4096), "weights": wide(rng, 9)}
            address = job_alone(assembler, pixel | fields | each, address)

    return written(config, rng, emit, ROOM)


def room_and_weights(config: Config, more: int) -> Stimulus:
    """The last vectors of a job, for which there is no room, are delivered while the next one, which delivers them,
    waits for its weights, too. Whom it waits for is counted."""
    rng, columns = np.random.default_rng(40 + more), config.columns
    pixels = config.drain_vectors + more

    def emit(assembler: Assembler) -> None:
        slow = {"space": Space.AM, "local_address": SAFE_AT + 4096, "row_bytes": 900, "rows": 1}
        weights = {"space": Space.WM, "local_address": 512 * columns, "row_bytes": 4 * columns, "rows": 1}
        assembler.emit(Opcode.LOAD_GO, **slow)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 3)
        assembler.emit(Opcode.LOAD_GO, **slow)
        assembler.emit(Opcode.LOAD_GO, **weights, streamed=1)
        fields = TEMPLATE | ONE_STEP | {"width": 3, "address": SAFE_AT, "x_step": 5}
        emit_fields(assembler, fields | {"pixels": pixels, "weights": 3}, *SET_UP, Opcode.ARRAY_GO)
        emit_fields(
            assembler, fields | {"pixels": 1, "weights": 512, "streamed": 1}, *SET_UP, Opcode.ARRAY_GO
        )
        take(assembler, 1, take(assembler, pixels, OUTPUT_AT))

    return written(config, rng, emit, ROOM)


def all_outputs(config: Config, name: str) -> Stimulus:
    """Returns a program of as many outputs below one another as each power of two and some more, or as many skipped
    vectors, or vectors of a line; VECTOR stores the last few outputs."""
    rng = np.random.default_rng(len(name))

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for bit in OUTPUT_BITS[name]:
            many = (1 << bit) + 2 + bit % 2
            fields = TEMPLATE | {
                "address": SAFE_AT,
                "width": (1 << 16) - 1,
                "x_step": 0,
                "skip": 0,
                "delay": 2,
            }
            fields |= {"line": 1, "out_width": 1, "out_height": 4, "x_stride": 1, "y_stride": 1}
            fields |= {"group_rows": 1, "idle_rows": 0, "weights": wide(rng, 9), "advances": many + 9}
            fields[name] = many
            emit_fields(assembler, fields, *SET_UP[:2], Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_DEPTHWISE_GO)
            vectors = outputs_of(fields, config.rows)
            address = take_last(assembler, vectors, min(vectors, 9), address)

    return written(config, rng, emit, ROOM)


def strides(config: Config, name: str) -> Stimulus:
    """Depthwise convolutions with each stride that there is, for three outputs beside one another or below."""
    rng, most = np.random.default_rng(len(name) + 7), COUNTED[name]

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for stride in range(1, 1 << most):
            fields = TEMPLATE | {"address": SAFE_AT, "x_step": 7, "width": 1 << 13, "weights": wide(rng, 9)}
            fields |= {"line": 1, "x_stride": 1, "y_stride": 1, "out_width": 1, "out_height": 3} | {
                name: stride
            }
            if name == "x_stride":
                fields |= {"line": 3 * stride, "out_width": 3, "out_height": 1}
            fields |= {"skip": 0, "delay": 2, "group_rows": 1, "idle_rows": 0, "advances": 2 * stride + 5}
            address = depthwise_job(assembler, fields, address)
        assert address <= ENDS_AT

    return written(config, rng, emit, ROOM)


def long_pairs(config: Config, line: int) -> Stimulus:
    """Pairs of image rows of many pixels: outputs of sums that were in the delay line for long."""
    rng, columns = np.random.default_rng(line), config.columns

    def emit(assembler: Assembler) -> None:
        fields = TEMPLATE | {"address": SAFE_AT, "x_step": columns, "width": line, "y_step": 2, "paired": 1}
        fields |= {"row_bytes": line * columns, "y_step_bytes": 6 * columns, "height": 99, "weights": 5}
        fields |= {"line": line, "delay": line + 2, "x_stride": 1, "y_stride": 1, "group_rows": 1}
        fields |= {"idle_rows": 0, "skip": line + 3, "out_width": 12, "out_height": 3}
        fields["advances"] = 5 * line
        depthwise_job(assembler, fields | operand_fields(rng), OUTPUT_AT)

    return written(config, rng, emit, ROOM)


def many_repeats(config: Config, more: int) -> Stimulus:
    """Bodies that run as many times as each power of two and `more`, for a batch of two vectors and one of one. What
    the last repetition stores remains in memory."""

    def emit(assembler: Assembler) -> None:
        fields = {"b_source": Source.ITERATION, "op": Op.ADD, "to_memory": 1}
        assembler.emit(Opcode.VECTOR_UOP, index=0, **fields)
        for bit in REPEAT_BITS:
            place = OUTPUT_AT + 64 * bit
            stream(assembler, STORE_STREAM, place, [(1 << 15, 0), (2, 0)], element=Element.INT32)
            go(assembler, 3, 1, slots=2, repeats=(1 << bit) + more, body_end=1)

    return program(config, emit)


def many_offsets(config: Config, number: int) -> Stimulus:
    """Rows at as many offsets as each power of two and one more, twice around. Any bytes make offsets within +-1024."""
    offsets, most = OUTPUT_AT + OUTPUT_BYTES - OFFSETS_BYTES, (1 << OFFSET_BITS[-1]) + 1

    def emit(assembler: Assembler) -> None:
        count, columns = -(-most // config.columns), config.columns
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.ASR, a_source=Source.LOAD, b_source=Source.IMMEDIATE)
        assembler.emit(Opcode.VECTOR_BOUNDS, index=0, immediate=21)
        assembler.emit(Opcode.VECTOR_UOP, index=1, a_source=Source.REGISTER, to_memory=1)
        for each, address in ((0, 64), (STORE_STREAM, offsets)):
            stream(assembler, each, address, [(count, 4 * columns)], element=Element.INT32)
        go(assembler, count, 2)
        fields = {"op": Op.MOV, "a_source": Source.LOAD, "a_index": number, "to_memory": 1}
        assembler.emit(Opcode.VECTOR_UOP, index=0, **fields)
        for bit in OFFSET_BITS:
            rows = (1 << bit) + 1
            assembler.emit(Opcode.VECTOR_OFFSETS, address=offsets, count=rows)
            stream(assembler, number, 2048, [(1, 0), (rows, 0), (2, 7)], indexed=1)
            stream(assembler, STORE_STREAM, OUTPUT_AT + 4 * columns * bit, [(1 << 15, 1)])
            go(assembler, 2 * rows, 1)

    return program(config, emit)


FAMILIES: tuple[tuple[str, Callable[..., Stimulus], tuple], ...] = (
    ("turns of a kernel", kernels, LOOPS),
    ("exactly one bit", lone_counts, tuple(COUNTED)),
    ("many turns of stream", stream_loops, tuple(range(STORE_STREAM + 1))),
    ("all numbers of turns of stream", full_stream_loops, tuple(range(STORE_STREAM + 1))),
    ("turns that are not taken of stream", unfinished_loops, tuple(range(STORE_STREAM + 1))),
    ("as many vectors as", most_vectors, ((1 << 18) + (1 << 14) + 5,)),
    ("a power of two turns of a kernel", whole_kernels, LOOPS),
    ("many blocks and", many_blocks, (2, 3)),
    ("many repetitions and", many_repeats, (3,)),
    ("longest sum of chunks 2^", longest_chunks, (15,)),
    ("rows of a kernel apart by", far_lines, (8191, 4099)),
    ("distances of exactly one bit", whole_distances, (1,)),
    ("all of", all_outputs, ("out_height", "skip", "line")),
    ("each", strides, ("x_stride", "y_stride")),
    ("pairs of long lines", long_pairs, (63, 66, 100, 126)),
    ("no room and no weights", room_and_weights, tuple(range(-1, 4))),
    ("many offsets of stream", many_offsets, (0, 1, 2)),
)


def loop_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """All of them, by name; they end well."""
    for name, make, choices in FAMILIES:
        for each in choices:
            yield f"{name} {each}", make(config, each)


__all__ = ["loop_programs"]
