"""Builds flatbuffers from lists of fields, on top of the `flatbuffers` package."""

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np

from tosaic.compiler.ir.graph import Graph
from tosaic.errors import UnsupportedError

IDENTIFIER = b"TOSA"

_DATA_ALIGNMENT_BYTES = 8
_BYTES_PER_TENSOR = 256
"""A guess of names and tables per tensor, so that the builder rarely grows."""

Field = int | None | tuple[str, Any]
"""An offset (string, vector or table), nothing, or a scalar as (type, value)."""


class FileBuilder:
    """Writes one file. Every method that returns an int returns an offset for a field."""

    def __init__(self, graph: Graph) -> None:
        tensors = [tensor for part in graph.walk() for tensor in part.tensors.values()]
        data = sum(tensor.data.nbytes for tensor in tensors if tensor.data is not None)
        room = data + _BYTES_PER_TENSOR * (len(tensors) + 16)
        if room > flatbuffers.Builder.MAX_BUFFER_SIZE:
            raise UnsupportedError(
                f"graph {graph.name!r} has constants of {data:,} bytes; a .tosa file holds 2 GiB at most: compile the "
                "graph without a file in between, or split it"
            )
        self._builder = flatbuffers.Builder(room)

    def string(self, text: str) -> int:
        """A string; equal strings are stored once."""
        return self._builder.CreateSharedString(text)

    def ints(self, values: Sequence[int], dtype: str = "<i4") -> int:
        """A vector of integers."""
        return self._builder.CreateNumpyVector(np.asarray(values, dtype))

    def data(self, values: bytes) -> int:
        """A byte vector aligned to 8 bytes."""
        builder = self._builder
        builder.StartVector(1, len(values), _DATA_ALIGNMENT_BYTES)
        builder.head -= len(values)
        builder.Bytes[builder.head : builder.head + len(values)] = values
        return builder.EndVector()

    def offsets(self, items: Sequence[int]) -> int:
        """A vector of strings or tables."""
        self._builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            self._builder.PrependUOffsetTRelative(item)
        return self._builder.EndVector()

    def strings(self, names: Sequence[str]) -> int:
        """A vector of strings."""
        return self.offsets([self.string(name) for name in names])

    def table(self, fields: Sequence[Field]) -> int:
        """A table; field i of the schema is `fields[i]`. Scalars are always stored."""
        builder = self._builder
        builder.StartObject(len(fields))
        for slot, field in enumerate(fields):
            if field is None:
                continue
            if isinstance(field, tuple):
                self._prepend(*field)
                builder.Slot(slot)
            else:
                builder.PrependUOffsetTRelativeSlot(slot, field, 0)
        return builder.EndObject()

    def _prepend(self, kind: str, value: Any) -> None:
        builder = self._builder
        prepend = {
            "int32": builder.PrependInt32,
            "uint32": builder.PrependUint32,
            "uint8": builder.PrependUint8,
            "bool": builder.PrependBool,
            "float32": builder.PrependFloat32,
        }[kind]
        prepend(value)

    def finish(self, fields: Sequence[Field]) -> bytes:
        """The file whose root table has these fields."""
        self._builder.Finish(self.table(fields), file_identifier=IDENTIFIER)
        return bytes(self._builder.Output())

    def version(self, version: tuple[int, ...]) -> int:
        """The version table: major, minor, patch, not a draft."""
        major, minor, patch = (*version, 0, 0)[:3]
        return self.table([("int32", major), ("int32", minor), ("int32", patch), ("bool", False)])
