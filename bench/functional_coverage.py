"""The written coverage model: what the programs of a measurement make the machine do, beside which lines they reach.

Bins are
- every field of every instruction by class of value (0, 1, 2 to 15, many, negative), or by value where it is narrow;
- every operation of VECTOR by where its operands come from, by the types that it loads and stores, and by its flags;
- every kind of GO of the array;
- every reason for which a unit waits (the counters of docs/registers.md), on a quiet bus and on one that stalls;
- every error by the unit that is at fault.

Of programs that end without an error all instructions count, of others only the error.
"""

import collections
import itertools
import pathlib
import re
import tomllib
from collections.abc import Iterator

from rtl_stimulus import Case, Seen

from tosaic.hw.config import Config
from tosaic.hw.csr_map import COUNTERS, REGISTER
from tosaic.hw.isa import (
    FIELDS,
    INSTRUCTION_BYTES,
    STORE_STREAM,
    STREAM_DIMS,
    Element,
    Error,
    Field,
    IllegalInstruction,
    Instruction,
    Op,
    Opcode,
    Source,
    Unit,
    decode,
)

HOLES = pathlib.Path(__file__).with_name("functional_coverage_holes.toml")
Bin = tuple[str, str, str]
"""Part of the model, unit, and what was done."""
FIELD, OPERATION, GO, WAITED, FAULT = "fields", "operations", "kinds of GO", "reasons to wait", "errors"
NARROW_BITS = 2
"""Fields of up to this number of bits have a bin for each value."""
FLAGS = ("bias", "per_channel", "round", "clamp", "wrap32", "to_memory")
GO_FLAGS = ("accumulate", "drain", "streamed")
NO_REASON = {"ARRAY_BUSY", "VECTOR_BUSY", "LOAD_BUSY", "STORE_BUSY"}
FAULTS: dict[Error, tuple[Unit, ...]] = {
    Error.MEMORY_RANGE: (Unit.LOAD, Unit.STORE),
    Error.BUS_READ: (Unit.SEQUENCER, Unit.LOAD),
    Error.BUS_WRITE: (Unit.STORE,),
    Error.ILLEGAL: tuple(Unit),
    Error.PROGRAM_END: (Unit.SEQUENCER,),
    Error.ISA_MISMATCH: (Unit.SEQUENCER,),
    Error.CONFIG_MISMATCH: (Unit.SEQUENCER,),
    Error.WATCHDOG: (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE),
}


NOT_ZERO = {
    "VECTOR_GO": ("vectors", "slots", "repeats", "uops"),
    "VECTOR_OFFSETS": ("count",),
    "ARRAY_GO": ("pixels",),
    "ARRAY_DEPTHWISE_GO": ("group_rows", "advances"),
}
WHOLE_WORDS = ("memory_address", "local_address", "row_bytes")
"""Fields of LOAD_DECODE that are multiples of W."""
AT_LEAST_ONE = "at least 1"
"""Text in the description of fields that must not be 0."""


def classes(field: Field) -> list[str]:
    """The classes of a field's values."""
    if field.bits <= NARROW_BITS:
        return [str(value) for value in range(1 << field.bits)]
    many = ["many"] if field.bits > 4 + field.signed else []
    return [*(["negative"] if field.signed else []), "0", "1", "few", *many]


def legal_classes(opcode: Opcode, field: Field, config: Config) -> list[str]:
    """Returns the classes whose values are not all errors of their own."""
    found = classes(field)
    if AT_LEAST_ONE in field.doc or field.name in NOT_ZERO.get(opcode.name, ()):
        found.remove("0")
    if opcode == Opcode.LOAD_DECODE and field.name in WHOLE_WORDS:
        found.remove("1")
    if (opcode, field.name) == (Opcode.LOAD_DECODE, "row_bytes"):
        found.remove("0")
    if (opcode, field.name) == (Opcode.LOAD_STREAMS, "length_0"):  # ivlOffset alone has 9 bits
        found.remove("1")
    if (opcode, field.name) == (Opcode.VECTOR_TABLE, "entries"):
        return ["many"]
    if field.name == "delay":  # at least 2
        found = [each for each in found if each not in "01"]
    if (opcode, field.name) == (Opcode.BRANCH, "target"):  # a multiple of an instruction's size
        found = ["0", "many"]
    if field.name in ("log2_streams", "length_1", "length_2", "length_3") and config.cabac_engines == 1:
        found = ["0"]
    if (opcode, field.name) == (Opcode.VECTOR_DIMS, "pair"):
        return found[: STREAM_DIMS // 2]
    if opcode == Opcode.ARRAY_DEPTHWISE_GO and not config.partial_sums:
        only = {"accumulate": "0", "drain": "1"}
        found = [only.get(field.name, each) for each in found]
    sizes = {
        "index": config.vector_uops,
        "body_start": config.vector_uops + 1,
        "body_end": config.vector_uops + 1,
        "uops": config.vector_uops + 1,
        "slots": config.vector_slots + 1,
        "packed": bool(config.unpackers) + 1,
        "idle_rows": config.rows,
        "delay": config.line_pixels + 1,
    }
    size = sizes.get(field.name, 1 << 62)
    least = {"0": 0, "1": 1, "few": 2, "many": 16}
    return [each for each in found if least.get(each, -1) < size]


def class_of(field: Field, value: int) -> str:
    """That of one value."""
    if field.bits <= NARROW_BITS or value in (0, 1):
        return str(value)
    return "negative" if value < 0 else "few" if value < 16 else "many"


class FunctionalCoverage:
    """How often each bin was hit."""

    def __init__(self, config: Config):
        self._config = config
        self.hits = collections.Counter[Bin]()
        self.bins = list(dict.fromkeys(self._all()))

    def _elements(self) -> list[Element]:
        return [element for element in Element if element.bytes <= self._config.columns]

    def _all(self) -> Iterator[Bin]:
        decoder = {Opcode.LOAD_TENSOR, Opcode.LOAD_STREAMS, Opcode.LOAD_DECODE}
        for opcode, fields in FIELDS.items():
            if opcode in decoder and not self._config.cabac_engines:
                continue
            for field in fields:
                if field.name not in ("isa_hash", "config_hash", "cores"):
                    for each in legal_classes(opcode, field, self._config):
                        yield FIELD, opcode.unit.name, f"{opcode.name}.{field.name} is {each}"
        for op in Op:
            for source in Source:
                yield OPERATION, "VECTOR", f"{op.name} of A from {source.name}"
                if source is not Source.ARRAY:
                    yield OPERATION, "VECTOR", f"{op.name} of B from {source.name}"
            for element in self._elements():
                yield OPERATION, "VECTOR", f"{op.name} loads {element.name}"
                yield OPERATION, "VECTOR", f"{op.name} stores {element.name}"
            for flag in FLAGS:
                for value in (0, 1):
                    yield OPERATION, "VECTOR", f"{op.name} with {flag} {value}"
        for values in itertools.product((0, 1), repeat=len(GO_FLAGS)):
            yield GO, "ARRAY", _flags("ARRAY_GO", dict(zip(GO_FLAGS, values, strict=True)))
        for values in itertools.product((0, 1), repeat=2) if self._config.partial_sums else [(0, 1)]:
            yield GO, "ARRAY", _flags("ARRAY_DEPTHWISE_GO", dict(zip(GO_FLAGS, values, strict=False)))
        for name, _ in COUNTERS:
            if name not in NO_REASON and not (name.startswith("DECODE") and not self._config.cabac_engines):
                unit, _, _ = name.partition("_")
                for bus in ("a quiet", "a stalling"):
                    yield WAITED, unit, f"{name} on {bus} bus"
        for error, units in FAULTS.items():
            for unit in units:
                yield FAULT, unit.name, error.name

    def observe(self, case: Case, seen: Seen) -> None:
        """Count what a program did."""
        registers = dict(seen.registers)
        bus = "a stalling" if case.conditions.stall_percent else "a quiet"
        for name, _ in COUNTERS:
            if registers.get(name):
                self.hits[WAITED, name.partition("_")[0], f"{name} on {bus} bus"] += 1
        value = registers.get("ERROR", 0)
        code, unit = (REGISTER["ERROR"].field(name).extract(value) for name in ("code", "unit"))
        if code:
            self.hits[FAULT, Unit(unit).name, Error(code).name] += 1
        elif registers:
            self._count_program(case)

    def _count_program(self, case: Case) -> None:
        program = case.program
        code = program.memory[program.program_address :][: program.program_bytes].tobytes()
        elements = [Element.INT8] * (STORE_STREAM + 1)
        uops: dict[int, Instruction] = {}
        for offset in range(0, len(code), INSTRUCTION_BYTES):
            try:
                instruction = decode(code[offset : offset + INSTRUCTION_BYTES])
            except IllegalInstruction:  # Behind a branch.
                continue
            opcode, fields = instruction.opcode, instruction.fields
            for field in FIELDS[opcode]:
                text = f"{opcode.name}.{field.name} is {class_of(field, fields[field.name])}"
                self.hits[FIELD, opcode.unit.name, text] += 1
            if opcode == Opcode.VECTOR_STREAM:
                elements[instruction.stream] = Element(instruction.element)
            elif opcode == Opcode.VECTOR_UOP:
                uops[instruction.index] = instruction
            elif opcode == Opcode.VECTOR_GO:
                for index in range(instruction.uops):
                    self._count_uop(uops[index], elements)
            elif opcode == Opcode.ARRAY_GO:
                self.hits[GO, "ARRAY", _flags(opcode.name, {name: fields[name] for name in GO_FLAGS})] += 1
            elif opcode == Opcode.ARRAY_DEPTHWISE_GO:
                flags = {name: fields[name] for name in GO_FLAGS[:2]}
                self.hits[GO, "ARRAY", _flags(opcode.name, flags)] += 1

    def _count_uop(self, uop: Instruction, elements: list[Element]) -> None:
        name = Op(uop.op).name
        for side in "AB":
            source, index = Source(uop.fields[f"{side.lower()}_source"]), uop.fields[f"{side.lower()}_index"]
            self.hits[OPERATION, "VECTOR", f"{name} of {side} from {source.name}"] += 1
            if source is Source.LOAD:
                self.hits[OPERATION, "VECTOR", f"{name} loads {elements[index].name}"] += 1
        if uop.to_memory:
            self.hits[OPERATION, "VECTOR", f"{name} stores {elements[STORE_STREAM].name}"] += 1
        for flag in FLAGS:
            self.hits[OPERATION, "VECTOR", f"{name} with {flag} {uop.fields[flag]}"] += 1

    def missing(self) -> list[tuple[str, str]]:
        """Bins that were not hit, in words, each with its reason or an empty text."""
        holes = tomllib.loads(HOLES.read_text())["hole"]
        own = [hole for hole in holes if hole.get("config", self._config.name) == self._config.name]
        found = []
        for part, unit, what in self.bins:
            if not self.hits[part, unit, what]:
                name = f"{unit}, {part}: {what}"
                reasons = [hole["reason"] for hole in own if re.fullmatch(hole["bins"], name)]
                found.append((name, (reasons or [""])[0]))
        return found

    def unexplained(self) -> list[str]:
        """Returns the classes that have no reason."""
        return [name for name, reason in self.missing() if not reason]

    def page(self) -> str:
        """A table by unit and part of the model, and what was not hit, with the reasons."""
        out = ["| unit | part of the model | bins | hit |", "|---|---|--:|--:|"]
        for part, unit in dict.fromkeys((part, unit) for part, unit, _ in self.bins):
            own = [each for each in self.bins if each[:2] == (part, unit)]
            out.append(f"| {unit} | {part} | {len(own)} | {sum(self.hits[each] > 0 for each in own)} |")
        hit = sum(self.hits[each] > 0 for each in self.bins)
        out.append(f"| **all** | | {len(self.bins)} | {hit} ({hit / len(self.bins):.1%}) |")
        by_reason = collections.defaultdict(list)
        for name, reason in self.missing():
            by_reason[reason or "No reason is known."].append(name)
        if by_reason:
            out += ["", "Not hit:", ""]
            out += [f"- {'; '.join(names)}: {reason}" for reason, names in by_reason.items()]
        return "\n".join(out) + "\n"


def _flags(name: str, values: dict[str, int]) -> str:
    chosen = [flag for flag, value in values.items() if value]
    return f"{name}, {' and '.join(chosen) or 'plain'}"
