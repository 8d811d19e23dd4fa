"""Makes random legal programs, one per unit or path, to compare executors (emulator, RTL, a board) byte by
byte.

Every program loads random bytes into the memories, computes, and stores its results; the units hand over to
each other with tokens, so that the programs are also right where the units run side by side.
"""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, STREAM_DIMS, Condition, Element, Op, Opcode, Source, Space
from tosaic.hw.packed_weights import PALETTE_SIZE, WeightCoding, pack

from .assembler import Assembler
from .coded_block import code_block, emit_decode

OUTPUT_ADDRESS = 1 << 13
"""Where results begin, in AM and in external memory; operands are below."""
OUTPUT_BYTES = 1 << 14
WEIGHT_BYTES = 1 << 13
PARAMETER_ADDRESS = 1 << 12
"""Biases, multipliers and shifts, in AM and in external memory; the shifts are in 2..62, as TOSA wants."""
_PARAMETER_BLOCKS = 5
"""Sets of parameters, one behind the other."""
PROGRAM_ADDRESS = 1 << 16
MEMORY_BYTES = 1 << 17


@dataclasses.dataclass
class Stimulus:
    """A program in its memory image."""

    memory: np.ndarray
    program_address: int
    program_bytes: int


def random_program(config: Config, kind: str, seed: int) -> Stimulus:
    """The program of one `kind` that `seed` determines: a key of `KINDS`, "decode" where there is a decoder, "packed"
    where there is an unpacker."""
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, MEMORY_BYTES).astype(np.uint8)
    # Shifts, behind biases of either width.
    for block, words in itertools.product(range(_PARAMETER_BLOCKS), (9, 7)):
        shifts = PARAMETER_ADDRESS + (words * (block + 1) - 1) * config.columns
        memory[shifts : shifts + config.columns] = rng.integers(2, 63, config.columns)
    assembler = Assembler(config)
    if kind == "decode":
        _decode(assembler, rng, memory)
    elif kind == "packed":
        _packed(assembler, rng, memory)
    else:
        KINDS[kind](assembler, rng)
    return Stimulus(memory, PROGRAM_ADDRESS, assembler.place(memory, PROGRAM_ADDRESS))


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    """Draws uniformly from low..high, both included."""
    return int(rng.integers(low, high + 1))


def _load_inputs(assembler: Assembler) -> None:
    """Fill what is read or stored later, then the array and the vector unit may start."""
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, row_bytes=OUTPUT_ADDRESS + OUTPUT_BYTES, rows=1)
    assembler.emit(Opcode.LOAD_GO, space=Space.WM, row_bytes=WEIGHT_BYTES, rows=1)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 0)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 1)


def _store_outputs(assembler: Assembler) -> None:
    assembler.emit(Opcode.VECTOR_MARK, layer=7)
    assembler.pass_token(Opcode.VECTOR_SIGNAL, Opcode.STORE_WAIT, 2)
    assembler.emit(
        Opcode.STORE_GO,
        memory_address=OUTPUT_ADDRESS,
        local_address=OUTPUT_ADDRESS,
        row_bytes=OUTPUT_BYTES,
        rows=1,
    )


def _transfers(assembler: Assembler, rng: np.random.Generator) -> None:
    """Two-dimensional loads and stores of all alignments."""
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, row_bytes=OUTPUT_ADDRESS + OUTPUT_BYTES, rows=1)
    for _ in range(_between(rng, 1, 4)):
        rows, row_bytes = _between(rng, 1, 6), _between(rng, 1, 300)
        pitch = _between(rng, row_bytes, row_bytes + 100)
        assembler.emit(Opcode.LOAD_PITCH, memory_pitch=_between(rng, 0, 700), local_pitch=pitch)
        assembler.emit(
            Opcode.LOAD_GO,
            memory_address=_between(rng, 0, 4000),
            local_address=_between(rng, 0, OUTPUT_ADDRESS),
            row_bytes=row_bytes,
            rows=rows,
        )
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 3)
    for _ in range(_between(rng, 1, 4)):
        rows, row_bytes = _between(rng, 1, 6), _between(rng, 1, 300)
        pitch = _between(rng, row_bytes, row_bytes + 100)
        assembler.emit(Opcode.STORE_PITCH, memory_pitch=pitch, local_pitch=_between(rng, 0, 700))
        assembler.emit(
            Opcode.STORE_GO,
            memory_address=_between(rng, OUTPUT_ADDRESS, OUTPUT_ADDRESS + 4000),
            local_address=_between(rng, 0, OUTPUT_ADDRESS),
            row_bytes=row_bytes,
            rows=rows,
        )


def _decode(assembler: Assembler, rng: np.random.Generator, memory: np.ndarray) -> None:
    """Compressed weights of all densities into both memories, between ordinary loads; the array multiplies with
    those in WM."""
    config, word = assembler.config, assembler.config.word_bytes
    _load_inputs(assembler)
    address = OUTPUT_ADDRESS + 2 * OUTPUT_BYTES
    for _ in range(_between(rng, 1, 5)):
        weights = np.clip(rng.laplace(0, rng.choice([0.1, 2, 30]), _between(rng, 1, 700)).round(), -128, 127)
        streams = 1 << _between(rng, 0, config.cabac_engines.bit_length() - 1)
        unary_length = int(rng.choice([0, 1, 2, 10, 16]))
        block = code_block(weights.astype(np.int64), streams, unary_length, word)
        memory[address : address + len(block.data)] = np.frombuffer(block.data, np.uint8)
        space = Space(_between(rng, 0, 1))
        local = _between(rng, 0, 40) * word + (OUTPUT_ADDRESS + OUTPUT_BYTES // 2) * (space == Space.AM)
        if _between(rng, 0, 1):
            assembler.pass_token(Opcode.ARRAY_SIGNAL, Opcode.LOAD_WAIT, 4)
        emit_decode(
            assembler,
            block,
            address,
            local,
            space=space,
            unary_length=unary_length,
            tensor=_between(rng, 0, 65535),
        )
        address += len(block.data)
        _perhaps_plain_load(assembler, rng)
    _multiply_loaded(assembler, rng)


def _packed(assembler: Assembler, rng: np.random.Generator, memory: np.ndarray) -> None:
    """Packed rows of all modes and densities, between ordinary loads; the array multiplies with their weights."""
    word = assembler.config.word_bytes
    _load_inputs(assembler)
    address = OUTPUT_ADDRESS + 2 * OUTPUT_BYTES
    for _ in range(_between(rng, 1, 5)):
        mode, size = WeightCoding(_between(rng, 0, 2)), _between(rng, 1, 90) * word
        if mode == WeightCoding.MASK:
            weights = np.where(rng.random(size) < rng.random(), rng.integers(-128, 128, size), 0)
        else:
            weights = rng.choice(rng.integers(-128, 128, PALETTE_SIZE[mode]), size)
        row = pack(weights.astype(np.int8), mode, word)
        memory[address : address + len(row)] = np.frombuffer(row, np.uint8)
        if _between(rng, 0, 1):
            assembler.pass_token(Opcode.ARRAY_SIGNAL, Opcode.LOAD_WAIT, 4)
        assembler.emit(
            Opcode.LOAD_GO,
            memory_address=address,
            space=Space.WM,
            local_address=_between(rng, 0, 40) * word,
            row_bytes=len(row),
            rows=1,
            packed=1,
        )
        address += -(-len(row) // 64) * 64
        _perhaps_plain_load(assembler, rng)
    _multiply_loaded(assembler, rng)


def _perhaps_plain_load(assembler: Assembler, rng: np.random.Generator) -> None:
    """A load that is neither decoded nor unpacked, or nothing."""
    if _between(rng, 0, 1):
        assembler.emit(
            Opcode.LOAD_GO,
            memory_address=_between(rng, 0, 4000),
            local_address=OUTPUT_ADDRESS + OUTPUT_BYTES - 900,
            row_bytes=_between(rng, 1, 900),
            rows=1,
        )


def _multiply_loaded(assembler: Assembler, rng: np.random.Generator) -> None:
    """The array multiplies with weights that LOAD has written, and results are stored."""
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 0)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 3)
    pixels, row_bytes = _between(rng, 1, 30), _between(rng, 1, 100)
    _input(assembler, rng, row_bytes, _between(rng, 1, 12))
    _window(assembler, rng, _between(rng, 1, 24), _between(rng, 1, 9), row_bytes)
    assembler.emit(Opcode.ARRAY_KERNEL, ky_count=1, run_count=2, run_step=_between(rng, 0, 40), chunks=2)
    assembler.emit(Opcode.ARRAY_GO, weights=_between(rng, 0, 40), pixels=pixels, drain=1)
    _drain(assembler, rng, pixels, 0)
    _store_outputs(assembler)


def _input(
    assembler: Assembler, rng: np.random.Generator, row_bytes: int, height: int, alignment: int = 1
) -> None:
    unsigned = _between(rng, 0, 1)
    # Rows are divided where weights have no zero point and begin at whole steps.
    whole = int(assembler.config.most_row_parts > 1 and _between(rng, 0, 3) > 0)
    assembler.emit(
        Opcode.ARRAY_INPUT,
        address=_between(rng, 1000, 2000) // alignment * alignment,
        row_bytes=row_bytes,
        height=height,
        input_zp=_between(rng, 0, 255) if unsigned else _between(rng, -128, 127),
        weight_zp=0 if whole else _between(rng, -128, 127),
        unsigned_input=unsigned,
    )


def _window(assembler: Assembler, rng: np.random.Generator, x_step: int, width: int, row_bytes: int) -> None:
    y_step = _between(rng, 1, 2)
    assembler.emit(
        Opcode.ARRAY_WINDOW,
        x_start=_between(rng, -2, 1) * x_step,
        x_step=x_step,
        y_start=_between(rng, -2, 1),
        y_step=y_step,
        y_step_bytes=y_step * row_bytes,
        width=width,
    )


def _convolution(assembler: Assembler, rng: np.random.Generator) -> None:
    """ARRAY_GOs of random windows; some tiles are summed over several GOs."""
    columns, rows = assembler.config.columns, assembler.config.rows
    _load_inputs(assembler)
    stored = 0
    for _ in range(_between(rng, 1, 3)):
        row_bytes = _between(rng, 1, 100)
        _input(assembler, rng, row_bytes, _between(rng, 1, 12))
        _window(assembler, rng, _between(rng, 1, 24), _between(rng, 1, 9), row_bytes)
        ky_step = _between(rng, 0, 2)
        kernel = {
            "ky_count": _between(rng, 1, 3),
            "run_count": _between(rng, 1, 3),
            "chunks": _between(rng, 1, 2),
        }
        assembler.emit(
            Opcode.ARRAY_KERNEL,
            ky_step=ky_step,
            ky_step_bytes=ky_step * row_bytes,
            run_step=_between(rng, -20, 40),
            **kernel,
        )
        if _between(rng, 0, 1):
            pixels, parts = _between(rng, 1, rows), _between(rng, 2, 3)
        else:
            pixels, parts = _between(rng, 1, min(5 * rows, 40)), 1
        for part in range(parts):
            fields = {"accumulate": int(part > 0), "drain": int(part == parts - 1)}
            weights = _between(rng, 0, WEIGHT_BYTES // columns // 4)
            if assembler.config.most_row_parts > 1 and _between(rng, 0, 3):
                weights -= weights % columns
            assembler.emit(Opcode.ARRAY_GO, weights=weights, pixels=pixels, **fields)
        _drain(assembler, rng, pixels, stored)
        stored += pixels
    _store_outputs(assembler)


def _streamed(assembler: Assembler, rng: np.random.Generator) -> None:
    """ARRAY_GOs of many blocks that follow their weights as these come, each block with parameters of its own."""
    config, columns = assembler.config, assembler.config.columns
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, row_bytes=OUTPUT_ADDRESS + OUTPUT_BYTES, rows=1)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 0)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 1)
    row_bytes, word, stored = _between(rng, 1, 100), _between(rng, 0, config.wm_words - 1), 0
    for _ in range(_between(rng, 1, 3)):
        _input(assembler, rng, row_bytes, _between(rng, 1, 12))
        _window(assembler, rng, _between(rng, 1, 24), _between(rng, 1, 9), row_bytes)
        kernel = {"ky_count": _between(rng, 1, 2), "run_count": 1, "chunks": _between(rng, 1, 4)}
        assembler.emit(Opcode.ARRAY_KERNEL, ky_step=1, ky_step_bytes=row_bytes, run_step=0, **kernel)
        pixels = _between(rng, 1, min(config.rows, config.vector_slots))
        depth = kernel["ky_count"] * kernel["chunks"] * columns
        blocks = _between(rng, 1, _PARAMETER_BLOCKS)
        if _between(rng, 0, 2) == 0:  # the tiles behind the first read the weights again
            pixels, blocks = _between(rng, 1, 3 * config.rows), 1
        left, following = blocks * depth, word
        while left:
            words = min(_between(rng, 1, left), (OUTPUT_ADDRESS - 4000) // columns)
            assembler.emit(
                Opcode.LOAD_GO,
                memory_address=_between(rng, 0, 4000 // columns) * columns,
                local_address=following * columns,
                space=Space.WM,
                row_bytes=words * columns,
                rows=1,
                streamed=1,
            )
            left, following = left - words, (following + words) % config.wm_words
        assembler.emit(
            Opcode.ARRAY_GO, weights=word, pixels=pixels, drain=1, more_blocks=blocks - 1, streamed=1
        )
        word = following
        scaled = _between(rng, 0, 1)
        narrow = _between(rng, 0, 1)
        assembler.emit(Opcode.VECTOR_PARAM, address=PARAMETER_ADDRESS, bias=1, scale=scaled, narrow=narrow)
        operation = {"op": Op.RESCALE if scaled else Op.MOV, "per_channel": scaled}
        assembler.emit(Opcode.VECTOR_UOP, index=0, a_source=Source.ARRAY, to_memory=1, bias=1, **operation)
        element = _element(assembler, rng)
        address, vector_bytes = OUTPUT_ADDRESS + stored, columns * element.bytes
        assembler.emit(Opcode.VECTOR_STREAM, stream=STORE_STREAM, address=address, element=element)
        assembler.vector_dims(STORE_STREAM, [(pixels, blocks * vector_bytes), (blocks, vector_bytes)])
        lanes = {"lanes": columns, "tail_lanes": columns}
        vectors, slots = pixels * blocks, pixels if blocks > 1 else min(pixels, config.vector_slots)
        assembler.emit(
            Opcode.VECTOR_GO, vectors=vectors, slots=slots, repeats=1, uops=1, next_params=blocks > 1, **lanes
        )
        stored += vectors * vector_bytes
    _store_outputs(assembler)


def _depthwise(assembler: Assembler, rng: np.random.Generator) -> None:
    """Depthwise convolutions of one block of channels, with padding and stride, some by pairs of image rows."""
    config = assembler.config
    _load_inputs(assembler)
    paired = int(rng.random() < 0.4)
    shapes = [
        (h, w)
        for h in range(1, 6, 1 + paired)
        for w in range(1, 6)
        if h * w <= config.rows and h <= config.line_groups
    ]
    kernel_height, kernel_width = shapes[_between(rng, 0, len(shapes) - 1)]
    x_step = _between(rng, 1, 2) * config.columns
    image_width, height = _between(rng, kernel_width, 9), _between(rng, kernel_height, 9)
    line = image_width + _between(rng, 0, 2)
    stride = {"x_stride": _between(rng, 1, 3), "y_stride": _between(rng, 1, 3)}
    lines = height + _between(rng, 0, 2)
    out_width = (line - kernel_width) // stride["x_stride"] + 1
    out_height = (lines - kernel_height) // stride["y_stride"] + 1
    lines_before = (kernel_height - 1) // (1 + paired)
    skip = lines_before * line
    last = (out_height - 1) * stride["y_stride"] * line + (out_width - 1) * stride["x_stride"]
    pitch = image_width * x_step
    if paired:
        pitch += (1 - pitch // config.columns % 2) * config.columns
    _input(assembler, rng, image_width * x_step, height, config.columns if paired else 1)
    assembler.emit(
        Opcode.ARRAY_WINDOW,
        x_start=-_between(rng, 0, 1) * x_step,
        x_step=x_step,
        y_start=-_between(rng, 0, 1),
        y_step=1 + paired,
        y_step_bytes=(1 + paired) * pitch,
        width=line,
    )
    assembler.emit(
        Opcode.ARRAY_DEPTHWISE,
        delay=line + (1 + paired) * kernel_width,
        skip=skip,
        line=line,
        out_width=out_width,
        out_height=out_height,
        paired=paired,
        **stride,
    )
    assembler.emit(
        Opcode.ARRAY_DEPTHWISE_GO,
        weights=_between(rng, 0, 50),
        advances=skip + config.rows - 1 + last + 1,
        group_rows=kernel_width,
        accumulate=0,
        drain=1,
        idle_rows=config.rows - kernel_height * kernel_width if _between(rng, 0, 1) else 0,
    )
    _drain(assembler, rng, out_width * out_height, 0)
    _store_outputs(assembler)


def _drain(assembler: Assembler, rng: np.random.Generator, vectors: int, stored: int) -> None:
    """Store accumulators as four planes of bytes, which shows all their bits."""
    columns = assembler.config.columns
    slots = int(rng.choice([n for n in range(1, assembler.config.vector_slots + 1) if vectors % n == 0]))
    assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.ARRAY)
    for plane in range(4):
        index = plane + 1
        operands = {"a_source": Source.REGISTER, "b_source": Source.IMMEDIATE}
        assembler.emit(Opcode.VECTOR_UOP, index=index, op=Op.ASR, to_memory=1, **operands)
        assembler.emit(Opcode.VECTOR_BOUNDS, index=index, immediate=8 * plane)
    assembler.emit(Opcode.VECTOR_STREAM, stream=STORE_STREAM, address=OUTPUT_ADDRESS + 4 * stored * columns)
    vector_bytes = 4 * columns
    dims = [(slots, vector_bytes), (4, columns), (vectors // slots, slots * vector_bytes)]
    assembler.vector_dims(STORE_STREAM, dims)
    lanes = {"lanes": columns, "tail_lanes": columns}
    assembler.emit(Opcode.VECTOR_GO, vectors=vectors, slots=slots, repeats=1, uops=5, **lanes)


def _vector(assembler: Assembler, rng: np.random.Generator) -> None:
    """Makes random micro-programs over random streams, some of them fed by the array."""
    _load_inputs(assembler)
    for number in range(_between(rng, 1, 2)):
        _micro_program(assembler, rng, OUTPUT_ADDRESS + number * OUTPUT_BYTES // 2)
    _store_outputs(assembler)


def _element(assembler: Assembler, rng: np.random.Generator) -> Element:
    """Any element type that a word holds."""
    return Element(
        _between(rng, 0, sum(element.bytes <= assembler.config.columns for element in Element) - 1)
    )


def _micro_program(assembler: Assembler, rng: np.random.Generator, output: int) -> None:
    """One VECTOR_GO that stores to output..output+OUTPUT_BYTES/2."""
    # Only the lanes of a GO have defined results, so its last turns store no more of them.
    lanes = _between(rng, 1, assembler.config.columns)
    for stream in range(STORE_STREAM):
        element, splat = _element(assembler, rng), _between(rng, 0, 1)
        address = _between(rng, OUTPUT_ADDRESS // 2 - 500, OUTPUT_ADDRESS // 2 + 500)
        assembler.emit(Opcode.VECTOR_STREAM, stream=stream, address=address, element=element, splat=splat)
        assembler.vector_dims(
            stream, [(_between(rng, 1, 5), _between(rng, -60, 60)) for _ in range(STREAM_DIMS)]
        )
    element = _element(assembler, rng)
    assembler.emit(Opcode.VECTOR_STREAM, stream=STORE_STREAM, address=output, element=element)
    assembler.vector_dims(
        STORE_STREAM, [(_between(rng, 1, 5), _between(rng, 0, 60)) for _ in range(STREAM_DIMS)]
    )
    narrow = _between(rng, 0, 1)
    assembler.emit(Opcode.VECTOR_PARAM, address=PARAMETER_ADDRESS, bias=1, scale=1, narrow=narrow)
    address, entries = _between(rng, 0, 4000), int(rng.choice([256, 512]))
    assembler.emit(Opcode.VECTOR_TABLE, address=address, entries=entries)
    uops = _between(rng, 1, assembler.config.vector_uops)
    body_start, body_end = sorted((_between(rng, 0, uops), _between(rng, 0, uops)))
    repeats, vectors = _between(rng, 1, 4), _between(rng, 1, 50)
    takes = _micro_ops(assembler, rng, uops, entries)
    if takes >= 0:
        turns = repeats if body_start <= takes < body_end else 1
        _feed(assembler, rng, vectors * turns)
    assembler.emit(
        Opcode.VECTOR_GO,
        vectors=vectors,
        slots=_between(rng, 1, assembler.config.vector_slots),
        repeats=repeats,
        body_start=body_start,
        body_end=body_end,
        uops=uops,
        lanes=lanes,
        tail_lanes=_between(rng, 1, lanes),
    )


def _micro_ops(assembler: Assembler, rng: np.random.Generator, uops: int, entries: int) -> int:
    """Random micro-ops on a table of `entries`; returns the index of the one that takes vectors of the array, or -1."""
    takes = _between(rng, -1, uops - 1)
    written: list[int] = []
    for index in range(uops):
        sources = [Source.NONE, Source.LOAD, Source.LOAD, Source.IMMEDIATE, Source.ITERATION]
        sources += [Source.REGISTER] * 4 if written else []
        a = Source.ARRAY if index == takes else Source(rng.choice(sources))
        b = Source(rng.choice([s for s in sources if s != Source.LOAD or a != Source.LOAD]))
        op = Op(_between(rng, 0, len(Op) - 1))
        if op == Op.TABLE16 and entries < 512:
            op = Op.TABLE8
        to_memory = int(index == uops - 1 or _between(rng, 0, 3) == 0)
        destination = _between(rng, 0, assembler.config.vector_registers - 1)
        assembler.emit(
            Opcode.VECTOR_UOP,
            index=index,
            op=op,
            a_source=a,
            a_index=_operand_index(rng, a, written),
            b_source=b,
            b_index=_operand_index(rng, b, written),
            to_memory=to_memory,
            destination=destination,
            bias=_between(rng, 0, 1),
            per_channel=_between(rng, 0, 1),
            round=_between(rng, 0, 1),
            clamp=_between(rng, 0, 1),
            wrap32=_between(rng, 0, 1),
            shift=_between(rng, 2, 62) if op == Op.RESCALE else _between(rng, 0, 40),
            a_zp=_between(rng, -(1 << 17), (1 << 17) - 1),
            out_zp=_between(rng, -(1 << 17), (1 << 17) - 1),
            multiplier=_between(rng, -(1 << 31), (1 << 31) - 1),
        )
        low, high = sorted(int(v) for v in rng.integers(-(1 << 31), 1 << 31, 2) >> rng.integers(0, 30))
        immediate = _between(rng, -(1 << 31), (1 << 31) - 1) >> _between(rng, 0, 31)
        assembler.emit(Opcode.VECTOR_BOUNDS, index=index, low=low, high=high, immediate=immediate)
        if not to_memory:
            written.append(destination)
    return takes


def _operand_index(rng: np.random.Generator, source: Source, written: list[int]) -> int:
    if source == Source.REGISTER:
        return int(rng.choice(written))
    return _between(rng, 0, STORE_STREAM - 1)


def _feed(assembler: Assembler, rng: np.random.Generator, vectors: int) -> None:
    """An ARRAY_GO that sends `vectors` vectors."""
    _input(assembler, rng, 100, 20)
    _window(assembler, rng, 3, 30, 100)
    assembler.emit(Opcode.ARRAY_KERNEL, ky_count=1, run_count=1, chunks=1)
    assembler.emit(Opcode.ARRAY_GO, weights=_between(rng, 0, 100), pixels=vectors, drain=1)


def _indexed(assembler: Assembler, rng: np.random.Generator) -> None:
    """Rows of bytes copied by offsets that the vector unit computes: gathered, or scattered."""
    columns = assembler.config.columns
    _load_inputs(assembler)
    for number in range(_between(rng, 1, 3)):
        rows, row_bytes = _between(rng, 1, 60), _between(rng, 1, 3 * columns)
        output = OUTPUT_ADDRESS + number * OUTPUT_BYTES // 4
        offsets = OUTPUT_ADDRESS + OUTPUT_BYTES - 1024
        # Any bytes make offsets within +-1024, of any alignment.
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.ASR, a_source=Source.LOAD, b_source=Source.IMMEDIATE)
        assembler.emit(Opcode.VECTOR_BOUNDS, index=0, immediate=21)
        assembler.emit(Opcode.VECTOR_UOP, index=1, op=Op.MOV, a_source=Source.REGISTER, to_memory=1)
        lanes = _between(rng, 1, columns)
        for stream, address in ((0, _between(rng, 0, 4000)), (STORE_STREAM, offsets)):
            assembler.emit(Opcode.VECTOR_STREAM, stream=stream, address=address, element=Element.INT32)
            assembler.vector_dims(stream, [(-(-rows // lanes), 4 * lanes)])
        fields = {"slots": assembler.config.vector_slots, "repeats": 1}
        vectors, tail = -(-rows // lanes), (rows - 1) % lanes + 1
        assembler.emit(Opcode.VECTOR_GO, vectors=vectors, uops=2, lanes=lanes, tail_lanes=tail, **fields)
        assembler.emit(Opcode.VECTOR_OFFSETS, address=offsets, count=rows)
        scattered = _between(rng, 0, 1)
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
        vectors, tail = -(-row_bytes // columns), (row_bytes - 1) % columns + 1
        outer = _between(rng, 1, 3)
        for stream, address in ((0, OUTPUT_ADDRESS // 2), (STORE_STREAM, output + 1024 * scattered)):
            indexed = int(scattered == (stream == STORE_STREAM))
            dims = [(vectors, columns), (rows, 0 if indexed else row_bytes), (outer, _between(rng, 0, 99))]
            assembler.emit(Opcode.VECTOR_STREAM, stream=stream, address=address, indexed=indexed)
            assembler.vector_dims(stream, dims)
        if vectors == 1:
            fields["lanes"] = tail
        total = vectors * rows * outer
        assembler.emit(
            Opcode.VECTOR_GO, vectors=total, uops=1, **{"lanes": columns, "tail_lanes": tail, **fields}
        )
    _store_outputs(assembler)


def _loops(assembler: Assembler, rng: np.random.Generator) -> None:
    """A loop, and in its body a branch over a piece of it."""
    counter = OUTPUT_ADDRESS + OUTPUT_BYTES + 64
    _load_inputs(assembler)
    _set_byte(assembler, counter, Op.MOV, _between(rng, 1, 6))
    assembler.fence()
    head = assembler.offset
    _transfers(assembler, rng)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 4)
    # Which byte decides is the same each time, what it is may change.
    assembler.emit(Opcode.VECTOR_TEST, address=_between(rng, 0, OUTPUT_ADDRESS + 999))
    skip = len(assembler.instructions)
    assembler.emit(Opcode.BRANCH, condition=_between(rng, Condition.ALWAYS, Condition.NEVER))
    for _ in range(_between(rng, 1, 3)):
        _set_byte(
            assembler, _between(rng, OUTPUT_ADDRESS, OUTPUT_ADDRESS + 999), Op.ADD, _between(rng, -99, 99)
        )
    assembler.lead_here(skip)
    _set_byte(assembler, OUTPUT_ADDRESS + 1000, Op.ADD, 1)
    _set_byte(assembler, counter, Op.SUB, 1)
    assembler.emit(Opcode.VECTOR_TEST, address=counter)
    assembler.emit(Opcode.BRANCH, target=head, condition=Condition.IF_SET)
    _store_outputs(assembler)


def _set_byte(assembler: Assembler, address: int, op: Op, value: int) -> None:
    """Let VECTOR compute a byte of AM from itself and a number, or for MOV from the number alone."""
    source = Source.IMMEDIATE if op == Op.MOV else Source.LOAD
    assembler.emit(Opcode.VECTOR_UOP, op=op, a_source=source, b_source=Source.IMMEDIATE, to_memory=1)
    assembler.emit(Opcode.VECTOR_BOUNDS, immediate=value)
    for stream in (0, STORE_STREAM):
        assembler.emit(Opcode.VECTOR_STREAM, stream=stream, address=address, element=Element.INT8)
        assembler.vector_dims(stream)
    assembler.emit(Opcode.VECTOR_GO, vectors=1, slots=1, repeats=1, uops=1, lanes=1, tail_lanes=1)


KINDS: dict[str, Callable[[Assembler, np.random.Generator], None]] = {
    "transfers": _transfers,
    "convolution": _convolution,
    "depthwise": _depthwise,
    "streamed": _streamed,
    "vector": _vector,
    "indexed": _indexed,
    "loops": _loops,
}
