"""Random programs with fields of all magnitudes: each value has a random number of bits. Places wrap at the memories'
ends, so that most are legal; what ends up where results are, or in the image, is in the low bits."""

from collections.abc import Callable, Iterator

import numpy as np
from directed_fields import SET_UP, emit_fields, load_weights, take
from directed_programs import OUTPUT_AT, OUTPUT_BYTES, go, stream

from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, STREAM_DIMS, Element, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

PROGRAM_AT = 1 << 18
RUNS_AT = 1 << 10
"""Where int32 values with long runs of equal bits are, whose shifts and roundings random ones do not show."""
FAR_BYTES = 1 << 24
FLAGS = ("bias", "per_channel", "round", "clamp", "wrap32")
SIGNED_FIELDS = ("address", "x_start", "x_step", "y_step_bytes", "ky_step_bytes", "run_step")


def between(rng: np.random.Generator, low: int, high: int) -> int:
    """Uniform in low..high, both included."""
    return int(rng.integers(low, high + 1))


def wide(rng: np.random.Generator, bits: int, signed: bool = False) -> int:
    """Returns a number of random width, up to `bits` bits."""
    value = int(rng.integers(0, 1 << 62)) & (1 << between(rng, 0, bits)) - 1
    return -value if signed and rng.random() < 0.4 else value


def written(
    config: Config, rng: np.random.Generator, emit: Callable[[Assembler], None], room: int = 1 << 14
) -> Stimulus:
    """All of AM is loaded, `emit` follows, and what it left among the outputs is stored. `room`: for the program."""
    memory = rng.integers(0, 256, PROGRAM_AT + room).astype(np.uint8)
    ends = 1 << rng.integers(0, 33, (2, 512)).astype(np.int64)
    runs = ends[0] - ends[1] + rng.integers(-1, 2, 512)
    memory[RUNS_AT : RUNS_AT + 4 * len(runs)] = runs.astype(np.int32).view(np.uint8)
    assembler = Assembler(config)
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, row_bytes=config.am_bytes, rows=1)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 0)
    load_weights(assembler, 1)
    emit(assembler)
    assembler.pass_token(Opcode.VECTOR_SIGNAL, Opcode.STORE_WAIT, 2)
    assembler.emit(
        Opcode.STORE_GO, memory_address=OUTPUT_AT, local_address=OUTPUT_AT, row_bytes=OUTPUT_BYTES, rows=1
    )
    return Stimulus(memory, PROGRAM_AT, assembler.place(memory, PROGRAM_AT))


def convolutions(config: Config, seed: int) -> Stimulus:
    """Images that lie across the memory's end, steps far out of them, and tiles with many blocks."""
    rng, rows, columns = np.random.default_rng(seed), config.rows, config.columns

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for _ in range(12):
            kernel = {name: 1 + wide(rng, 2) for name in ("ky_count", "run_count", "chunks")}
            steps = columns * kernel["ky_count"] * kernel["run_count"] * kernel["chunks"]
            blocks = wide(rng, 5) if rng.random() < 0.4 and steps < 120 else 0
            pixels = between(rng, 1, rows if blocks else min(2 + 400 * rows // steps, 3 * rows + 9))
            if blocks * pixels > 45:
                blocks = 45 // pixels
            fields = kernel | {"pixels": pixels, "more_blocks": blocks, "drain": 1, "weights": wide(rng, 9)}
            fields |= {"width": 1 + wide(rng, 4), "y_step": wide(rng, 6), "ky_step": wide(rng, 6)}
            for name, bits in zip(SIGNED_FIELDS, (23, 20, 14, 20, 20, 20), strict=True):
                small = rng.random() < 0.5
                value = wide(rng, 6 if small else bits, signed=True)
                if name in ("y_step_bytes", "ky_step_bytes") and rng.random() < 0.5:
                    value = value // config.am_bytes * config.am_bytes + between(rng, -40, 40)
                fields[name] = value
            fields |= {
                "row_bytes": wide(rng, 24),
                "height": wide(rng, 16),
                "y_start": wide(rng, 9, signed=True),
            }
            fields |= operand_fields(rng)
            emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
            address = take(assembler, pixels * (1 + blocks), address)
            assembler.fence()

    return written(config, rng, emit)


def operand_fields(rng: np.random.Generator) -> dict[str, int]:
    """Types and zero points that ARRAY_INPUT takes."""
    unsigned = between(rng, 0, 1)
    input_zp = wide(rng, 8) if unsigned else wide(rng, 7, signed=True)
    return {"unsigned_input": unsigned, "input_zp": input_zp, "weight_zp": wide(rng, 7, signed=True)}


def outputs_of(fields: dict[str, int], rows: int) -> int:
    """How many outputs of a depthwise convolution have passed the last row with a tap when its advances end."""
    line, last = fields["line"], fields["advances"] - rows + fields["idle_rows"]
    return sum(
        fields["skip"] + line * fields["y_stride"] * y + fields["x_stride"] * x <= last
        for y in range(fields["out_height"])
        for x in range(min(fields["out_width"], -(-line // fields["x_stride"])))
    )


def depthwise(config: Config, seed: int) -> Stimulus:
    """Lines, strides, delays and groups of all lengths, several convolutions behind one another."""
    rng, rows, columns = np.random.default_rng(seed), config.rows, config.columns

    def emit(assembler: Assembler) -> None:
        address, left = OUTPUT_AT, 16
        while left and address < OUTPUT_AT + OUTPUT_BYTES - 200 * columns:
            fields = {"line": 1 + wide(rng, 7), "x_stride": 1 + wide(rng, 5), "y_stride": 1 + wide(rng, 3)}
            fields |= {"out_width": wide(rng, 6), "out_height": wide(rng, 5), "skip": wide(rng, 7)}
            fields |= {"delay": between(rng, 2, config.line_pixels), "group_rows": between(rng, 1, 63)}
            fields |= {"advances": 1 + wide(rng, 9), "idle_rows": between(rng, 0, rows - 1), "drain": 1}
            fields |= {"address": wide(rng, 12), "row_bytes": wide(rng, 11), "height": wide(rng, 5)}
            fields |= {"x_step": columns, "width": fields["line"], "y_step": 1, "y_start": -wide(rng, 2)}
            fields |= {"y_step_bytes": wide(rng, 10, signed=True), "weights": wide(rng, 9)}
            fields |= operand_fields(rng)
            if rng.random() < 0.5:
                odd = 2 * wide(rng, 6) + 1
                fields |= {"paired": 1, "y_step": 2, "y_step_bytes": 2 * odd * columns}
                fields |= {"address": wide(rng, 9) * columns, "group_rows": between(rng, 1, 40)}
                fields["delay"] = between(rng, fields["group_rows"] + 2, config.line_pixels)
            count = outputs_of(fields, rows)
            if count > 40:
                continue
            left -= 1
            emit_fields(assembler, fields, *SET_UP[:2], Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_DEPTHWISE_GO)
            if count:
                address = take(assembler, count, address)
            if rng.random() < 0.3:
                more = {"ky_count": 1, "run_count": 1, "chunks": 1, "pixels": 1 + wide(rng, 3)}
                emit_fields(assembler, fields | more, Opcode.ARRAY_KERNEL, Opcode.ARRAY_GO)
                address = take(assembler, more["pixels"], address)
            if rng.random() < 0.3:
                assembler.fence()

    return written(config, rng, emit)


def streams(config: Config, seed: int) -> Stimulus:
    """Streams with strides of all magnitudes in all dimensions, which wrap around the memory: results to the outputs,
    loads far from them, for in one GO nothing orders the two."""
    rng, columns = np.random.default_rng(seed), config.columns
    elements = [element for element in Element if element.bytes <= columns]
    turns = (1 << 23) // config.am_bytes - 1

    def walk(
        assembler: Assembler, number: int, address: int, dims: list[tuple[int, int]], **fields: int
    ) -> None:
        far = between(rng, 0, 2 * turns + 1) * config.am_bytes
        dims = [(count, step + between(rng, -turns, turns) * config.am_bytes) for count, step in dims]
        fields = {"element": elements[between(rng, 0, len(elements) - 1)]} | fields
        stream(assembler, number, far + address, dims, **fields)

    def emit(assembler: Assembler) -> None:
        for number in range(8):
            # The narrowest ones are made the widest, these the narrowest, and then come all.
            loads, stores = (
                {"element": elements[-each]} if number < 2 else {} for each in (number, 1 - number)
            )
            counts = [1 + wide(rng, 2) for _ in range(STREAM_DIMS)]
            for each in range(STORE_STREAM):
                dims = [(1 + wide(rng, 3), wide(rng, 7, signed=True)) for _ in range(STREAM_DIMS)]
                far = between(rng, 0, STREAM_DIMS - 1)
                dims[far] = (1 + wide(rng, 15), dims[far][1])
                splat = int(number > 1) and between(rng, 0, 1)
                walk(assembler, each, 3 * config.am_bytes // 4, dims, splat=splat, **loads)
            dims = [(count, between(rng, 0, 8)) for count in counts]
            walk(assembler, STORE_STREAM, OUTPUT_AT + 64 + 900 * number, dims, **stores)
            for index, op in enumerate((Op.MOV, Op.ADD, Op.XOR)):
                fields = {"a_source": Source.LOAD, "a_index": index, "destination": index, "op": op}
                fields |= {"b_source": Source.REGISTER, "b_index": index - 1} if index else {}
                assembler.emit(Opcode.VECTOR_UOP, index=index, to_memory=int(index == 2), **fields)
            lanes, slots = between(rng, 1, columns), between(rng, 1, config.vector_slots)
            fields = {"vectors": min(int(np.prod(counts)), 60), "uops": 3, "repeats": 1, "slots": slots}
            assembler.emit(Opcode.VECTOR_GO, **fields, lanes=lanes, tail_lanes=between(rng, 1, lanes))
            assembler.emit(Opcode.VECTOR_TEST, address=wide(rng, 24))

    return written(config, rng, emit)


def loops(config: Config, seed: int) -> Stimulus:
    """Bodies that run few times and many times, between what begins and what ends a batch."""
    rng, columns = np.random.default_rng(seed), config.columns

    def emit(assembler: Assembler) -> None:
        for number in range(6):
            start, body, end = (between(rng, 1, 3) for _ in range(3))
            uops, vectors = start + body + end, between(rng, 1, 7)
            for index in range(uops):
                fields = {"op": Op.ADD, "a_source": Source.REGISTER, "b_source": Source.IMMEDIATE}
                first = {"a_source": Source.LOAD, "op": Op.MOV} if index == 0 else {}
                last = {"to_memory": int(index == uops - 1)}
                assembler.emit(Opcode.VECTOR_UOP, index=index, **fields | first | last)
                assembler.emit(Opcode.VECTOR_BOUNDS, index=index, immediate=wide(rng, 20, signed=True))
            dims = [(vectors, 4 * columns)]
            stream(assembler, 0, RUNS_AT, dims, element=Element.INT32)
            stream(assembler, STORE_STREAM, OUTPUT_AT + 512 * number, dims, element=Element.INT32)
            fields = {"body_start": start, "body_end": start + body, "uops": uops, "vectors": vectors}
            fields |= {
                "repeats": 1 + wide(rng, 12 - 2 * number),
                "slots": between(rng, 1, config.vector_slots),
            }
            assembler.emit(Opcode.VECTOR_GO, lanes=columns, tail_lanes=columns, **fields)

    return written(config, rng, emit)


def arithmetic(config: Config, seed: int) -> Stimulus:
    """Operations on wide numbers made of runs of equal bits; both halves of what comes out."""
    rng, columns, vectors = np.random.default_rng(seed), config.columns, 8

    def emit(assembler: Assembler) -> None:
        row = 4 * columns * vectors
        for number in range(OUTPUT_BYTES // (2 * row) // 2):
            op, by = Op(between(rng, 0, len(Op) - 1)), between(rng, 0, 17)
            op = Op.ASR if op in (Op.TABLE8, Op.TABLE16) else op
            amount = between(rng, 0, 63) if op in (Op.LSL, Op.LSR, Op.ASR) else wide(rng, 31, signed=True)
            flags = {flag: between(rng, 0, 1) for flag in FLAGS if flag not in ("bias", "per_channel")}
            flags |= {"shift": between(rng, 2, 62) if op is Op.RESCALE else between(rng, 0, 62)}
            flags |= {"a_zp": wide(rng, 17, signed=True), "out_zp": wide(rng, 17, signed=True)}
            flags |= {"multiplier": wide(rng, 31, signed=True)}
            low, high = sorted((wide(rng, 31, signed=True), wide(rng, 31, signed=True)))
            loaded = {"a_source": Source.LOAD, "b_source": Source.IMMEDIATE, "destination": 1}
            held = {"a_source": Source.REGISTER, "b_source": Source.IMMEDIATE}
            assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MUL, **loaded)
            assembler.emit(Opcode.VECTOR_BOUNDS, index=0, immediate=1 << by)
            assembler.emit(Opcode.VECTOR_UOP, index=1, op=op, a_index=1, destination=2, **held, **flags)
            assembler.emit(Opcode.VECTOR_BOUNDS, index=1, immediate=amount, low=low, high=high)
            for index, shift in ((2, 0), (3, 17)):
                assembler.emit(Opcode.VECTOR_UOP, index=index, op=Op.ASR, a_index=2, to_memory=1, **held)
                assembler.emit(Opcode.VECTOR_BOUNDS, index=index, immediate=shift)
            place = RUNS_AT + 4 * between(rng, 0, 500 - columns * vectors)
            stream(assembler, 0, place, [(vectors, 4 * columns)], element=Element.INT32)
            dims = [(2 * vectors, 4 * columns)]
            stream(assembler, STORE_STREAM, OUTPUT_AT + 2 * row * number, dims, element=Element.INT32)
            go(assembler, vectors, 4, slots=1 + number % 8)

    return written(config, rng, emit)


def far_transfers(config: Config, seed: int) -> Stimulus:
    """Rows far from each other in external memory and, wrapping, on the chip; and rows of many bursts."""
    rng = np.random.default_rng(seed)
    memory = np.zeros(FAR_BYTES, np.uint8)
    memory[:] = np.resize(rng.integers(0, 256, 65521).astype(np.uint8), FAR_BYTES)
    assembler, half = Assembler(config), config.am_bytes // 2
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, row_bytes=half, rows=2, memory_address=wide(rng, 23))
    for kind in ("LOAD", "STORE") * 3:
        for _ in range(4):
            rows, row_bytes = 1 + wide(rng, 3), 1 + wide(rng, 9)
            local = between(rng, 0, half - row_bytes * rows)
            memory_pitch = wide(rng, 19) + row_bytes
            first = between(rng, PROGRAM_AT + 16384, FAR_BYTES - rows * (memory_pitch + row_bytes))
            assembler.emit(Opcode[f"{kind}_PITCH"], memory_pitch=memory_pitch, local_pitch=row_bytes)
            place = {"memory_address": first, "local_address": local, "row_bytes": row_bytes, "rows": rows}
            assembler.emit(Opcode[f"{kind}_GO"], **place)
        assembler.fence()
    return Stimulus(memory, PROGRAM_AT, assembler.place(memory, PROGRAM_AT))


def crowded_banks(config: Config, seed: int) -> Stimulus:
    """Everybody reads and writes in banks of its own choice, some for long in one word, and nobody what another one
    writes: each waits for the others, seldom or for long."""
    rng, columns, bank = np.random.default_rng(seed), config.columns, config.am_bank_bytes
    vectors, quarter = 160, bank // 4

    def emit(assembler: Assembler) -> None:
        # Parts of each bank: read, written by VECTOR, written by LOAD, read. Most of what is read begins in one bank
        # and ends in the next.
        def place(part: int, room: int) -> int:
            if not part:
                return between(rng, 1, config.am_banks - 1) * bank + between(rng, -room, 0)
            return (
                between(rng, 0, config.am_banks - 1) * bank + part * quarter + between(rng, 0, quarter - room)
            )

        assembler.fence()
        for _ in range(3):
            for number in range(2):
                load = {"memory_address": wide(rng, 15), "row_bytes": 400, "rows": 1}
                assembler.emit(
                    Opcode.LOAD_GO, space=Space.AM, local_address=place(2, 800) + 400 * number, **load
                )
            fields = {
                "address": place(0, 900),
                "row_bytes": 800,
                "height": 1,
                "x_step": between(rng, 0, columns),
            }
            fields |= {"ky_count": 1 + wide(rng, 2), "run_count": 4, "chunks": 1, "width": 40, "drain": 1}
            fields |= {"pixels": 2 * config.rows, "weights": 5}
            emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
            store = {"memory_address": OUTPUT_AT + wide(rng, 10), "row_bytes": 700, "rows": 1}
            assembler.emit(Opcode.STORE_GO, local_address=place(0, 800), **store)
            assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
            for stride in (columns, 0):
                stream(assembler, 0, place(0, 900), [(vectors, stride)])
                stream(assembler, STORE_STREAM, place(1, 900), [(vectors, stride)])
                go(assembler, vectors, 1)
            take(assembler, 2 * config.rows, place(1, 900))
            assembler.fence()
        for each in range(config.am_banks):
            store = {"memory_address": OUTPUT_AT + 2048 * each, "row_bytes": 2 * quarter, "rows": 1}
            assembler.emit(Opcode.STORE_GO, local_address=each * bank + quarter, **store)

    return written(config, rng, emit)


def tokens(config: Config, seed: int) -> Stimulus:
    """Units give each other tokens by all numbers, several at a time; then more SIGNALs than there is room for wait for
    a transfer."""
    rng, units = np.random.default_rng(seed), ("LOAD", "ARRAY", "VECTOR", "STORE")

    def emit(assembler: Assembler) -> None:
        for _ in range(10):
            pairs = [
                (units[a], units[b]) for a, b in zip(rng.permutation(4), rng.permutation(4), strict=True)
            ]
            semaphores, counts = rng.permutation(config.semaphores)[:4], [wide(rng, 8) for _ in pairs]
            for kind, side in (("SIGNAL", 0), ("WAIT", 1)):
                for pair, semaphore, count in zip(pairs, semaphores, counts, strict=True):
                    assembler.emit(Opcode[f"{pair[side]}_{kind}"], semaphore=int(semaphore), count=count)
            assembler.fence()
        for kind, waits in (("LOAD", "STORE"), ("STORE", "LOAD"), ("ARRAY", "VECTOR")):
            if kind != "ARRAY":
                row = {"memory_address": OUTPUT_AT + 16384, "row_bytes": 300, "rows": 1}
                assembler.emit(Opcode[f"{kind}_GO"], local_address=OUTPUT_AT + OUTPUT_BYTES, **row)
            for verb, unit in (("SIGNAL", kind), ("WAIT", waits)):
                for number in range(13):
                    assembler.emit(Opcode[f"{unit}_{verb}"], semaphore=number, count=1 + number * 11)
            assembler.fence()

    return written(config, rng, emit)


FAMILIES: dict[str, Callable[[Config, int], Stimulus]] = {
    "convolutions": convolutions,
    "depthwise": depthwise,
    "streams": streams,
    "loops": loops,
    "arithmetic": arithmetic,
    "far transfers": far_transfers,
    "crowded banks": crowded_banks,
    "tokens": tokens,
}


def wide_programs(config: Config, seeds: range) -> Iterator[tuple[str, Stimulus]]:
    """One of each family and seed, by name."""
    for seed in seeds:
        for name, make in FAMILIES.items():
            yield f"wide {name} {seed}", make(config, seed)


__all__ = ["FAMILIES", "wide_programs"]
