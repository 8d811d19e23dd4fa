"""Programs for the array's counters: windows that come back into an image from far away, pairs of image rows, numbers
of which one bit or two are set, and jobs behind others of another kind."""

from collections.abc import Callable, Iterator

import numpy as np
from directed_fields import SET_UP, emit_fields, take
from directed_programs import OUTPUT_AT, OUTPUT_BYTES, go, program, stream
from directed_wide import between, operand_fields, outputs_of, wide, written

from tosaic.hw.config import Config
from tosaic.hw.isa import FIELDS, STORE_STREAM, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

ROOM = 1 << 16
"""Bytes for instructions."""
ENDS_AT = OUTPUT_AT + OUTPUT_BYTES
BUSY = 40
"""Vectors for which VECTOR keeps a bank busy."""
SAFE_AT = OUTPUT_AT + OUTPUT_BYTES + (1 << 12)
"""Where images are that nobody writes in."""
PAIRS_AT = ((875, 1), (5000, 1), (7000, 2))
"""Words where pairs of image rows may begin, and by how many sizes of the memory two pairs may be apart more. A pair's
rows are half of that apart, which must not lead to the results."""
AHEAD = (*range(3, 8), 10)
"""Bits of the number of weights that are there before the array begins."""
MOST_SLOW = 6000
"""Bytes of a row for which weights wait."""
FEW = 30
"""Vectors that are stored of very many."""
COUNTS = 4
"""Programs among which numbers are shared out."""
Fields = dict[str, int]
LOOPS = ("ky_count", "run_count", "chunks")
ONE_STEP = dict.fromkeys(LOOPS, 1)


def fits(opcode: Opcode, fields: Fields) -> bool:
    """Whether the opcode's fields hold these values."""
    for field in FIELDS[opcode]:
        value, least = fields.get(field.name, 0), -(1 << field.bits - 1) if field.signed else 0
        if not least <= value < least + (1 << field.bits):
            return False
    return True


def busy_vector(assembler: Assembler, rng: np.random.Generator) -> None:
    """VECTOR reads one word again and again, for which the array waits if it is in the same bank. It keeps nothing."""
    assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD)
    stream(assembler, 0, between(rng, 0, assembler.config.am_bytes - 1), [(BUSY, 0)])
    go(assembler, BUSY, 1)


def dense_job(assembler: Assembler, fields: Fields, address: int) -> int:
    """A job, of which VECTOR stores all pixels; returns the address behind them."""
    emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
    return take(assembler, fields["pixels"], address)


def job_alone(assembler: Assembler, fields: Fields, address: int) -> int:
    """Likewise, but the array has read everything before VECTOR stores, for it may read where the results come."""
    emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
    assembler.pass_token(Opcode.ARRAY_SIGNAL, Opcode.VECTOR_WAIT, 3)
    address = take(assembler, fields["pixels"], address)
    assembler.fence()
    return address


def depthwise_job(assembler: Assembler, fields: Fields, address: int) -> int:
    """A depthwise job, of which VECTOR stores all outputs; returns the address behind them."""
    count = outputs_of(fields, assembler.config.rows)
    emit_fields(assembler, fields, *SET_UP[:2], Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_DEPTHWISE_GO)
    return take(assembler, count, address) if count else address


def far_window(config: Config, rng: np.random.Generator) -> Fields:
    """A window whose steps are of any size, and of which some word is at the border of an image of any size."""
    while True:
        fields = {
            "ky_count": between(rng, 1, 5),
            "run_count": between(rng, 1, 4),
            "chunks": between(rng, 1, 2),
        }
        fields |= {"width": between(rng, 1, 3), "pixels": between(rng, 1, 5), "drain": 1}
        fields |= {"row_bytes": 1 + wide(rng, 24), "height": 1 + wide(rng, 15), "weights": wide(rng, 9)}
        fields |= {"x_step": wide(rng, 19, signed=True), "y_step": wide(rng, 12)}
        fields |= {"run_step": wide(rng, 23, signed=True), "ky_step": wide(rng, 13)}
        fields |= {"y_step_bytes": wide(rng, 23, signed=True), "ky_step_bytes": wide(rng, 24)}
        run, ky = between(rng, 0, fields["run_count"] - 1), between(rng, 0, fields["ky_count"] - 1)
        y, x = divmod(between(rng, 0, fields["pixels"] - 1), fields["width"])
        column = run * fields["run_step"] + x * fields["x_step"]
        line = ky * fields["ky_step"] + y * fields["y_step"]
        fields["x_start"] = rng.choice([0, fields["row_bytes"]]) - column + between(rng, -5, 5)
        fields["y_start"] = rng.choice([0, fields["height"]]) - line + between(rng, -1, 1)
        fields["address"] = between(rng, -(1 << 24), (1 << 24) - 1)
        fields |= operand_fields(rng)
        fields = {name: int(value) for name, value in fields.items()}
        if all(fits(opcode, fields) for opcode in (*SET_UP, Opcode.ARRAY_GO)):
            return fields


def far_windows(config: Config, seed: int) -> Stimulus:
    rng = np.random.default_rng(seed)

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        while address < ENDS_AT - 8 * 4 * config.columns:
            fields = far_window(config, rng)
            emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
            if rng.random() < 0.2:
                busy_vector(assembler, rng)
            # The array may read where the results come.
            assembler.pass_token(Opcode.ARRAY_SIGNAL, Opcode.VECTOR_WAIT, 3)
            address = take(assembler, fields["pixels"], address)
            assembler.fence()

    return written(config, rng, emit, ROOM)


def pair(config: Config, rng: np.random.Generator) -> Fields:
    """A depthwise convolution of two image rows at a time, one tap each or two of one, at the image's borders."""
    columns, line = config.columns, between(rng, 2, 6)
    fields = {"line": line, "x_stride": between(rng, 1, 2), "y_stride": between(rng, 1, 2), "paired": 1}
    fields |= {"out_width": between(rng, 1, 6), "out_height": between(rng, 1, 4), "drain": 1}
    fields |= {"group_rows": 1, "idle_rows": 0, "skip": between(rng, 0, line)}
    fields |= {
        "delay": line + 2 if rng.random() < 0.5 else between(rng, 3, 24 if rng.random() < 0.8 else 128)
    }
    fields |= {"advances": between(rng, 6, 24), "weights": wide(rng, 9)}
    if fields["delay"] > fields["advances"]:
        fields["advances"] = fields["delay"] + between(rng, 3, 12)
    fields |= {"x_step": columns * between(rng, -1, 2), "width": between(rng, 1, 2 * line)}
    # Apart from the results, also half of the memory further.
    word, sizes = PAIRS_AT[between(rng, 0, len(PAIRS_AT) - 1)]
    image, turns = columns * word, between(rng, -200 // sizes, 200 // sizes) * sizes * config.am_bytes
    fields |= {
        "address": image + between(rng, 0, 250) * columns,
        "row_bytes": between(rng, 1, line * columns),
    }
    fields |= {"x_start": between(rng, -3, 6), "height": between(rng, 1, 9), "y_step": 2}
    fields |= {"y_start": between(rng, -3, 1)}
    fields["y_step_bytes"] = 2 * columns * (2 * between(rng, -2, 1) + 1) + turns
    if rng.random() < 0.4:
        far = {"y_step": 1 + wide(rng, 11), "height": 1 + wide(rng, 15), "width": between(rng, 1, 2)}
        near = between(rng, 0, 5) * far["y_step"] + between(rng, -1, 2)
        far["y_start"] = max(-(1 << 15), min(near * -1 + int(rng.choice([0, far["height"]])), (1 << 15) - 1))
        fields |= far
    return fields | operand_fields(rng)


def pairs(config: Config, seed: int) -> Stimulus:
    """VECTOR often reads the words' banks, so that slots wait."""
    rng = np.random.default_rng(seed)

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        while address < ENDS_AT - 40 * 4 * config.columns:
            fields = pair(config, rng)
            count = outputs_of(fields, config.rows)
            if not 0 < count < 40:
                continue
            emit_fields(assembler, fields, *SET_UP[:2], Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_DEPTHWISE_GO)
            if rng.random() < 0.4:
                busy_vector(assembler, rng)
            address = take(assembler, count, address)

    return written(config, rng, emit, ROOM)


def far_pairs(config: Config, seed: int) -> Stimulus:
    """Pairs of image rows about the image's borders, and at distances of one bit and a little from them; most lie far
    below the image's first row, as far as there are rows."""
    rng, columns = np.random.default_rng(seed), config.columns
    image = {"paired": 1, "x_step": columns, "x_start": columns, "row_bytes": 9 * columns, "width": 1}
    image |= {"line": 8, "out_width": 6, "out_height": 1, "x_stride": 1, "y_stride": 1, "drain": 1}
    image |= {"skip": 2, "delay": 3, "group_rows": 1, "idle_rows": 0, "advances": 10}

    def places() -> Iterator[Fields]:
        for bit in range(15):
            for near in (-1, -2):
                yield {"y_start": near - (1 << bit), "height": 1 << 14, "y_step": between(rng, 0, 3)}
        for bit in range(17):
            height, step = between(rng, 1 << 14, (1 << 16) - 1), between(rng, 3000, (1 << 12) - 1)
            for near in (-2, -1, 0):
                # One of the first few pixels is there.
                far = height + near + (1 << bit if bit < 16 else 0)
                number = max(2, -(-(far - (1 << 15) + 1) // step))
                if number < image["out_width"]:
                    yield {"y_start": far - number * step, "height": height, "y_step": step}

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for each in places():
            fields = (
                image
                | each
                | {"weights": wide(rng, 9), "y_step_bytes": 2 * columns * (2 * between(rng, 0, 9) + 1)}
            )
            fields |= {"address": SAFE_AT + columns * between(rng, 0, 512)} | operand_fields(rng)
            address = depthwise_job(assembler, fields, address)
        assert address <= ENDS_AT

    return written(config, rng, emit, ROOM)


def long_pairs(config: Config, seed: int) -> Stimulus:
    """Pairs all vectors of which are used, of delays of each magnitude: the places of a pair's two rows part by one
    with each turn, and each bit of a place is another one in between."""
    rng, columns = np.random.default_rng(seed), config.columns

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for bit in range(1, 7):
            delay = (1 << bit) + between(rng, 1, 1 << bit - 1)
            fields = {"paired": 1, "address": SAFE_AT, "row_bytes": 300 * columns, "height": 9}
            fields |= {"x_step": columns, "width": 300, "y_step": 2, "y_step_bytes": 2 * columns * 301}
            fields |= {"line": 300, "skip": delay - 1, "delay": delay, "group_rows": 1, "idle_rows": 0}
            fields |= {"x_stride": 1, "y_stride": 1, "out_width": delay + 4, "out_height": 1, "drain": 1}
            fields |= {"advances": 2 * delay + 12, "weights": wide(rng, 9)} | operand_fields(rng)
            address = depthwise_job(assembler, fields, address)
        assert address <= ENDS_AT

    return written(config, rng, emit, ROOM)


def fields_of_others(config: Config, seed: int) -> Stimulus:
    """Jobs of each kind while the configuration of the other kind has any bits, or all."""
    rng = np.random.default_rng(seed)
    kinds = (Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_KERNEL)

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for number in range(40):
            fields = ONE_STEP | {"address": SAFE_AT + between(rng, 0, 4096), "row_bytes": 60, "height": 5}
            fields |= {
                "x_start": between(rng, -4, 9),
                "x_step": between(rng, 1, 9),
                "y_start": between(rng, -1, 1),
            }
            fields |= {"width": 2, "y_step": 1 + wide(rng, 2), "y_step_bytes": 64, "weights": wide(rng, 9)}
            fields |= {"line": 3, "x_stride": 1, "y_stride": 1, "skip": between(rng, 0, 2), "delay": 4}
            fields |= {"out_width": 2, "out_height": 3, "group_rows": 1, "idle_rows": 0, "advances": 12}
            fields |= {"run_count": 2, "run_step": 5, "pixels": 5, "drain": 1} | operand_fields(rng)
            other = {
                field.name: -1 if field.signed else (1 << field.bits) - 1
                for field in FIELDS[kinds[number % 2]]
            }
            if number > 3:
                other = {name: wide(rng, abs(value).bit_length()) for name, value in other.items()}
            # The emulator lists the steps of each kernel, also of one that no job has.
            other = {name: min(value, 9) if name in LOOPS else value for name, value in other.items()}
            assembler.emit(kinds[number % 2], **other)
            address = (dense_job, depthwise_job)[number % 2](assembler, fields, address)
        assert address <= ENDS_AT

    return written(config, rng, emit, ROOM)


def counts(config: Config, part: int) -> Stimulus:
    """Numbers of one bit or two and a little: without the bit, or with one too many, what counts them comes to an end
    early, or late. Nothing of these takes long."""
    rng = np.random.default_rng(part)
    of = {"out_width": 16, "out_height": 16, "line": 16, "skip": 24, "x_stride": 6, "width": 16}
    names = [(name, bit) for name, bits in of.items() for bit in range(2, bits)][part::COUNTS]

    def job(name: str, value: int) -> Fields:
        fields = {"address": SAFE_AT + between(rng, 0, 4096), "row_bytes": 1 << 20, "height": 1 << 14}
        fields |= {"x_step": between(rng, -9, 9), "width": 1 << 13, "y_step": between(rng, 0, 3)}
        fields |= {"y_step_bytes": between(rng, -99, 99), "weights": wide(rng, 9), "drain": 1}
        fields |= {"line": 5, "x_stride": 1, "y_stride": 1, "skip": between(rng, 0, 3), "out_height": 2}
        fields |= {"out_width": between(rng, 1, 4), "advances": 14, "pixels": between(rng, 4, 9)}
        fields |= {"delay": between(rng, 2, 9), "group_rows": between(rng, 1, 2)}
        fields |= {"idle_rows": between(rng, 0, config.rows - 1), name: value}
        if name == "out_height":
            fields |= {"line": 1, "out_width": 1}
        return fields

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for name, bit in names:
            some = between(rng, 1, 3)
            for more in (some, some + (1 << between(rng, 0, 4))):
                fields = job(name, (1 << bit) + more)
                if more > 4 and name == "out_width":
                    fields |= {"line": 22, "out_height": 1}
                if more > 4 and name.startswith("out"):
                    fields["advances"] = 24
                if name == "width":
                    address = dense_job(assembler, fields | ONE_STEP, address)
                address = depthwise_job(assembler, fields, address)
        assert address <= ENDS_AT

    return written(config, rng, emit, ROOM)


def distances(config: Config, seed: int) -> Stimulus:
    """Words and lines whose distance to an image's border has one bit, and a little."""
    rng = np.random.default_rng(seed)

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        wide_image = {"row_bytes": (1 << 23) - between(rng, 9, 99), "height": (1 << 15) - between(rng, 3, 9)}
        fields = ONE_STEP | {"pixels": 3, "width": 3, "drain": 1, "y_step": 1} | wide_image
        places = [
            (start, border + sign * ((1 << bit) + between(rng, 0, 3)))
            for start, side, bits in (("x_start", "row_bytes", 23), ("y_start", "height", 15))
            for bit in range(1, bits)
            for border in (0, wide_image[side])
            for sign in (1, -1)
        ]
        for start, near in places:
            fields |= {"x_start": 9, "y_start": 2, "x_step": between(rng, -1, 1), "weights": wide(rng, 9)}
            fields |= {"address": SAFE_AT + between(rng, 0, 4096), start: near}
            if fits(Opcode.ARRAY_WINDOW, fields):
                address = dense_job(assembler, fields, address)
        # Kernel rows far below one another.
        for _ in range(8):
            fields |= {
                "ky_count": between(rng, 9, 12),
                "ky_step": between(rng, 6000, 8191),
                "ky_step_bytes": 28,
            }
            last = (fields["ky_count"] - 1) * fields["ky_step"]
            fields |= {"height": between(rng, 1 << 14, (1 << 16) - 1), "x_start": 2, "width": 2, "pixels": 4}
            fields["y_start"] = max(-(1 << 15), fields["height"] - last + between(rng, -2, 0))
            address = dense_job(assembler, fields, address)
        assert address <= ENDS_AT

    return written(config, rng, emit, ROOM)


def walked_again(config: Config, seed: int) -> Stimulus:
    """Each step of a tile walks its pixels from the marked one on: where the row of pixels ends is counted from there,
    while one bit of the count and a little is left."""
    rng = np.random.default_rng(seed)

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for bit in range(2, 16):
            for more in (2, 3, 4):
                fields = {"address": SAFE_AT + between(rng, 0, 4096), "row_bytes": 1 << 20, "height": 1 << 14}
                fields |= {"x_step": between(rng, -9, 9), "y_step": 1, "y_step_bytes": between(rng, 50, 99)}
                fields |= {"width": (1 << bit) + more, "pixels": 6, "weights": wide(rng, 9), "drain": 1}
                fields |= {"x_start": 99, "ky_count": 1, "run_count": 2, "run_step": 5, "chunks": 1}
                address = dense_job(assembler, fields, address)
        assert address <= ENDS_AT

    return written(config, rng, emit, ROOM)


def beside_images(config: Config, side: str) -> Stimulus:
    """Words around one side of an image, of which some, one or none byte is inside, again and again, while VECTOR keeps
    their bank busy: only what has a byte inside waits."""
    rng, columns = np.random.default_rng(len(side)), config.columns
    row_bytes, height = 40 * columns, 20
    borders = {"left": (-columns, 1), "right": (row_bytes, 1), "above": (2, 0), "below": (2, height)}
    column, line = borders[side]

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for bank in range(config.am_banks):
            for off in (-1, 0, 1):
                is_column = side in ("left", "right")
                fields = {"x_start": column + off * is_column, "y_start": line + off * (not is_column)}
                word = bank * config.am_bank_bytes + columns * between(rng, 500, 600)
                fields |= {"address": word - fields["x_start"], "row_bytes": row_bytes, "height": height}
                fields |= {"width": 9, "pixels": config.rows, "weights": wide(rng, 9), "drain": 1}
                fields |= {"ky_count": 1, "run_count": 40, "chunks": 1}
                emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
                assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD)
                for odd in (0, columns):  # a bank is one of even or of odd words
                    stream(assembler, 0, word + odd, [(BUSY, 0)])
                    go(assembler, BUSY, 1)
                address = take(assembler, fields["pixels"], address)
        assert address <= ENDS_AT

    return written(config, rng, emit, ROOM)


def longest_lines(config: Config, more: int) -> Stimulus:
    """A line, outputs beside one another, outputs below one another, and skipped vectors, of 2^15 and `more`, each
    counted to its end. VECTOR stores the last few outputs."""
    rng, many = np.random.default_rng(more), (1 << 15) + more
    jobs = [
        {"line": many, "out_width": 2, "out_height": 2, "advances": many + 9},
        {"line": (1 << 16) - 1, "out_width": many, "out_height": 1, "advances": many + 9},
        {"line": 1, "out_width": 1, "out_height": many, "advances": many + 9},
        {"line": 5, "out_width": 3, "out_height": 2, "skip": many, "advances": many + 12},
    ]

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for job in jobs:
            fields = {"address": SAFE_AT, "row_bytes": 1 << 20, "height": 1 << 14, "width": (1 << 16) - 1}
            fields |= {"x_step": 0, "weights": wide(rng, 9), "drain": 1, "skip": 0, "delay": 2}
            fields |= {"x_stride": 1, "y_stride": 1, "group_rows": 1, "idle_rows": 0} | job
            emit_fields(assembler, fields, *SET_UP[:2], Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_DEPTHWISE_GO)
            vectors = outputs_of(fields, config.rows)
            address = take_last(assembler, vectors, min(vectors, FEW), address)

    return written(config, rng, emit, ROOM)


def take_last(assembler: Assembler, vectors: int, few: int, address: int) -> int:
    """VECTOR stores only the last `few` of the array's vectors; returns the address behind them."""
    if vectors > few:
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.ARRAY, to_memory=1)
        stream(assembler, STORE_STREAM, ENDS_AT - assembler.config.columns, [(vectors - few, 0)])
        go(assembler, vectors - few, 1)
    return take(assembler, few, address) if few else address


def long_rows(config: Config, seed: int) -> Stimulus:
    """Rows, lines, skipped vectors and outputs that are counted down from a large number, for real."""
    rng = np.random.default_rng(seed)

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        outputs = {8401: 8351, 5051: 4608, 1651: 1100, 751: 701, 331: 281}
        for many in (9300, 8401, 5051, 3000, 1651, 751, 331, 280, 600):
            fields = {"address": SAFE_AT, "row_bytes": 1 << 20, "height": 1 << 14, "width": many + 1}
            fields |= {"x_step": 0, "y_step": 1, "y_step_bytes": 64, "weights": 3, "drain": 1}
            fields |= {"line": many, "out_width": 9, "out_height": 3, "x_stride": 1, "y_stride": 1}
            fields |= {"skip": many - 3, "delay": 2, "group_rows": 1, "idle_rows": 0}
            fields |= {"advances": many + 9}
            if many in outputs:
                fields |= {"skip": 3, "out_width": outputs[many]}
            elif many < 1000:
                fields |= {"skip": 3, "line": 1, "out_width": 1, "out_height": many}
            emit_fields(assembler, fields, *SET_UP[:2], Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_DEPTHWISE_GO)
            vectors = outputs_of(fields, config.rows)
            address = take_last(assembler, vectors, vectors % 40, address)

    return written(config, rng, emit, ROOM)


def successor(config: Config, rng: np.random.Generator, assembler: Assembler) -> int:
    """A job of some kind, or some that add up sums; how many vectors come of it."""
    kind = between(rng, 0, 3)
    fields = ONE_STEP | {"address": SAFE_AT + 99, "row_bytes": 1 << 20, "height": 1 << 14, "width": 5}
    fields |= {"x_step": 5, "y_step": 1, "y_step_bytes": 77}
    fields |= {"ky_count": between(rng, 1, 3), "chunks": between(rng, 1, 2), "weights": wide(rng, 9)}
    fields |= {"x_stride": 1, "y_stride": 1, "skip": between(rng, 0, 2), "delay": 2 + wide(rng, 3)}
    fields |= {"line": between(rng, 1, 4), "out_width": 3, "out_height": between(rng, 1, 3)}
    fields |= {"group_rows": between(rng, 1, 2), "idle_rows": between(rng, 0, config.rows - 1)}
    fields |= {"advances": between(rng, 2, 12), "pixels": between(rng, 1, config.rows), "drain": 1}
    if kind == 0:  # the last sum is on its way when its job ends
        fields |= {"line": 1, "out_height": 9, "idle_rows": 1, "advances": between(rng, 1, 4)}
    if kind < 2:
        emit_fields(assembler, fields, SET_UP[1], Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_DEPTHWISE_GO)
        return outputs_of(fields, config.rows)
    emit_fields(assembler, fields, Opcode.ARRAY_KERNEL)
    parts = 1 if kind == 2 else between(rng, 2, 3)
    for number in range(parts):
        flags = {"drain": int(number == parts - 1), "accumulate": int(number > 0)}
        emit_fields(assembler, fields | flags, Opcode.ARRAY_GO)
        for _ in range(between(rng, 0, 24) * (kind == 3 and rng.random() < 0.4)):  # a pause
            emit_fields(assembler, fields, SET_UP[1])
    return fields["pixels"]


def successions(config: Config, seed: int) -> Stimulus:
    """Jobs right behind others of each kind, for they wait for one that takes long: depthwise ones whose last sums are
    on their way, sums that go on behind others or after a pause, SIGNALs in between."""
    rng = np.random.default_rng(seed)

    def emit(assembler: Assembler) -> None:
        address, pending = OUTPUT_AT, 0
        for _ in range(22):
            fields = ONE_STEP | {"address": SAFE_AT, "row_bytes": 1 << 20, "height": 1 << 14, "width": 5}
            fields |= {"chunks": 40, "pixels": 1, "drain": 1, "x_step": 5} | operand_fields(rng)
            emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
            count = 1
            # Not more vectors than there is room for: VECTOR may begin only when the array has taken its last job.
            for _ in range(between(rng, 2, 4)):
                if count > 3:
                    break
                count += successor(config, rng, assembler)
                if rng.random() < 0.3:
                    assembler.emit(Opcode.ARRAY_SIGNAL, semaphore=9, count=1)
                    pending += 1
            address = take(assembler, count, address)
        assembler.emit(Opcode.VECTOR_WAIT, semaphore=9, count=pending)
        assert address <= ENDS_AT

    return written(config, rng, emit, ROOM)


def ahead(config: Config, bit: int) -> Stimulus:
    """2^bit streamed weights and some are there before the array begins; it takes these and then waits for more."""
    columns, there = config.columns, (1 << bit) // config.columns + 2

    def emit(assembler: Assembler) -> None:
        def weights(first: int, words: int) -> None:
            place = {"memory_address": 64 + first, "local_address": (512 + first) * columns}
            row = {"space": Space.WM, "row_bytes": words * columns, "rows": 1}
            assembler.emit(Opcode.LOAD_GO, **place, **row, streamed=1)

        fields = ONE_STEP | {"address": SAFE_AT, "row_bytes": 1 << 20, "height": 1 << 14, "width": 5}
        fields |= {"x_step": 5, "pixels": 1, "drain": 1, "streamed": 1, "chunks": there + 6, "weights": 512}
        weights(0, there * columns)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 3)
        rows = -(-(1000 + 8 * there * columns) // MOST_SLOW)
        slow = {"memory_address": 3, "row_bytes": (1000 + 8 * there * columns) // rows, "rows": rows}
        if rows > 1:
            assembler.emit(Opcode.LOAD_PITCH, memory_pitch=1, local_pitch=1)
        assembler.emit(Opcode.LOAD_GO, local_address=3 * config.am_bytes // 4, **slow)
        weights(there * columns, 6 * columns)
        emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
        take(assembler, 1, OUTPUT_AT)

    return program(config, emit)


def array_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """All of them, by name."""
    for part in range(COUNTS):
        yield f"counts of one bit, {part}", counts(config, part)
    for bit in AHEAD:
        yield f"2^{bit} weights ahead", ahead(config, bit)
    for side in ("left", "right", "above", "below"):
        yield f"words beside an image, {side}", beside_images(config, side)
    for more in (2, 3):
        yield f"longest lines and {more}", longest_lines(config, more)
    for name, (make, seeds) in FAMILIES.items():
        for seed in range(seeds):
            yield f"{name} {seed}", make(config, seed)


FAMILIES: dict[str, tuple[Callable[[Config, int], Stimulus], int]] = {
    "windows from far away": (far_windows, 1),
    "pairs of image rows": (pairs, 4),
    "distances of one bit": (distances, 1),
    "pairs far away": (far_pairs, 1),
    "pairs of long turns": (long_pairs, 1),
    "fields of the other kind": (fields_of_others, 1),
    "jobs behind jobs": (successions, 2),
    "pixels that are walked again": (walked_again, 1),
    "long rows": (long_rows, 1),
}
"""What makes them, and how many."""
