"""docs/isa.md from the instruction set's tables."""

import ast
import collections.abc
import enum
import inspect
import io
import tokenize

from . import isa
from .check_byte import CHECK_POLYNOMIAL, CHECK_XOR

_UNIT_TEXT = {
    isa.Unit.SEQUENCER: "Executed by the sequencer itself. The first instruction of a program is BEGIN.",
    isa.Unit.LOAD: "External memory to activation or weight memory.",
    isa.Unit.ARRAY: "Convolutions, matrix products and depthwise convolutions.",
    isa.Unit.VECTOR: "Micro-programs on vectors of W lanes.",
    isa.Unit.STORE: "Activation memory to external memory.",
}


def _comments(enumeration: type) -> dict[str, str]:
    """The comment behind each member of an enumeration, from its source."""
    comments = {}
    source = inspect.getsource(enumeration)
    lines = {node.lineno: node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assign)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.start[0] in lines:
            target = lines[token.start[0]].targets[0]
            if isinstance(target, ast.Name):
                comments[target.id] = token.string.removeprefix("#").strip()
    return comments


_FAULTS = """\
## Faults

A start resets the units, so that a program finds nothing that an earlier one set up: streams have address 0 and
one turn in each dimension, pitches are 0. The memories and the vector registers keep what is in them; `tosaic
verify` refuses a program that reads there what it has not written, and one with a STORE to the program's own bytes.
These may not change while it runs: the machine reads ahead and does not check it; the emulator stops. ILLEGAL are,
at their GO:

- VECTOR_GO with a micro-op that the program has not written, or one that clamps or has an immediate and no
  VECTOR_BOUNDS; with no VECTOR_PARAM or VECTOR_TABLE before it, if any micro-op that the program has written
  adds biases (`bias`), scales by channel (`per_channel` of RESCALE), or looks up a table (TABLE8: 256 entries,
  TABLE16: 512).
- ARRAY_GO and ARRAY_DEPTHWISE_GO without ARRAY_INPUT, ARRAY_WINDOW and ARRAY_KERNEL or ARRAY_DEPTHWISE; with an
  `input_zp` outside -128..128 (of unsigned bytes 0..255), or a `weight_zp` outside -128..128.
- ARRAY_GO with `accumulate` where no ARRAY_GO left sums: none came, or an ARRAY_DEPTHWISE_GO after it.

The first fault ends the run, and ERROR and PC name its unit and its instruction: the GO, or whatever was wrong,
not what the unit took after it. After BUS_READ, BUS_WRITE, DECODE and DATA the instruction is the unit's last GO
or SIGNAL, and the one at fault may lie before it. Two units may each have a fault: the one that finds its own
first is named, if both in one cycle the first of LOAD, ARRAY, VECTOR, STORE, and only then the sequencer.
"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _fields(opcode: isa.Opcode) -> collections.abc.Iterator[str]:
    low = 16
    for field in isa.FIELDS[opcode]:
        high = low + field.bits - 1
        bits = str(low) if high == low else f"{high}:{low}"
        yield f"| {bits} | `{field.name}` | {'signed' if field.signed else ''} | {_cell(field.doc)} |"
        low = high + 1


def _enumeration(title: str, enumeration: type[enum.Enum], about: str) -> list[str]:
    comments = _comments(enumeration)
    lines = [f"## {title}", "", about, "", "| value | name | |", "|---|---|---|"]
    lines += [
        f"| {member.value} | {member.name} | {_cell(comments.get(member.name, ''))} |"
        for member in enumeration
    ]
    return [*lines, ""]


def isa_markdown() -> str:
    """The instruction set as a Markdown page: format, instructions by unit, enumerations, error codes."""
    lines = [
        "# Instructions",
        "",
        "Generated from `hw/isa.py`; do not edit. `timing.md` says what the instructions do.",
        "",
        f"An instruction has {isa.INSTRUCTION_BYTES} bytes, little endian: bits 7:0 are the opcode, bits",
        "15:8 the check byte: the CRC-8 of the other bytes, most significant bit first, with polynomial",
        f"0x{CHECK_POLYNOMIAL:02X} and initial value 0, XORed with 0x{CHECK_XOR:02X}. Bits that no field",
        "names are zero; anything else is the error ILLEGAL: up to three wrong bits always are.",
        "",
        f"The instruction set's hash is 0x{isa.ISA_HASH:08X}.",
        "",
    ]
    for unit in isa.Unit:
        lines += [f"## {unit.name}", "", _UNIT_TEXT[unit], ""]
        for opcode in (o for o in isa.Opcode if o.unit == unit):
            lines += [f"### {opcode.name} (0x{int(opcode):02X})", ""]
            if isa.FIELDS[opcode]:
                lines += ["| bits | field | | |", "|---|---|---|---|", *_fields(opcode), ""]
            else:
                lines += ["No fields.", ""]
    lines += [_FAULTS]
    lines += _enumeration("Condition", isa.Condition, " ".join((isa.Condition.__doc__ or "").split()))
    lines += _enumeration("Op", isa.Op, " ".join((isa.Op.__doc__ or "").split()))
    lines += _enumeration("Source", isa.Source, " ".join((isa.Source.__doc__ or "").split()))
    lines += _enumeration("Element", isa.Element, " ".join((isa.Element.__doc__ or "").split()))
    lines += _enumeration("Space", isa.Space, " ".join((isa.Space.__doc__ or "").split()))
    lines += _enumeration("Error", isa.Error, " ".join((isa.Error.__doc__ or "").split()))
    return "\n".join(lines).rstrip() + "\n"
