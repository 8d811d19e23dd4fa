"""Programs that set all state at random, let one instruction with a field of a given class of values act, and bring
what it changed to external memory. Each opcode has its maker; a field's classes are those of the coverage model."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from directed_fields import emit_fields
from directed_programs import go, stream
from directed_wide import outputs_of
from functional_coverage import class_of, legal_classes

from tosaic.hw.config import Config
from tosaic.hw.isa import (
    FIELDS,
    ISA_HASH,
    OFFSETS_MAX,
    STORE_STREAM,
    STREAM_DIMS,
    Condition,
    Element,
    Field,
    Op,
    Opcode,
    Source,
    Space,
    Unit,
    used_bits,
)
from tosaic.hw.packed_weights import WeightCoding, pack
from tosaic.hw.row_crc import rows_crc
from tosaic.nnr import levels
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

Fields = dict[str, int]
RESULTS_AT = 1 << 14
"""Where VECTOR stores results in the activation memory."""
OUT_AT, PROGRAM_AT, MEMORY_BYTES = 3 << 15, 5 << 15, 6 << 15
"""In external memory: what is stored in the end; the program, behind it. Before them are inputs."""
BLOCK_AT = 1 << 15
"""A coded block, or packed rows."""
LOOPS = {
    **{"rows": 20, "pixels": 30, "ky_count": 20, "run_count": 20, "chunks": 20, "more_blocks": 20},
    **{
        "advances": 60,
        "repeats": 20,
        "vectors": 40,
        "delay": 60,
        "line": 20,
        "out_width": 40,
        "out_height": 40,
    },
    **{"count_low": 40, "count_high": 40, "row_bytes": 400, "weights": 1000, "skip": 30, "width": 60},
    **dict.fromkeys(("body_start", "body_end", "uops"), 16),
    **dict.fromkeys(("body_start", "body_end", "uops"), 16),
}
"""The largest value of fields that say how long something takes."""
VALUES = {
    "element": len(Element),
    "a_source": len(Source),
    "b_source": len(Source),
    "op": len(Op),
    "a_index": 3,
    "b_index": 3,
    "destination": 4,
}
"""Values that these fields have, from 0 on."""


class Draw:
    """Random values; of one field those of one class."""

    def __init__(self, rng: np.random.Generator, opcode: Opcode, field: str | None, wanted: str | None):
        self.rng, self.opcode, self.field, self.wanted = rng, opcode, field, wanted

    def between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def of_class(self, field: Field, wanted: str) -> int:
        """A value of the class, of any magnitude where its magnitude does not say how long something takes."""
        least, most = {"negative": (-(1 << field.bits - 1), -1), "few": (2, 15), "many": (16, 1 << 32)}.get(
            wanted, (int(wanted) if wanted.isdigit() else 0,) * 2
        )
        largest = (1 << (field.bits - field.signed)) - 1
        most = min(
            most, largest, max(least, LOOPS.get(field.name, largest)), VALUES.get(field.name, 1 << 32) - 1
        )
        if wanted == "negative" and self.between(0, 1):
            least = -16
        elif wanted == "many" and self.between(0, 1):
            most = min(most, 1 << self.between(5, max(5, most.bit_length() - 1)))
        return self.between(least, max(most, least))

    def fields(self, opcode: Opcode, usual: Fields) -> Fields:
        """The fields of an instruction: as usual, but for the one that has a class."""
        found = {field.name: usual.get(field.name, 0) for field in FIELDS[opcode]}
        if opcode == self.opcode and self.field is not None and self.wanted is not None:
            chosen = next(field for field in FIELDS[opcode] if field.name == self.field)
            found[self.field] = self.of_class(chosen, self.wanted)
        return found


@dataclasses.dataclass
class Making:
    """A program in the making, with the memory that it finds."""

    assembler: Assembler
    draw: Draw
    memory: np.ndarray

    @property
    def config(self) -> Config:
        return self.assembler.config

    def emit(self, opcode: Opcode, **usual: int) -> Fields:
        """The instruction; its fields, in which one may be of a class."""
        fields = self.draw.fields(opcode, usual)
        self.assembler.emit(opcode, **fields)
        return fields

    def between(self, low: int, high: int) -> int:
        return self.draw.between(low, high)

    def fence(self) -> None:
        self.assembler.fence()


def load_all(making: Making) -> None:
    """Random bytes in both memories."""
    config, emit = making.config, making.assembler.emit
    emit(Opcode.LOAD_GO, space=Space.AM, row_bytes=min(config.am_bytes, 1 << 15), rows=1)
    emit(Opcode.LOAD_GO, space=Space.WM, row_bytes=min(config.wm_bytes, 1 << 14), rows=1)
    making.fence()


def store_all(making: Making) -> None:
    """All of the activation memory that a program loads, and what the array makes of each word of weights."""
    config, assembler = making.config, making.assembler
    size = min(config.am_bytes, 1 << 15)
    making.fence()
    assembler.emit(Opcode.STORE_PITCH)
    assembler.emit(Opcode.STORE_GO, memory_address=OUT_AT, row_bytes=size, rows=1)
    making.fence()
    # Each word of weights counts with odd inputs: a byte that is another one makes another sum.
    assembler.emit(Opcode.LOAD_PITCH)
    assembler.emit(Opcode.LOAD_GO, memory_address=BLOCK_AT - 64, row_bytes=64, rows=1)
    making.fence()
    blocks = min(config.wm_bytes, 1 << 14) // config.columns**2
    usual = {
        "row_bytes": 64,
        "height": 1,
        "width": 1,
        "ky_count": 1,
        "run_count": 1,
        "chunks": 1,
        "pixels": 1,
    }
    usual |= {"drain": 1, "more_blocks": blocks - 1}
    emit_fields(
        assembler, usual, Opcode.ARRAY_INPUT, Opcode.ARRAY_WINDOW, Opcode.ARRAY_KERNEL, Opcode.ARRAY_GO
    )
    take(making, blocks, 1 << 10)
    making.fence()
    taken = 4 * config.columns * blocks
    assembler.emit(
        Opcode.STORE_GO, memory_address=OUT_AT + size, local_address=1 << 10, row_bytes=taken, rows=1
    )


def take(making: Making, vectors: int, address: int) -> None:
    """VECTOR stores the array's vectors as int32."""
    size = 4 * making.config.columns
    stream(making.assembler, STORE_STREAM, address, [(vectors, size)], element=Element.INT32)
    making.assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.ARRAY, to_memory=1)
    go(making.assembler, vectors, 1)


def sequencer(making: Making) -> None:
    """A flag from memory, a branch over a load, or none."""
    opcode, assembler = making.draw.opcode, making.assembler
    assembler.emit(Opcode.VECTOR_TEST, address=making.between(0, 99))
    if opcode == Opcode.BRANCH:
        branch = len(assembler.instructions)
        fields = making.emit(Opcode.BRANCH, condition=making.between(0, 3))
        assembler.emit(
            Opcode.LOAD_GO, memory_address=77, local_address=making.between(0, 99), row_bytes=99, rows=1
        )
        if making.draw.field != "target":
            assembler.lead_here(branch)
        elif fields["target"] or fields["condition"] == Condition.ALWAYS:
            assembler.instructions[branch] = dataclasses.replace(
                assembler.instructions[branch], fields=fields | {"target": assembler.offset}
            )
    elif opcode == Opcode.NOP:
        making.emit(opcode)


def begin(making: Making) -> None:
    """BEGIN is there; of its hashes each has one right value."""
    fields = {"isa_hash": ISA_HASH, "config_hash": making.config.hash}
    if making.draw.wanted == "wrong":
        fields[making.draw.field] ^= 1 << making.between(0, 31)
    making.assembler.instructions[0] = dataclasses.replace(making.assembler.instructions[0], fields=fields)


def tokens(making: Making) -> None:
    """One unit's tokens for itself or for another one, which takes them in two parts and then works."""
    opcode, emit = making.draw.opcode, making.assembler.emit
    unit = opcode.unit
    other = Unit(making.between(1, 4))
    gives, takes = (unit, other) if opcode.name.endswith("SIGNAL") else (other, unit)
    usual = {"semaphore": making.between(0, making.config.semaphores - 1), "count": making.between(0, 9)}
    fields = making.draw.fields(opcode, usual)
    more = making.between(0, min(3, 255 - fields["count"]))
    semaphore, wait = fields["semaphore"], Opcode[f"{takes.name}_WAIT"]
    emit(Opcode[f"{gives.name}_SIGNAL"], semaphore=semaphore, count=fields["count"])
    emit(Opcode[f"{gives.name}_SIGNAL"], semaphore=semaphore, count=more)
    emit(wait, semaphore=semaphore, count=fields["count"])
    emit(wait, semaphore=semaphore, count=more)
    making.fence()


def transfer(making: Making) -> None:
    """Rows between the memories; a GO follows the pitches."""
    unit = making.draw.opcode.unit
    if making.draw.field == "checked":
        checked(making)
        return
    if making.draw.field == "streamed" and making.draw.wanted == "1":
        dense(making)
        return
    word, to_wm, flags = making.config.word_bytes, 0, {}
    if unit == Unit.LOAD:
        wm_only = making.draw.field == "packed" and making.draw.wanted == "1"
        to_wm = (
            int(making.draw.wanted == "1")
            if making.draw.field == "space"
            else int(wm_only or making.between(0, 3) == 0)
        )
        flags = {"space": to_wm}
    whole = word if to_wm else 1
    rows = making.between(1, 6)
    memory_pitch, local_pitch = (making.between(0, 200 // whole) * whole for _ in range(2))
    pitches = {"memory_pitch": memory_pitch, "local_pitch": local_pitch}
    making.emit(Opcode[f"{unit.name}_PITCH"], **pitches)
    at = (
        making.between(0, 4000) * whole if unit == Unit.LOAD else making.between(OUT_AT - 8000, OUT_AT - 4000)
    )
    usual = {"memory_address": at, "local_address": making.between(0, 2000) * whole, "rows": rows}
    usual |= {"row_bytes": making.between(1, 300 // whole) * whole}
    if making.draw.field == "packed" and making.draw.wanted == "1":
        usual |= packed_row(making)
    making.emit(Opcode[f"{unit.name}_GO"], **usual, **flags)


def checked(making: Making) -> None:
    """A checked row and its CRC; a wrong one where that has a class of its own."""
    draw, between = making.draw, making.between
    at, size = between(0, 4000), between(1, 60)
    usual = {"memory_address": at, "local_address": between(0, 2000), "row_bytes": size, "rows": 1}
    fields = draw.fields(Opcode.LOAD_GO, usual | {"checked": int(draw.wanted != "0")})
    crc = rows_crc(0, [at], making.memory[None, at : at + size], making.config.word_bytes)
    making.assembler.emit(Opcode.LOAD_GO, **fields)
    wrong = {"1": 1, "few": between(2, 15)}.get(draw.wanted or "")
    right = crc if fields["checked"] else 0
    making.assembler.emit(Opcode.LOAD_CHECK, crc=wrong if draw.field == "crc" and wrong else right)


def window(making: Making) -> Fields:
    """Usual fields of what the array reads."""
    between = making.between
    usual = {"address": between(0, 3000), "row_bytes": between(1, 60), "height": between(1, 8)}
    usual |= {"input_zp": between(-99, 127), "weight_zp": between(-99, 99), "x_start": between(-9, 9)}
    usual |= {
        "x_step": between(-9, 20),
        "y_start": between(-2, 2),
        "y_step": between(0, 2),
        "width": between(1, 9),
    }
    usual |= {"y_step_bytes": between(-60, 60), "ky_count": between(1, 3), "ky_step": between(0, 2)}
    usual |= {"ky_step_bytes": between(-60, 60), "run_count": between(1, 3), "run_step": between(-30, 30)}
    usual |= {
        "chunks": between(1, 2),
        "weights": between(0, 400),
        "pixels": between(1, 5 * making.config.rows),
    }
    if making.draw.field == "unsigned_input" or making.between(0, 3) == 0:
        usual |= {"unsigned_input": 1, "input_zp": between(0, 255)}
    if making.draw.field == "input_zp":
        usual["unsigned_input"] = int(making.draw.wanted == "many")
    return usual


def dense(making: Making) -> None:
    """A job of the array; what it adds to are the sums of one before it. What it does not drain, another one does."""
    usual, draw = window(making) | {"drain": 1}, making.draw
    for opcode in (Opcode.ARRAY_INPUT, Opcode.ARRAY_WINDOW, Opcode.ARRAY_KERNEL):
        making.emit(opcode, **usual)
    one_tile = draw.field in ("accumulate", "drain", "more_blocks")
    usual["pixels"] = making.between(1, making.config.rows) if one_tile else usual["pixels"]
    if draw.field == "streamed" and draw.wanted == "1":
        usual["streamed"] = 1
        words = usual["ky_count"] * usual["run_count"] * usual["chunks"] * making.config.columns
        size, at = words * making.config.columns, usual["weights"] * making.config.columns
        brought = {"space": Space.WM, "local_address": at, "row_bytes": size, "rows": 1, "streamed": 1}
        making.assembler.emit(Opcode.LOAD_GO, **brought)
    if draw.field == "more_blocks":
        usual["weights"] = making.between(0, 40)
    fields = draw.fields(Opcode.ARRAY_GO, usual)
    if fields["accumulate"]:
        making.assembler.emit(Opcode.ARRAY_GO, **fields | {"accumulate": 0, "drain": 0, "streamed": 0})
    making.assembler.emit(Opcode.ARRAY_GO, **fields)
    if not fields["drain"]:
        making.assembler.emit(Opcode.ARRAY_GO, **fields | {"accumulate": 1, "drain": 1, "streamed": 0})
    take(making, fields["pixels"] * (1 + fields["more_blocks"]), RESULTS_AT)


def depthwise(making: Making) -> None:
    """A depthwise job; partial sums that it keeps are drained by another one."""
    config, draw, between = making.config, making.draw, making.between
    usual = window(making)
    paired = draw.field == "paired" and draw.wanted == "1"
    usual |= {
        "line": between(1, 9),
        "out_width": between(1, 6),
        "out_height": between(1, 4),
        "x_stride": between(1, 2),
    }
    usual |= {"y_stride": between(1, 2), "group_rows": between(1, config.rows), "advances": between(9, 40)}
    usual |= {"delay": between(2, 12), "skip": between(0, 9), "drain": 1, "idle_rows": 0}
    usual |= {"x_step": config.columns * between(0, 2), "address": config.columns * between(0, 400)}
    if paired:
        usual |= {"delay": config.rows + between(3, 9), "y_step_bytes": 2 * config.columns * 3, "x_start": 0}
        usual |= {"y_step": 2, "group_rows": 1}
    for opcode in (Opcode.ARRAY_INPUT, Opcode.ARRAY_WINDOW):
        making.emit(opcode, **usual)
    shape = making.emit(Opcode.ARRAY_DEPTHWISE, **usual)
    fields = draw.fields(Opcode.ARRAY_DEPTHWISE_GO, usual)
    there = shape["line"] and shape["x_stride"] and shape["y_stride"]
    count = outputs_of(shape | fields, config.rows) if there else 1
    begins = fields | {"accumulate": 0, "drain": 0}
    if fields["accumulate"]:
        making.assembler.emit(Opcode.ARRAY_DEPTHWISE_GO, **begins)
    making.assembler.emit(Opcode.ARRAY_DEPTHWISE_GO, **fields)
    if not fields["drain"]:
        making.assembler.emit(Opcode.ARRAY_DEPTHWISE_GO, **fields | {"accumulate": 1, "drain": 1})
    if count:
        take(making, count, RESULTS_AT)


def parameters(making: Making, address: int, bias: int, scale: int, narrow: int) -> None:
    """Makes the shifts at `address` 2..62 and the multipliers positive, as TOSA wants them."""
    columns = making.config.columns
    first = address + bias * (2 if narrow else 4) * columns
    if scale and first + 5 * columns <= 1 << 14:
        making.memory[first + 3 : first + 4 * columns : 4] &= 0x7F
        shifts = slice(first + 4 * columns, first + 5 * columns)
        making.memory[shifts] = making.draw.rng.integers(2, 63, columns)


def micro_op(making: Making, index: int) -> Fields:
    """A random one that leaves the array alone."""
    between, sources = (
        making.between,
        [Source.NONE, Source.REGISTER, Source.LOAD, Source.IMMEDIATE, Source.ITERATION],
    )
    a = sources[between(0, 4)]
    b = sources[between(0, 4)]
    b = Source.REGISTER if a == b == Source.LOAD else b
    usual = {
        "index": index,
        "op": between(0, len(Op) - 1),
        "a_source": a,
        "b_source": b,
        "shift": between(0, 62),
    }
    usual |= {"a_index": between(0, 2), "b_index": between(0, 2), "destination": between(0, 2)}
    usual |= {
        name: between(0, 1) for name in ("bias", "per_channel", "round", "clamp", "wrap32", "to_memory")
    }
    usual |= {
        "a_zp": between(-200, 200),
        "out_zp": between(-200, 200),
        "multiplier": between(0, (1 << 31) - 1),
    }
    return usual


def vector(making: Making) -> None:
    """All that a GO of VECTOR uses, at random, then the GO."""
    config, draw, emit, between = making.config, making.draw, making.emit, making.between
    at = draw.fields(
        Opcode.VECTOR_PARAM, {"address": between(0, 1000), "bias": 1, "scale": 1, "narrow": between(0, 1)}
    )
    if draw.opcode == Opcode.VECTOR_PARAM:
        everything = at | {"bias": 1, "scale": 1}
        making.assembler.emit(Opcode.VECTOR_PARAM, **everything)
        parameters(making, **everything)
    making.assembler.emit(Opcode.VECTOR_PARAM, **at)
    for block in range(4):
        size = config.columns * (at["bias"] * (2 if at["narrow"] else 4) + 5 * at["scale"])
        parameters(making, **at | {"address": at["address"] + block * size})
    table = emit(Opcode.VECTOR_TABLE, address=between(0, 3000), entries=512)
    if table["entries"] not in (256, 512):
        making.assembler.instructions[-1].fields["entries"] = 256 << between(0, 1)
    emit(Opcode.VECTOR_OFFSETS, address=between(0, 3000), count=OFFSETS_MAX)
    uops = between(1, 4)
    for index in range(config.vector_uops):
        usual = micro_op(making, index)
        if draw.opcode == Opcode.VECTOR_UOP and index == uops - 1:
            usual = draw.fields(Opcode.VECTOR_UOP, usual)
            uops = max(uops, usual["index"] + 1)
        making.assembler.emit(Opcode.VECTOR_UOP, **usual)
        ends = sorted(between(-(1 << 31), (1 << 31) - 1) >> between(0, 31) for _ in range(2))
        bounds = {"index": index, "low": ends[0], "high": ends[1], "immediate": between(-99, 99)}
        making.assembler.emit(Opcode.VECTOR_BOUNDS, **bounds)
    if draw.opcode == Opcode.VECTOR_BOUNDS:
        emit(Opcode.VECTOR_BOUNDS, low=-(1 << 31), high=(1 << 31) - 1, immediate=between(-99, 99))
        uops = max(uops, making.assembler.instructions[-1].index + 1)
    for number in range(STORE_STREAM + 1):
        streams(making, number)
    if draw.opcode in (Opcode.VECTOR_STREAM, Opcode.VECTOR_DIMS):
        one_stream(making)
    usual = {"vectors": between(1, 12), "slots": between(1, config.vector_slots), "repeats": 1, "uops": uops}
    usual |= {
        "body_start": between(0, uops),
        "lanes": between(0, config.columns),
        "tail_lanes": config.columns,
    }
    usual["body_end"] = between(usual["body_start"], uops)
    if draw.opcode == Opcode.VECTOR_GO:
        usual |= {"uops": config.vector_uops, "body_end": config.vector_uops, "repeats": between(1, 3)}
    given = draw.fields(Opcode.VECTOR_GO, usual)
    if draw.field == "uops":
        given |= {"body_start": between(0, given["uops"]), "body_end": given["uops"]}
    making.assembler.emit(Opcode.VECTOR_GO, **given)


def streams(making: Making, number: int) -> None:
    """A stream that reads anywhere, or stores where results are."""
    config, between = making.config, making.between
    elements = [each for each in Element if each.bytes <= config.columns]
    fields = {
        "stream": number,
        "address": between(0, 4000),
        "element": elements[between(0, len(elements) - 1)],
    }
    if number == STORE_STREAM:
        fields |= {"address": RESULTS_AT + between(0, 4000)}
    else:
        fields |= {"splat": between(0, 1)}
    making.assembler.emit(Opcode.VECTOR_STREAM, **fields)
    step = 8 * config.columns
    dims = [(between(1, 4), between(-step, step)) for _ in range(between(1, STREAM_DIMS))]
    making.assembler.vector_dims(number, dims)


def one_stream(making: Making) -> None:
    """A stream or a pair of its dimensions is another one."""
    between = making.between
    number = making.draw.fields(making.draw.opcode, {"stream": between(0, STORE_STREAM)})["stream"]
    usual = {"stream": number, "address": between(0, 4000), "element": between(0, 3), "pair": between(0, 2)}
    usual |= {"count_low": between(1, 5), "count_high": between(1, 5), "stride_low": between(-40, 40)}
    usual |= {"stride_high": between(-40, 40)}
    if number == STORE_STREAM:
        usual["address"] = RESULTS_AT + between(0, 4000)
    making.emit(making.draw.opcode, **usual)


def mark(making: Making) -> None:
    """A mark, of which the host sees the layer."""
    making.emit(Opcode.VECTOR_MARK, layer=making.between(0, 99))


def packed_row(making: Making) -> Fields:
    """A packed row in external memory; where a GO finds it."""
    word = making.config.word_bytes
    weights = making.draw.rng.integers(-3, 4, making.between(1, 40) * word).astype(np.int8)
    row = pack(weights, WeightCoding.MASK, word)
    making.memory[BLOCK_AT : BLOCK_AT + len(row)] = np.frombuffer(row, np.uint8)
    return {"memory_address": BLOCK_AT, "row_bytes": len(row), "rows": 1}


def decode(making: Making) -> None:
    """A block of compressed weights that is as its instructions say."""
    draw, word, between = making.draw, making.config.word_bytes, making.between
    usual = {"tensor": between(0, 65535), "unary_length": between(0, 16), "space": between(0, 1)}
    tensor = draw.fields(Opcode.LOAD_TENSOR, usual | {"dq_coded": 1})
    sizes = draw.fields(
        Opcode.LOAD_DECODE, {"weights": between(1, 1 << between(0, 8)), "space": usual["space"]}
    )
    weights = draw.rng.integers(-7, 8, sizes["weights"])
    settings = {"qp": -3, "qp_bits": tensor["header_bins"]} if tensor["header_bins"] else {}
    if tensor["dq_coded"]:
        payload = levels.encode(weights, tensor["unary_length"], **settings)
    else:
        payload = levels.encode_behind(
            weights.astype(np.int64), tensor["unary_length"], bool(tensor["dq"]), []
        )
    block = payload + bytes(-len(payload) % word)
    sizes |= {"row_bytes": len(block)}
    if draw.field == "memory_address":
        sizes["memory_address"] %= 1 << 12
    else:
        sizes["memory_address"] = BLOCK_AT
    if draw.field != "local_address":
        sizes["local_address"] = between(0, 40) * word
    making.memory[sizes["memory_address"] :][: len(block)] = np.frombuffer(block, np.uint8)
    making.assembler.emit(Opcode.LOAD_TENSOR, **tensor)
    length = 0 if (draw.field, draw.wanted) == ("length_0", "0") else len(payload)
    emit_fields(making.assembler, {"length_0": length}, Opcode.LOAD_STREAMS)
    making.assembler.emit(Opcode.LOAD_DECODE, **sizes)


_BY_UNIT = {Unit.LOAD: transfer, Unit.STORE: transfer, Unit.ARRAY: dense, Unit.VECTOR: vector}
MAKERS: dict[Opcode, Callable[[Making], None]] = {
    **{opcode: _BY_UNIT[opcode.unit] for opcode in Opcode if opcode.unit != Unit.SEQUENCER},
    **{opcode: tokens for opcode in Opcode if opcode.name.endswith(("_WAIT", "_SIGNAL"))},
    **dict.fromkeys((Opcode.LOAD_TENSOR, Opcode.LOAD_STREAMS, Opcode.LOAD_DECODE), decode),
    **dict.fromkeys((Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_DEPTHWISE_GO), depthwise),
    **dict.fromkeys((Opcode.NOP, Opcode.BRANCH, Opcode.END, Opcode.VECTOR_TEST), sequencer),
    Opcode.BEGIN: begin,
    Opcode.LOAD_CHECK: checked,
    Opcode.VECTOR_MARK: mark,
}


Row = tuple[Opcode, str, str]
"""An instruction, one of its fields, and a class of the field's values; "" where there is none."""


def rows(config: Config) -> Iterator[Row]:
    """Each class of each field of the instructions that a machine has."""
    for opcode, fields in FIELDS.items():
        used = used_bits(opcode, config.core_mask_bits, config.load_crc) - 16
        decodes = opcode in (Opcode.LOAD_TENSOR, Opcode.LOAD_STREAMS, Opcode.LOAD_DECODE)
        if used < 0 or (decodes and not config.cabac_engines):
            continue
        if not fields:
            yield opcode, "", ""
        for field in fields:
            used -= field.bits
            if used < 0:
                break
            if opcode == Opcode.BEGIN:
                yield from ((opcode, field.name, wanted) for wanted in ("right", "wrong"))
            else:
                yield from ((opcode, field.name, wanted) for wanted in legal_classes(opcode, field, config))


ILLEGAL = {
    *((Opcode.ARRAY_KERNEL, name, "0") for name in ("ky_count", "run_count", "chunks")),
    *((Opcode.ARRAY_DEPTHWISE, name, "0") for name in ("line", "x_stride", "y_stride")),
    (Opcode.ARRAY_WINDOW, "width", "0"),
    *((Opcode.LOAD_CHECK, "crc", wanted) for wanted in ("1", "few")),
    (Opcode.LOAD_STREAMS, "length_0", "0"),
    *((Opcode.BEGIN, name, "wrong") for name in ("isa_hash", "config_hash")),
}
"""Rows whose programs end with an error: a GO finds what was set up wrong, or a CRC or BEGIN's hash is."""


def is_there(making: Making, row: Row) -> bool:
    """Whether the program has an instruction that is in the row."""
    opcode, name, wanted = row
    if opcode == Opcode.BEGIN or not name:
        return True
    (field,) = (each for each in FIELDS[opcode] if each.name == name)
    return any(
        each.opcode == opcode and class_of(field, each.fields[name]) == wanted
        for each in making.assembler.instructions
    )


def program_of(config: Config, row: Row, seed: int) -> Stimulus | None:
    """A program of the row, None where the numbers that were drawn make none."""
    opcode, field, wanted = row
    rng = np.random.default_rng((seed, *map(ord, f"{opcode.name}{field}{wanted}")))
    memory = rng.integers(0, 256, MEMORY_BYTES).astype(np.uint8)
    memory[BLOCK_AT - 64 : BLOCK_AT] |= 1
    making = Making(Assembler(config), Draw(rng, opcode, field or None, wanted or None), memory)
    load_all(making)
    MAKERS[opcode](making)
    if not is_there(making, row):
        return None
    if opcode != Opcode.END:
        store_all(making)
    return Stimulus(memory, PROGRAM_AT, making.assembler.place(memory, PROGRAM_AT))
