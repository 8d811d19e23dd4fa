"""Programs for the array's counters: windows that come back into an image from far away, pairs of image rows, numbers of
which one bit or two are set, jobs behind others of another kind, and jobs that one bit makes illegal or very long."""

from collections.abc import Callable, Iterator

import numpy as np
from directed_fields import SET_UP, emit_fields, load_weights, take
from directed_programs import OUTPUT_AT, OUTPUT_BYTES, go, stream
from directed_wide import between, operand_fields, outputs_of, wide, written
from one_machine import assembled

from tosaic.hw.config import Config
from tosaic.hw.isa import FIELDS, STORE_STREAM, Op, Opcode, Source
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

ROOM = 1 << 16
"""For instructions."""
ENDS_AT = OUTPUT_AT + OUTPUT_BYTES
BUSY = 40
"""Vectors for which VECTOR keeps a bank busy."""
SAFE_AT = OUTPUT_AT + OUTPUT_BYTES + (1 << 12)
"""Where images are that nobody writes in."""
Fields = dict[str, int]


def bits_of(opcode: Opcode, name: str) -> int:
    return next(field.bits for field in FIELDS[opcode] if field.name == name)


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


def far_window(config: Config, rng: np.random.Generator) -> Fields:
    """A window whose steps are of any size, and of which some word is at the border of an image of any size."""
    while True:
        fields = {"ky_count": between(rng, 1, 5), "run_count": between(rng, 1, 4), "chunks": between(rng, 1, 2)}
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
            address = take(assembler, fields["pixels"], address)
            assembler.fence()

    return written(config, rng, emit, ROOM)


def pair(config: Config, rng: np.random.Generator) -> Fields:
    """A depthwise convolution of two image rows at a time, one tap each or two of one, at the image's borders."""
    columns, line = config.columns, between(rng, 2, 6)
    fields = {"line": line, "x_stride": between(rng, 1, 2), "y_stride": between(rng, 1, 2), "paired": 1}
    fields |= {"out_width": between(rng, 1, 6), "out_height": between(rng, 1, 4), "drain": 1}
    fields |= {"group_rows": 1, "idle_rows": 0, "skip": between(rng, 0, line)}
    fields |= {"delay": line + 2 if rng.random() < 0.5 else between(rng, 3, 24 if rng.random() < 0.8 else 128)}
    fields |= {"advances": between(rng, 6, 24), "weights": wide(rng, 9)}
    if fields["delay"] > fields["advances"]:
        fields["advances"] = fields["delay"] + between(rng, 3, 12)
    fields |= {"x_step": columns * between(rng, -1, 2), "width": between(rng, 1, 2 * line)}
    fields |= {"address": columns * between(rng, 0, 1 << 16), "row_bytes": between(rng, 1, line * columns)}
    fields |= {"x_start": between(rng, -3, 6), "height": between(rng, 1, 9), "y_step": 2}
    fields |= {"y_start": between(rng, -3, 1)}
    fields["y_step_bytes"] = 2 * columns * (2 * wide(rng, 18, signed=True) + 1)
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
            assembler.fence()

    return written(config, rng, emit, ROOM)


def counted(config: Config, seed: int) -> Stimulus:
    """Counts of one bit or two and a little: those that count in twos or ones first come to an end early if a bit is
    lost, and late if one is too many. Nothing of these takes long."""
    rng, columns = np.random.default_rng(seed), config.columns

    def long(bits: int) -> int:
        """Of `bits` at most, and so little more than a power of two that few steps end it without that bit."""
        some = (1 << between(rng, 3, bits - 1)) | (1 << between(rng, 3, bits - 1) if rng.random() < 0.3 else 0)
        return some + between(rng, 0, 3)

    def depthwise() -> Fields:
        fields = {"line": between(rng, 2, 5), "x_stride": between(rng, 1, 2), "y_stride": between(rng, 1, 2)}
        fields |= {"out_width": between(rng, 1, 5), "out_height": between(rng, 1, 5), "skip": between(rng, 0, 3)}
        name, bits = (("out_width", 16), ("out_height", 16), ("line", 16), ("skip", 24), ("y_stride", 6))[
            between(rng, 0, 4)
        ]
        fields[name] = long(bits)
        fields |= {"delay": between(rng, 2, 9), "advances": between(rng, 6, 30), "group_rows": between(rng, 1, 2)}
        return fields | {"idle_rows": between(rng, 0, config.rows - 1), "drain": 1}

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        while address < ENDS_AT - 40 * 4 * columns:
            fields = {"address": SAFE_AT + between(rng, 0, 4096), "row_bytes": 1 << 20, "height": 1 << 14}
            fields |= {"x_step": between(rng, -9, 9), "width": long(16), "y_step": between(rng, 0, 3)}
            fields |= {"y_step_bytes": between(rng, -99, 99), "weights": wide(rng, 9)}
            if rng.random() < 0.3:
                fields |= {"ky_count": 1, "run_count": 1, "chunks": 1, "pixels": between(rng, 3, 9), "drain": 1}
                emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
                address = take(assembler, fields["pixels"], address)
                continue
            fields |= depthwise()
            count = outputs_of(fields, config.rows)
            if count > 30:
                continue
            emit_fields(assembler, fields, *SET_UP[:2], Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_DEPTHWISE_GO)
            if count:
                address = take(assembler, count, address)

    return written(config, rng, emit, ROOM)


USUAL = {"row_bytes": 64, "height": 4, "width": 4, "x_step": 4, "ky_count": 1, "run_count": 1, "chunks": 1}
USUAL |= {"pixels": 1, "drain": 1, "delay": 2, "line": 4, "out_width": 1, "out_height": 1, "x_stride": 1}
USUAL |= {"y_stride": 1, "advances": 4, "group_rows": 1}


def one_job(config: Config, opcode: Opcode, changed: Fields) -> Stimulus:
    """A job, and a row that STORE stores if the array says that it has come to an end; VECTOR takes one vector at
    most. Nothing ends what takes long but the watchdog."""
    a = Assembler(config)
    kind = Opcode.ARRAY_KERNEL if opcode is Opcode.ARRAY_GO else Opcode.ARRAY_DEPTHWISE
    emit_fields(a, USUAL | changed, *SET_UP[:2], kind, opcode)
    a.pass_token(Opcode.ARRAY_SIGNAL, Opcode.STORE_WAIT, 2)
    a.emit(Opcode.STORE_GO, memory_address=1, local_address=7, row_bytes=9, rows=1)
    return assembled(config, *((each.opcode, each.fields) for each in a.instructions))


def single_jobs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Jobs with one field of one bit, which makes them legal, illegal, or very long; and the first GO of all that goes
    on from sums, which are not there."""
    depthwise = ("delay", "line", "x_stride", "y_stride", "group_rows", "idle_rows")
    both = ("width",)
    of = {
        Opcode.ARRAY_GO: (*both, "input_zp", "weight_zp", "ky_count", "run_count", "chunks"),
        Opcode.ARRAY_DEPTHWISE_GO: depthwise,
    }
    places = {name: op for op in (*SET_UP, Opcode.ARRAY_DEPTHWISE, *of) for name in (f.name for f in FIELDS[op])}
    for opcode, names in of.items():
        for name in names:
            for bit in range(bits_of(places[name], name)):
                if name in ("ky_count", "run_count", "chunks") and bit > 5:
                    continue
                for value in {1 << bit, -1 << bit} if "zp" in name else {1 << bit}:
                    if fits(places[name], {name: value}):
                        yield f"{opcode.name}, {name} alone {value}", one_job(config, opcode, {name: value})
    for bit in range(16):
        blocks = {"more_blocks": 1 << bit}
        yield f"2^{bit} more blocks", one_job(config, Opcode.ARRAY_GO, blocks)
        yield f"2^{bit} more blocks of many", one_job(config, Opcode.ARRAY_GO, blocks | {"pixels": 3})
    for bit in range(24):
        yield f"2^{bit} pixels", one_job(config, Opcode.ARRAY_GO, {"pixels": 1 << bit})
    yield "sums of nothing", one_job(config, Opcode.ARRAY_GO, {"accumulate": 1})


def array_programs(config: Config, amount: int) -> Iterator[tuple[str, Stimulus]]:
    """Programs that end without an error, by name."""
    for name, make in FAMILIES.items():
        for seed in range(amount):
            yield f"array, {name} {seed}", make(config, seed)


FAMILIES: dict[str, Callable[[Config, int], Stimulus]] = {
    "far windows": far_windows,
    "pairs": pairs,
    "counts": counted,
}
