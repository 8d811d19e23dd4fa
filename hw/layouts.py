"""Layouts made of an instruction's fields: what ports and registers that carry them take their widths from."""

from typing import Any

from amaranth.lib import data

from .isa import FIELDS, Opcode, layout


def shapes(opcode: Opcode, *names: str) -> dict[str, Any]:
    """Layout members for these fields of `opcode`. KeyError when there is no such field."""
    members = layout(opcode)
    return {name: members[name].shape for name in names}


def fields(opcode: Opcode) -> data.StructLayout:
    """The fields of `opcode` alone, without opcode and check byte."""
    return data.StructLayout(shapes(opcode, *(field.name for field in FIELDS[opcode])))
