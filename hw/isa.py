"""The instruction set: the one definition that encoder, decoder, hardware, emulator and docs derive from.

An instruction is 128 bits, little endian: bits 7:0 the opcode, bits 15:8 the check byte (`check_byte`), and from bit 16
on the fields of the opcode in the order listed here. Bits beyond the last field are zero.

The high nibble of an opcode is the unit that executes it. The sequencer hands instructions to the units' queues in
program order; units run decoupled and order themselves by WAIT and SIGNAL on counting semaphores.
"""

import dataclasses
import enum
import functools
import hashlib
import typing
from collections.abc import Mapping

from .check_byte import CHECK_POLYNOMIAL, CHECK_XOR, check_byte
from .isa_values import Condition as Condition
from .isa_values import Element as Element
from .isa_values import Op as Op
from .isa_values import Source as Source
from .isa_values import Space as Space

INSTRUCTION_BYTES = 16
PAYLOAD_BITS = 112
MEANING = 2
"""Raised when instructions mean something else than before and no field shows it: it is part of ISA_HASH."""


class Unit(enum.IntEnum):
    """Who executes an instruction: the opcode's high nibble."""

    SEQUENCER = 0
    LOAD = 1
    ARRAY = 2
    VECTOR = 3
    STORE = 4

    # Enum's own hash is that of the name, by a function in Python.
    __hash__ = int.__hash__


class Opcode(enum.IntEnum):
    BEGIN = 0x01
    END = 0x02
    NOP = 0x03
    BRANCH = 0x04

    LOAD_WAIT = 0x10
    LOAD_SIGNAL = 0x11
    LOAD_PITCH = 0x12
    LOAD_GO = 0x13
    LOAD_TENSOR = 0x14
    LOAD_STREAMS = 0x15
    LOAD_DECODE = 0x16
    LOAD_CHECK = 0x17

    ARRAY_WAIT = 0x20
    ARRAY_SIGNAL = 0x21
    ARRAY_INPUT = 0x22
    ARRAY_WINDOW = 0x23
    ARRAY_KERNEL = 0x24
    ARRAY_DEPTHWISE = 0x25
    ARRAY_GO = 0x26
    ARRAY_DEPTHWISE_GO = 0x27

    VECTOR_WAIT = 0x30
    VECTOR_SIGNAL = 0x31
    VECTOR_UOP = 0x32
    VECTOR_BOUNDS = 0x33
    VECTOR_STREAM = 0x34
    VECTOR_DIMS = 0x35
    VECTOR_PARAM = 0x36
    VECTOR_TABLE = 0x37
    VECTOR_GO = 0x38
    VECTOR_MARK = 0x39
    VECTOR_OFFSETS = 0x3A
    VECTOR_TEST = 0x3B

    STORE_WAIT = 0x40
    STORE_SIGNAL = 0x41
    STORE_PITCH = 0x42
    STORE_GO = 0x43

    unit: Unit
    __hash__ = int.__hash__

    def __init__(self, value: int) -> None:
        self.unit = Unit(value >> 4)


STORE_STREAM = 3
"""Index of the store stream; 0..2 are load streams."""
STREAM_DIMS = 6
OFFSETS_MAX = 512
"""Offsets that the vector unit holds for its indexed stream."""


class Field(typing.NamedTuple):
    name: str
    bits: int
    signed: bool
    doc: str
    optional: bool = False
    """`make` fills in 0."""


def _flag(name: str, doc: str) -> Field:
    return Field(name, 1, False, doc, True)


def _u(name: str, bits: int, doc: str) -> Field:
    return Field(name, bits, False, doc)


def _s(name: str, bits: int, doc: str) -> Field:
    return Field(name, bits, True, doc)


CORES_FIELD = "cores"
"""Name of a SIGNAL's last field. It uses one bit for each core."""
CHECKED_FIELD = "checked"
"""Name of LOAD_GO's last field, which a machine without `load_crc` does not have."""

_WAIT = (
    _u("semaphore", 4, "which counter"),
    _u("count", 8, "the unit's queue stops until the counter is at least this, then subtracts it"),
)
_SIGNAL = (
    _u("semaphore", 4, "which counter"),
    _u(
        "count",
        8,
        "added when everything before it in this unit's queue is complete (memory written, reads done)",
    ),
    Field(
        CORES_FIELD,
        4,
        False,
        "bit i: core i's counter of that number gets them; 0: this core's own. 0 where there is one core",
        True,
    ),
)
_PITCH = (
    _u("memory_pitch", 32, "bytes from row to row in external memory"),
    _u("local_pitch", 24, "bytes from row to row in on-chip memory"),
)

FIELDS: dict[Opcode, tuple[Field, ...]] = {
    Opcode.BEGIN: (
        _u("isa_hash", 32, "must equal ISA_HASH, else error ISA_MISMATCH"),
        _u("config_hash", 32, "must equal the configuration's hash, else error CONFIG_MISMATCH"),
    ),
    Opcode.END: (),
    Opcode.NOP: (),
    Opcode.BRANCH: (
        _u(
            "target",
            32,
            "byte offset in the program of the instruction to go on at; a multiple of 16, inside it",
        ),
        _u("condition", 2, "Condition; before it is looked at, all queues are empty and all units idle"),
    ),
    Opcode.LOAD_WAIT: _WAIT,
    Opcode.LOAD_SIGNAL: _SIGNAL,
    Opcode.LOAD_PITCH: _PITCH,
    Opcode.LOAD_GO: (
        _u("memory_address", 32, "byte offset from MEM_BASE; for WM a multiple of W"),
        _u("space", 1, "0 = AM, 1 = WM"),
        _u("local_address", 24, "byte address; for WM a multiple of W"),
        _u("row_bytes", 24, "bytes per row, at least 1; for WM a multiple of W"),
        _u("rows", 16, "rows, at least 1; the pitches hold from LOAD_PITCH"),
        _flag("streamed", "WM only: an ARRAY_GO that is `streamed` waits for each of these words"),
        _flag("packed", "WM only: each row is packed weights, which are unpacked; needs an unpacker"),
        _flag(CHECKED_FIELD, "the CRC of LOAD_CHECK covers these rows; needs `load_crc`"),
    ),
    Opcode.LOAD_TENSOR: (
        _u("tensor", 16, "number that DECODE_ERROR shows when a stream of it is damaged"),
        _u("unary_length", 5, "cabac_unary_length, at most 16"),
        _u("header_bins", 4, "bypass bins in front of dq_flag that are dropped: qp of NNR_PT_FLOAT32"),
        _u("dq_coded", 1, "the streams have a dq_flag; else `dq` holds"),
        _u("dq", 1, "dependent quantization, where the streams do not say"),
        _u("int4", 1, "weights are -8..7, else -128..127; a level outside is an error"),
        _u("log2_streams", 2, "1, 2 or 4 streams side by side, at most cabac_engines"),
    ),
    Opcode.LOAD_STREAMS: (
        _u("length_0", 24, "bytes of stream 0"),
        _u("length_1", 24, "of stream 1, if there is one"),
        _u("length_2", 24, "of stream 2"),
        _u("length_3", 24, "of stream 3"),
    ),
    Opcode.LOAD_DECODE: (
        _u("memory_address", 32, "byte offset from MEM_BASE of the block of NNR streams; a multiple of W"),
        _u("space", 1, "0 = AM, 1 = WM"),
        _u("local_address", 24, "byte address of the first word of weights; a multiple of W"),
        _u("row_bytes", 24, "bytes of the block: whole words, as LOAD_TENSOR and LOAD_STREAMS say"),
        _u("weights", 24, "to decode, at least 1; the last word written is filled up with zeros"),
    ),
    Opcode.LOAD_CHECK: (
        _u("crc", 32, "of the `checked` rows since the last LOAD_CHECK or the start; else error DATA"),
    ),
    Opcode.ARRAY_WAIT: _WAIT,
    Opcode.ARRAY_SIGNAL: _SIGNAL,
    Opcode.ARRAY_INPUT: (
        _s(
            "address",
            25,
            "AM byte address of (iy, xb) = (y_start, x_start); may be outside the image when these are",
        ),
        _u("row_bytes", 24, "bytes of an image row; byte xb of a row is inside when 0 <= xb < row_bytes"),
        _u("height", 16, "image rows; row iy is inside when 0 <= iy < height"),
        _s("input_zp", 9, "subtracted from every inside byte; outside bytes count as zero after it"),
        _s("weight_zp", 9, "subtracted from every weight"),
        _u("unsigned_input", 1, "bytes are uint8 (the low plane of int16)"),
    ),
    Opcode.ARRAY_WINDOW: (
        _s("x_start", 24, "xb of the first pixel"),
        _s("x_step", 20, "bytes from pixel to pixel"),
        _s("y_start", 16, "iy of the first pixel row"),
        _u("y_step", 12, "image rows from pixel row to pixel row"),
        _s("y_step_bytes", 24, "address step that goes with y_step"),
        _u("width", 16, "pixels per pixel row"),
    ),
    Opcode.ARRAY_KERNEL: (
        _u("ky_count", 13, "kernel rows"),
        _u("ky_step", 13, "image rows from kernel row to kernel row"),
        _s("ky_step_bytes", 24, "address step that goes with ky_step"),
        _u("run_count", 13, "runs of contiguous bytes per kernel row"),
        _s("run_step", 24, "bytes from run to run"),
        _u("chunks", 16, "words of W bytes per run"),
    ),
    Opcode.ARRAY_DEPTHWISE: (
        _u("delay", 12, "vectors between the delay line's groups, at least 2, at most line_pixels"),
        _u(
            "skip",
            24,
            "advances before the sum of output position 0 enters row 0; it leaves rows - 1 advances later",
        ),
        _u("line", 16, "advances per output line"),
        _u("out_width", 16, "outputs per line"),
        _u("out_height", 16, "lines with outputs"),
        _u("x_stride", 6, "advances from output to output"),
        _u("y_stride", 6, "lines from output line to output line"),
        _u(
            "paired",
            1,
            "an advance takes two image rows: iy and iy + 1, whose address is y_step_bytes / 2 further",
        ),
    ),
    Opcode.ARRAY_GO: (
        _u("weights", 20, "WM word of the first weights; a tile reads ky_count*run_count*chunks*W words"),
        _u("pixels", 24, "output pixels; ceil(pixels / rows) tiles"),
        _u("accumulate", 1, "continue from the accumulators (one tile only)"),
        _u("drain", 1, "send the accumulators to the vector unit"),
        Field(
            "more_blocks",
            16,
            False,
            "times that the pixels (one tile, drained, not accumulated) come again, with the weights that follow",
            True,
        ),
        _flag(
            "streamed",
            "each weight word, when it is read first, waits for its `streamed` load; in their order",
        ),
    ),
    Opcode.ARRAY_DEPTHWISE_GO: (
        _u("weights", 20, "WM word of the taps; a word for each row that is not idle, the last one's first"),
        _u("advances", 24, "steps of the chain; one input vector each"),
        _u("group_rows", 6, "rows per delay group: row r uses group min(r // group_rows, line_groups - 1)"),
        _u("accumulate", 1, "output n begins with partial sum n, else with 0"),
        _u("drain", 1, "send the outputs to the vector unit, else output n becomes partial sum n"),
        Field(
            "idle_rows",
            6,
            False,
            "last rows, which have no tap; 0 with `accumulate` or without `drain`",
            True,
        ),
    ),
    Opcode.VECTOR_WAIT: _WAIT,
    Opcode.VECTOR_SIGNAL: _SIGNAL,
    Opcode.VECTOR_UOP: (
        _u("index", 4, "place in the micro-program"),
        _u("op", 5, "Op"),
        _u("a_source", 3, "Source"),
        _u("a_index", 3, "register or load stream"),
        _u("b_source", 3, "Source"),
        _u("b_index", 3, "register or load stream"),
        _u("to_memory", 1, "1: the result goes to the store stream, 0: to register `destination`"),
        _u("destination", 3, "register"),
        _u("bias", 1, "add the lane's bias to A"),
        _u("per_channel", 1, "RESCALE by the lane's multiplier and shift"),
        _u("round", 1, "RESCALE: double rounding; ASR: rounding"),
        _u("clamp", 1, "clamp the result to `low`..`high` (VECTOR_BOUNDS)"),
        _u("wrap32", 1, "sign-extend the result from 32 bits (after the clamp)"),
        _u("shift", 6, "MUL, RESCALE"),
        _s("a_zp", 18, "subtracted from A"),
        _s("out_zp", 18, "added to the result before the clamp"),
        _s("multiplier", 32, "RESCALE"),
    ),
    Opcode.VECTOR_BOUNDS: (
        _u("index", 4, "micro-op these belong to"),
        _s("low", 32, "clamp"),
        _s("high", 32, "clamp"),
        _s("immediate", 32, "operand of Source.IMMEDIATE"),
    ),
    Opcode.VECTOR_STREAM: (
        _u("stream", 2, "0..2 load, 3 store"),
        _u("address", 24, "AM byte address of the first vector"),
        _u("element", 3, "Element"),
        _u("splat", 1, "load: element 0 goes to every lane"),
        _u(
            "indexed",
            1,
            "offset number index_1 of VECTOR_OFFSETS is added to the address; one stream at most",
        ),
    ),
    Opcode.VECTOR_DIMS: (
        _u("stream", 2, "0..2 load, 3 store"),
        _u("pair", 2, "0: dims 0 and 1, 1: dims 2 and 3, 2: dims 4 and 5; dim 0 turns fastest"),
        _u("count_low", 16, "turns of the pair's faster dimension, at least 1"),
        _s("stride_low", 24, "bytes"),
        _u("count_high", 16, "turns of the pair's slower dimension, at least 1"),
        _s("stride_high", 24, "bytes"),
    ),
    Opcode.VECTOR_PARAM: (
        _u(
            "address",
            24,
            "AM byte address: W int32 biases (`bias`), W int32 multipliers, W uint8 shifts (`scale`)",
        ),
        _u("bias", 1, "load biases"),
        _u("scale", 1, "load multipliers and shifts"),
        _flag("narrow", "the biases are int16"),
    ),
    Opcode.VECTOR_TABLE: (
        _u(
            "address",
            24,
            "AM byte address of 32-bit entries (low half: value, high half: the next entry's value)",
        ),
        _u("entries", 10, "256 or 512"),
    ),
    Opcode.VECTOR_GO: (
        _u("vectors", 24, "vectors in all; batches of `slots`, the last one may be shorter"),
        _u("slots", 5, "vectors per batch, 1..vector_slots"),
        _u("repeats", 16, "times the body runs per batch, at least 1"),
        _u("body_start", 5, "micro-ops before it run once at the start of a batch"),
        _u("body_end", 5, "micro-ops from it on run once at the end of a batch"),
        _u("uops", 5, "micro-ops in all, 1..vector_uops"),
        _u(
            "lanes", 6, "lanes that have beats and are stored; 0 (none stored) and more than W: beats for all"
        ),
        _u(
            "tail_lanes",
            6,
            "lanes stored, of those with beats, when the store stream's dim 0 is at its last turn",
        ),
        _flag(
            "next_params",
            "every batch but the first begins with a VECTOR_PARAM of what follows the last one's",
        ),
    ),
    Opcode.VECTOR_MARK: (
        _u("layer", 16, "records the cycle counter under this number when all before it is complete"),
    ),
    Opcode.VECTOR_OFFSETS: (
        _u("address", 24, "AM byte address of int32 byte offsets"),
        _u("count", 10, "1..512; a GO whose indexed stream has more turns in dimension 1 is ILLEGAL"),
    ),
    Opcode.VECTOR_TEST: (
        _u("address", 24, "AM byte address; sets the flag of BRANCH to: this byte is not 0"),
    ),
    Opcode.STORE_WAIT: _WAIT,
    Opcode.STORE_SIGNAL: _SIGNAL,
    Opcode.STORE_PITCH: _PITCH,
    Opcode.STORE_GO: (
        _u("memory_address", 32, "byte offset from MEM_BASE"),
        _u("local_address", 24, "AM byte address"),
        _u("row_bytes", 24, "bytes per row, at least 1"),
        _u("rows", 16, "rows, at least 1; the pitches hold from STORE_PITCH"),
    ),
}


class Error(enum.IntEnum):
    """Codes of the ERROR register."""

    NONE = 0
    ILLEGAL = 1  # check byte, opcode or a field is wrong, or a GO uses what the program has not set up
    ISA_MISMATCH = 2
    CONFIG_MISMATCH = 3
    PROGRAM_END = 4  # the program ran past its last byte without END
    BUS_READ = 5  # a read came back with an error
    BUS_WRITE = 6
    MEMORY_RANGE = 7  # a transfer leaves the memory window
    WATCHDOG = 8  # nothing moved for the watchdog's time
    DECODE = 9  # a stream of compressed weights is damaged: DECODE_ERROR, DECODE_POSITION
    DATA = 10  # what a unit read has changed in its memory: a parity or the CRC of LOAD_CHECK is wrong


class CoreProgram(typing.NamedTuple):
    """Where a core's program lies: byte offset from MEM_BASE, and length. No bytes: the core has none."""

    address: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Instruction:
    """A decoded instruction."""

    opcode: Opcode
    fields: dict[str, int]

    def __post_init__(self) -> None:
        # Each field is an attribute of its own: the emulator asks for millions of them.
        self.__dict__.update(self.fields)

    def __getattr__(self, name: str) -> int:
        opcode = vars(self).get("opcode")
        raise AttributeError(f"{opcode.name if opcode else 'an instruction'} has no field {name}")

    def __deepcopy__(self, memo: object) -> "Instruction":
        return self  # Nobody changes an instruction.

    def __str__(self) -> str:
        return " ".join([self.opcode.name, *(f"{k}={v}" for k, v in self.fields.items())])


class FieldRangeError(ValueError):
    """A value does not fit its field."""


class IllegalInstruction(ValueError):
    """The bytes are not an instruction."""


def make(opcode: Opcode, **values: int) -> Instruction:
    """An instruction with every field given; ValueError when one is missing or unknown, FieldRangeError when one is out
    of range."""
    given, checked = len(values), {}
    for name, optional, low, high in _bounds(opcode):
        if name not in values:
            if not optional:
                _refuse_unknown(opcode, values)
                raise ValueError(f"{opcode.name} needs the field {name}")
            given += 1
        value = int(values.get(name, 0))
        if not low <= value <= high:
            _refuse_unknown(opcode, values)
            raise FieldRangeError(f"{opcode.name}.{name} must be in {low}..{high}, not {value}")
        checked[name] = value
    if given != len(checked):
        _refuse_unknown(opcode, values)
    return Instruction(opcode, checked)


@functools.cache
def _bounds(opcode: Opcode) -> list[tuple[str, bool, int, int]]:
    """Name, whether it may be left out, least and largest value of each field."""
    return [
        (each.name, each.optional, -(1 << (each.bits - 1)), (1 << (each.bits - 1)) - 1)
        if each.signed
        else (each.name, each.optional, 0, (1 << each.bits) - 1)
        for each in FIELDS[opcode]
    ]


def _refuse_unknown(opcode: Opcode, values: Mapping[str, int]) -> None:
    unknown = values.keys() - {field.name for field in FIELDS[opcode]}
    if unknown:
        raise ValueError(f"{opcode.name} has no field {', '.join(sorted(unknown))}")


def encode(instruction: Instruction) -> bytes:
    """The instruction's 16 bytes."""
    word, fields = int(instruction.opcode), instruction.fields
    for name, mask, position in _positions(instruction.opcode):
        word |= (fields[name] & mask) << position
    return (word | check_byte(word.to_bytes(INSTRUCTION_BYTES, "little")) << 8).to_bytes(
        INSTRUCTION_BYTES, "little"
    )


@functools.cache
def _positions(opcode: Opcode) -> list[tuple[str, int, int]]:
    """Name, mask and first bit of each field."""
    found, position = [], 16
    for field in FIELDS[opcode]:
        found.append((field.name, (1 << field.bits) - 1, position))
        position += field.bits
    return found


def decode(raw: bytes) -> Instruction:
    """The instruction that 16 bytes encode; IllegalInstruction on a wrong check byte, opcode or non-zero padding."""
    if len(raw) != INSTRUCTION_BYTES:
        raise IllegalInstruction(f"an instruction has {INSTRUCTION_BYTES} bytes, not {len(raw)}")
    if raw[1] != check_byte(raw):
        raise IllegalInstruction(f"check byte is wrong in {raw.hex()}")
    try:
        opcode = Opcode(raw[0])
    except ValueError:
        raise IllegalInstruction(f"no opcode 0x{raw[0]:02x}") from None
    word, fields = int.from_bytes(raw, "little") >> 16, {}
    for field in FIELDS[opcode]:
        value = word & ((1 << field.bits) - 1)
        if field.signed and value >> (field.bits - 1):
            value -= 1 << field.bits
        fields[field.name] = value
        word >>= field.bits
    if word:
        raise IllegalInstruction(f"{opcode.name} has bits set beyond its fields in {raw.hex()}")
    return Instruction(opcode, fields)


def width(opcode: Opcode, name: str) -> int:
    """Bits of a field: what a port or register that carries it takes its width from. KeyError when there is none."""
    for field in FIELDS[opcode]:
        if field.name == name:
            return field.bits
    raise KeyError(f"{opcode.name} has no field {name}")


def used_bits(opcode: Opcode, core_mask_bits: int, load_crc: int = 0) -> int:
    """Bits of an instruction that may be set, from bit 0 on, in a machine with `core_mask_bits` and `load_crc`
    (hw.config); 0 where it has no such instruction."""
    if opcode is Opcode.LOAD_CHECK and not load_crc:
        return 0
    fields = FIELDS[opcode]
    there = {CORES_FIELD: core_mask_bits, CHECKED_FIELD: load_crc}
    bits = sum(there.get(field.name, field.bits) for field in fields)
    return 8 * INSTRUCTION_BYTES - PAYLOAD_BITS + bits


def largest(opcode: Opcode, name: str) -> int:
    """The largest value that a field holds. KeyError when there is no such field."""
    signed = next((field.signed for field in FIELDS[opcode] if field.name == name), False)
    return (1 << (width(opcode, name) - signed)) - 1


def layout(opcode: Opcode) -> typing.Any:
    """The Amaranth layout of a whole 128-bit instruction with this opcode."""
    from amaranth.hdl import signed, unsigned
    from amaranth.lib import data

    members: dict[str, typing.Any] = {"opcode": unsigned(8), "check": unsigned(8)}
    used = 0
    for field in FIELDS[opcode]:
        members[field.name] = signed(field.bits) if field.signed else unsigned(field.bits)
        used += field.bits
    if used < PAYLOAD_BITS:
        members["padding"] = unsigned(PAYLOAD_BITS - used)
    return data.StructLayout(members)


def _describe() -> str:
    lines = [f"{INSTRUCTION_BYTES} {CHECK_POLYNOMIAL} {CHECK_XOR} {MEANING}"]
    for opcode, fields in FIELDS.items():
        lines.append(
            f"{opcode.name} {int(opcode)} " + " ".join(f"{f.name}:{f.bits}:{f.signed}" for f in fields)
        )
    for kind in (Unit, Space, Condition, Op, Source, Element):
        lines.append(kind.__name__ + " " + " ".join(f"{m.name}={int(m)}" for m in kind))
    return "\n".join(lines)


ISA_HASH = int.from_bytes(hashlib.sha256(_describe().encode()).digest()[:4], "little")
"""32 bits that change with the instruction set; in a CSR and in every program."""

for _opcode, _fields in FIELDS.items():
    if sum(f.bits for f in _fields) > PAYLOAD_BITS:
        raise AssertionError(
            f"{_opcode.name} is {sum(f.bits for f in _fields)} bits, more than {PAYLOAD_BITS}"
        )
