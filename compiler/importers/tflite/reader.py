"""Reads a .tflite file as a `TfliteModel`, by the schema's generated classes (package `tflite`).

A damaged file ends in a ModelError: the accessors trust their offsets, so whatever they raise is told as one.
"""

import functools
import importlib
import inspect
import pathlib
import struct
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
from flatbuffers import number_types

from tosaic.compiler.importers.lowering.allowance import Allowance
from tosaic.compiler.importers.tflite.source_graph import (
    TensorQuantization,
    TfliteModel,
    TfliteOperator,
    TfliteSubgraph,
    TfliteTensor,
)
from tosaic.compiler.importers.tflite.sparsity import dense
from tosaic.compiler.ir.mapped_file import contents
from tosaic.errors import InputError, ModelError, UnsupportedError
from tosaic.install import install_command

IDENTIFIER = b"TFL3"
MAX_RANK = 6
"""The largest rank of TOSA."""

_NUMPY = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "FLOAT64": np.float64,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT16": np.int16,
    "UINT16": np.uint16,
    "INT32": np.int32,
    "UINT32": np.uint32,
    "INT64": np.int64,
    "BOOL": np.bool_,
}
_BUILTIN_CODE_OFFSET = 10
"""Where an operator code's table tells of its newer field; the older one has 8 bits."""
_BLOCKWISE, _BLOCKWISE_OFFSETS = 2, (4, 6, 8)
"""The union's number of weights with a scale for each block, and where the table has scales, zero points and size:
the package's schema is older."""
_DAMAGE = (
    IndexError,
    ValueError,
    TypeError,
    OverflowError,
    AttributeError,
    KeyError,
    struct.error,
    UnicodeDecodeError,
)


@functools.cache
def schema() -> ModuleType:
    """The package with the schema's generated classes; UnsupportedError if it is not installed."""
    try:
        return importlib.import_module("tflite")
    except ImportError:
        raise UnsupportedError(
            f"TFLite models need the package tflite: {install_command('tflite')}"
        ) from None


@functools.cache
def names_of(enumeration: str) -> dict[int, str]:
    """The names of an enumeration's values."""
    members = vars(getattr(schema(), enumeration))
    return {value: name for name, value in members.items() if not name.startswith("_")}


@functools.cache
def _fields(union: str) -> tuple[str, ...]:
    """The fields of an options table, by its accessors; of a vector there are four."""
    accessors = {name: value for name, value in vars(getattr(schema(), union)).items() if name[0].isupper()}
    vectors = [name.removesuffix("AsNumpy") for name in accessors if name.endswith("AsNumpy")]
    derived = {f"{name}{end}" for name in vectors for end in ("", "AsNumpy", "Length", "IsNone")}
    plain = [name for name, value in accessors.items() if inspect.isfunction(value) and name != "Init"]
    return (*(name for name in plain if name not in derived), *vectors)


def read_model(path: pathlib.Path, allowance: Allowance | None = None) -> TfliteModel:
    """The model in a file. InputError if it cannot be read, ModelError if it is damaged or of another format."""
    try:
        data = contents(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise ModelError(
            f"{path.name} is not a TFLite model: its file identifier is not {IDENTIFIER.decode()}"
        )
    tflite = schema()
    try:
        return _ModelReader(
            tflite.Model.GetRootAsModel(data, 0), data, allowance or Allowance(len(data))
        ).model()
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ModelError(
            f"{path.name} is a damaged TFLite model: {reason}; export or copy it again"
        ) from None


class _ModelReader:
    def __init__(self, root: Any, data: bytes | memoryview, allowance: Allowance) -> None:
        self.root, self.data, self.allowance = root, data, allowance
        self.kinds = [
            self._operator_kind(root.OperatorCodes(i)) for i in self._count(root.OperatorCodesLength())
        ]
        self.buffers: dict[int, np.ndarray] = {}

    def model(self) -> TfliteModel:
        subgraphs = [self._subgraph(self.root.Subgraphs(i)) for i in self._count(self.root.SubgraphsLength())]
        if not subgraphs:
            raise ValueError("it has no subgraph")
        return TfliteModel(subgraphs, len(self.data))

    def _count(self, length: int) -> range:
        """The indices of a vector; ValueError if it cannot be in the file."""
        if length > len(self.data):
            raise ValueError(f"a vector of {length} elements in a file of {len(self.data)} bytes")
        return range(length)

    def _operator_kind(self, code: Any) -> str:
        # The package's accessor of the newer field gives the older one for small codes, which some writers leave 0.
        at = code._tab.Offset(_BUILTIN_CODE_OFFSET)
        newer = code._tab.Get(number_types.Int32Flags, at + code._tab.Pos) if at else 0
        number = max(int(newer), code.DeprecatedBuiltinCode())
        kind = names_of("BuiltinOperator").get(number, f"builtin operator {number}")
        if kind != "CUSTOM":
            return kind
        return f"CUSTOM {(code.CustomCode() or b'').decode()}"

    def _subgraph(self, graph: Any) -> TfliteSubgraph:
        tensors = [self._tensor(graph.Tensors(i), i) for i in self._count(graph.TensorsLength())]
        tensors = [self._unblocked(graph.Tensors(i), tensor, tensors) for i, tensor in enumerate(tensors)]
        operators = [self._operator(graph.Operators(i)) for i in self._count(graph.OperatorsLength())]
        name = (graph.Name() or b"").decode()
        found = TfliteSubgraph(
            name, tensors, operators, self._integers(graph, "Inputs"), self._integers(graph, "Outputs")
        )
        ends = [("input", found.inputs), ("output", found.outputs)]
        ends += [(o.kind, o.inputs + o.outputs + o.intermediates) for o in operators]
        for what, indices in ends:
            for index in indices:
                if not -1 <= index < len(tensors):
                    raise ValueError(f"{what} names tensor {index} of {len(tensors)}")
        if -1 in found.inputs + found.outputs:
            raise ValueError("an input or output of the graph is omitted")
        return found

    def _integers(self, table: Any, field: str) -> tuple[int, ...]:
        """A field that is a vector of integers."""
        self._count(getattr(table, f"{field}Length")())
        if getattr(table, f"{field}Length")() == 0:
            return ()
        return tuple(int(value) for value in getattr(table, f"{field}AsNumpy")())

    def _operator(self, operator: Any) -> TfliteOperator:
        options: dict[str, Any] = {}
        for field in ("BuiltinOptions", "BuiltinOptions2"):
            union = names_of(field).get(getattr(operator, f"{field}Type")(), "NONE")
            table = getattr(operator, field)()
            if union != "NONE" and table is not None:
                found = getattr(schema(), union)()
                found.Init(table.Bytes, table.Pos)
                options |= {name: self._option(found, name) for name in _fields(union)}
        count = self._count(operator.CustomOptionsLength())
        custom = operator.CustomOptionsAsNumpy().tobytes() if len(count) else b""
        index = operator.OpcodeIndex()
        if not 0 <= index < len(self.kinds):
            raise ValueError(f"an operator has code {index} of {len(self.kinds)}")
        kind = self.kinds[index]
        inputs, outputs, inner = (
            self._integers(operator, field) for field in ("Inputs", "Outputs", "Intermediates")
        )
        return TfliteOperator(kind, inputs, outputs, options, custom, inner)

    def _option(self, table: Any, name: str) -> Any:
        """A field of an operator's options: a number, bytes, or a tuple of integers."""
        return self._integers(table, name) if hasattr(table, f"{name}Length") else getattr(table, name)()

    # --- tensors --------------------------------------------------------------------------------------------

    def _tensor(self, tensor: Any, index: int) -> TfliteTensor:
        kind = names_of("TensorType").get(tensor.Type(), f"type {tensor.Type()}")
        shape, signature = self._integers(tensor, "Shape"), self._integers(tensor, "ShapeSignature")
        if min(shape, default=0) < 0:
            raise ValueError(f"tensor {index} has the shape {list(shape)}")
        data, encoded = self._value(tensor, kind, shape)
        return TfliteTensor(
            (tensor.Name() or b"").decode() or f"tensor_{index}",
            kind,
            shape,
            signature if len(signature) == len(shape) else shape,
            self._quantization(tensor.Quantization()),
            data,
            encoded,
            bool(tensor.IsVariable()),
        )

    def _unblocked(self, source: Any, tensor: TfliteTensor, tensors: list[TfliteTensor]) -> TfliteTensor:
        """Weights with a scale for each block of a row, in a tensor of their own, as reals."""
        found = source.Quantization()
        if found is None or found.DetailsType() != _BLOCKWISE:
            return tensor
        details = found.Details()
        places = [details.Offset(offset) for offset in _BLOCKWISE_OFFSETS]
        fields = [details.Get(number_types.Int32Flags, at + details.Pos) if at else 0 for at in places]
        scale_tensor, zero_tensor, size = map(int, fields)
        scales = tensors[scale_tensor].data
        if tensor.data is None or scales is None:
            raise ValueError(f"tensor {tensor.name!r} has blocks without values or scales")
        zeros = tensors[zero_tensor].data if zero_tensor > 0 else None
        whole = tensor.data.astype(np.float32).reshape(*scales.shape, size)
        if zeros is not None:
            whole = whole - zeros.reshape(scales.shape)[..., None].astype(np.float32)
        reals = (whole * scales.astype(np.float32)[..., None]).reshape(tensor.shape)
        return replace(tensor, kind="FLOAT32", quantization=None, data=self.allowance.hold(reals))

    def _quantization(self, found: Any) -> TensorQuantization | None:
        if found is None or not found.ScaleLength():
            return None
        self._count(found.ScaleLength())
        self._count(found.ZeroPointLength())
        scales = np.array(found.ScaleAsNumpy(), np.float32)
        if found.ZeroPointLength():
            zero_points = np.array(found.ZeroPointAsNumpy(), np.int64)
        else:
            zero_points = np.zeros(1, np.int64)
        zero_points = np.broadcast_to(zero_points, scales.shape) if zero_points.size == 1 else zero_points
        if zero_points.shape != scales.shape:
            raise ValueError(f"{scales.size} scales have {zero_points.size} zero points")
        if not (np.isfinite(scales).all() and (scales >= 0).all()):
            raise ValueError("a scale is negative or not finite")
        return TensorQuantization(scales, zero_points, int(found.QuantizedDimension()))

    def _value(self, tensor: Any, kind: str, shape: tuple[int, ...]) -> tuple[np.ndarray | None, int]:
        """The value of a constant tensor and the bytes that it takes in the file; (None, 0) if it is computed."""
        raw, count = self._buffer(tensor.Buffer()), int(np.prod(shape, dtype=np.int64))
        if raw.size == 0 and count:
            return None, 0
        if tensor.Sparsity() is not None:
            values = dense(raw.view(_NUMPY[kind]), tensor.Sparsity(), shape, self.allowance)
            return self.allowance.decoded(values, raw.nbytes), raw.nbytes
        if kind in ("INT4", "UINT4", "INT2"):
            values = self.allowance.decoded(_unpacked(raw, kind, count).reshape(shape), raw.nbytes)
            return values, raw.nbytes
        if kind not in _NUMPY:
            return None, 0
        return raw.view(_NUMPY[kind])[:count].reshape(shape), raw.nbytes

    def _buffer(self, index: int) -> np.ndarray:
        """The bytes of a buffer; those of large files lie behind the flatbuffer."""
        if index not in self.buffers:
            if not 0 <= index < self.root.BuffersLength():
                raise ValueError(f"a tensor has buffer {index} of {self.root.BuffersLength()}")
            buffer = self.root.Buffers(index)
            offset, size = buffer.Offset(), buffer.Size()
            if offset > 1:
                if offset + size > len(self.data):
                    raise ValueError(f"buffer {index} ends behind the file")
                self.buffers[index] = np.frombuffer(self.data, np.uint8, size, offset)
            else:
                held = len(self._count(buffer.DataLength()))
                self.buffers[index] = buffer.DataAsNumpy() if held else np.zeros(0, np.uint8)
        return self.buffers[index]


def _unpacked(raw: np.ndarray, kind: str, count: int) -> np.ndarray:
    """Integers of 4 or 2 bits, the first in the lowest bits of a byte, as int8 (uint4: uint8)."""
    bits = 2 if kind == "INT2" else 4
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if kind == "UINT4":
        return fields.astype(np.uint8)
    signed = fields.astype(np.int8)
    return np.where(signed >> (bits - 1), signed - (1 << bits), signed).astype(np.int8)
