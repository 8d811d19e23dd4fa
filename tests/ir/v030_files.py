"""Writes one-operator 0.30 files straight from the schema, legal or not, for the reader's tests."""

from typing import Any

import flatbuffers
import numpy as np

from tosaic.compiler.ir.schema_0_30 import tables

_TYPES = {dtype.name: number for number, dtype in tables.DTYPES.items()}

Tensors = dict[str, tuple[list[int], str, bytes | None]]
"""Shape, type and data by name; a tensor with data is a CONST, one without and not an output an input."""


class _File:
    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)

    def vector(self, items: list[int]) -> int:
        self.builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            self.builder.PrependUOffsetTRelative(item)
        return self.builder.EndVector()

    def names(self, names: list[str]) -> int:
        return self.vector([self.builder.CreateString(name) for name in names])

    def table(self, fields: list[tuple[str, Any] | int | None]) -> int:
        self.builder.StartObject(len(fields))
        for slot, field in enumerate(fields):
            if isinstance(field, int):
                self.builder.PrependUOffsetTRelativeSlot(slot, field, 0)
            elif field is not None:
                getattr(self.builder, f"Prepend{field[0]}Slot")(slot, field[1], 0)
        return self.builder.EndObject()

    def attribute(self, kind: str, value: Any) -> Any:
        match kind:
            case "int":
                return ("Int32", value)
            case "bool":
                return ("Bool", value)
            case "float":
                return ("Float32", value)
            case "resize_mode":
                return ("Uint32", tables.RESIZE_MODES.index(value))
            case "string":
                return self.builder.CreateString(value)
        return self.builder.CreateNumpyVector(np.array(value, "<i2" if kind == "shorts" else "<i4"))

    def operator(self, op: str, inputs: list[str], outputs: list[str], attributes: dict[str, Any]) -> int:
        kind = tables.ATTRIBUTE_TABLE_OF.get(op)
        table, number = None, None
        if kind:
            layout = tables.ATTRIBUTE_TABLES[kind]
            table = self.table(
                [
                    self.attribute(k, attributes[name]) if name in attributes else None
                    for name, k in layout.items()
                ]
            )
            number = ("Uint8", list(tables.ATTRIBUTE_TABLES).index(kind) + 1)
        return self.table(
            [("Uint32", tables.OPERATORS.index(op)), number, table, self.names(inputs), self.names(outputs)]
        )


def operator_file(
    op: str,
    inputs: list[str],
    outputs: list[str],
    tensors: Tensors,
    attributes: dict[str, Any],
    version_fields: bool = True,
) -> bytes:
    """A 0.30 file with one operator and the CONSTs of its tensors.

    Fields that equal the schema's default are left out, as an original writer does; without
    `version_fields` the version table is empty too.
    """
    file = _File()
    stored = []
    for name, (shape, dtype, data) in tensors.items():
        payload = None if data is None else file.builder.CreateByteVector(data)
        shape_vector = file.builder.CreateNumpyVector(np.array(shape, "<i4"))
        text = file.builder.CreateString(name)
        stored.append(file.table([text, shape_vector, ("Uint32", _TYPES[dtype]), payload]))
    constants = [name for name, (_, _, data) in tensors.items() if data is not None]
    operators = [file.operator("CONST", [], [name], {}) for name in constants]
    operators.append(file.operator(op, inputs, outputs, attributes))
    operator_list, tensor_list = file.vector(operators), file.vector(stored)
    graph_inputs = file.names([name for name in tensors if name not in (*constants, *outputs)])
    graph_outputs = file.names(outputs)
    block = file.table(
        [file.builder.CreateString("main"), operator_list, tensor_list, graph_inputs, graph_outputs]
    )
    blocks = file.vector([block])
    version = file.table([None, ("Int32", 30) if version_fields else None, None, None])
    root = file.table([version, blocks])
    file.builder.Finish(root, file_identifier=b"TOSA")
    return bytes(file.builder.Output())
