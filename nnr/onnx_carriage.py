"""ONNX models in NNR bitstreams (B.3), and NNR units in ONNX tensors (B.4). Needs the package `onnx`."""

import math
import pathlib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tosaic.install import install_command
from tosaic.nnr.bitstream import Bitstream, CodedTensor, read_bitstream
from tosaic.nnr.encoder import Settings, encodable, encode_model, encode_unit
from tosaic.nnr.errors import NnrError, NnrWarning
from tosaic.nnr.memory import ITEM_BYTES, MemoryBudget, default_limit_bytes
from tosaic.nnr.onnx_tensors import model_tensors
from tosaic.nnr.payload import PayloadType
from tosaic.nnr.unit_reader import unit_bytes
from tosaic.nnr.unit_writer import compression_for, write_unit
from tosaic.nnr.units import QuantizationUnit, StorageFormat, TopologyUnit, UnitType

# The draft adds ISO_IEC_15938_17 to TensorProto.DataType and gives it no number: this one is ours (E-47).
ISO_IEC_15938_17 = 15938

# TensorProto's INT64, DOUBLE and UINT64, of eight bytes.
_WIDE_TYPES = (7, 11, 13)
# protobuf copies the bytes that a field is given.
KEPT_COPIES = 2

# Where a TensorProto keeps its values.
_DATA_FIELDS = (
    "raw_data",
    "float_data",
    "int32_data",
    "int64_data",
    "double_data",
    "uint64_data",
    "string_data",
    "external_data",
)


def load_onnx_package() -> Any:
    """The module `onnx`; NnrError with the way to install it."""
    try:
        import onnx
    except ImportError:
        raise NnrError(f"ONNX models need the package onnx: {install_command('onnx')}") from None
    return onnx


def load(path: pathlib.Path, *, external: bool = True) -> Any:
    """The ModelProto of an .onnx file, external data included unless told otherwise."""
    onnx = load_onnx_package()
    try:
        return onnx.load(str(path), load_external_data=external)
    except (OSError, ValueError) as error:
        raise NnrError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    except Exception as error:
        # protobuf's own error class; its import path differs between releases.
        raise NnrError(f"{path} is not an ONNX model ({type(error).__name__})") from None


def encode_onnx(
    model: Any,
    settings: Settings,
    per_tensor: Mapping[str, Settings] | None = None,
    *,
    smallest_values: int = 0,
) -> bytes:
    """A ModelProto as one bitstream: its `model_tensors` as data units, quantization annotations in NNR_QNT (as a
    GraphProto with nothing else), the rest in NNR_TPL (B.3).

    per_tensor: settings of some tensors, by name. Integers of 64 bits are coded where int32 holds them, and are of
    their own type again when decoded. Tensors that no payload type holds (float16, strings, ...) stay in the topology,
    and so do those of fewer than `smallest_values` items, which are shorter there than a unit's header.
    """
    onnx = load_onnx_package()
    topology = onnx.ModelProto()
    topology.CopyFrom(model)
    annotations = onnx.GraphProto()
    annotations.quantization_annotation.extend(topology.graph.quantization_annotation)
    topology.graph.ClearField("quantization_annotation")
    tensors = {}
    for name, tensor in model_tensors(topology).items():
        values = _narrowed(onnx.numpy_helper.to_array(tensor))
        if values.size >= smallest_values and encodable(values, dimensions_known=True):
            tensors[name] = values
            _clear(tensor)
    text = topology.SerializeToString(deterministic=True)
    unit = TopologyUnit(StorageFormat.ONNX, text, compression_for(text))
    quantization = None
    if annotations.quantization_annotation:
        text = annotations.SerializeToString(deterministic=True)
        quantization = QuantizationUnit(StorageFormat.ONNX, text, compression_for(text))
    return encode_model(
        tensors,
        settings,
        topology=unit,
        quantization=quantization,
        dimensions_known=True,
        per_tensor=per_tensor,
    )


def _narrowed(values: np.ndarray) -> np.ndarray:
    """Wide integers as int32 if that holds them: shapes and axes mostly."""
    limits = np.iinfo(np.int32)
    wide = values.dtype in (np.int64, np.uint64, np.uint32)
    if wide and values.size and limits.min <= int(values.min()) <= int(values.max()) <= limits.max:
        return values.astype(np.int32)
    return values


def decode_onnx(data: bytes) -> Any:
    """The ModelProto that the bitstream `data` carries, as `carried_model`."""
    return carried_model(read_bitstream(data))


def carried_model(found: Bitstream) -> Any:
    """The ModelProto that a bitstream carries, its tensors decoded.

    A tensor is one of the topology's `model_tensors`, or becomes an initializer if it is only named as a node's input
    (B.3), of the shape that its unit or the topology states. Raises NnrError without an ONNX topology, if names or
    shapes disagree, and on damage.
    """
    onnx = load_onnx_package()
    if found.topology is None or found.topology.storage_format is not StorageFormat.ONNX:
        raise NnrError("the NNR bitstream carries no ONNX topology")
    model = _parsed(onnx.ModelProto(), found.topology.data, "topology is not an ONNX model")
    if found.quantization is not None:
        if found.quantization.storage_format is not StorageFormat.ONNX:
            raise NnrError("the NNR bitstream's topology is ONNX, its quantization information is not")
        told = _parsed(onnx.GraphProto(), found.quantization.data, "quantization information is not of ONNX")
        model.graph.quantization_annotation.extend(told.quantization_annotation)
    held, budget = model_tensors(model), found.budget()
    for tensor in found.tensors:
        for name in tensor.unit.ref_ids:
            if name not in held:
                held[name] = _new_initializer(model.graph, name, tensor)
            shape = tuple(held[name].dims)
            fill(name, held[name], tensor.decode_kept(shape, budget, _item_bytes(held[name])))
    for name, kept in held.items():
        filled = {field.name for field, _ in kept.ListFields()}
        if math.prod(kept.dims) and not filled & set(_DATA_FIELDS):
            raise NnrError(f"the NNR bitstream has no tensor {name!r}, an initializer of its ONNX topology")
    return model


def stated_shapes(topology: bytes) -> dict[str, tuple[int, ...]]:
    """Shapes by name of an ONNX topology's `model_tensors`, inputs and values of known shape."""
    model = _parsed(load_onnx_package().ModelProto(), topology, "topology is not an ONNX model")
    graph = model.graph
    shapes = {}
    for info in (*graph.value_info, *graph.input):
        sizes = info.type.tensor_type.shape.dim
        if all(size.HasField("dim_value") for size in sizes):
            shapes[info.name] = tuple(size.dim_value for size in sizes)
    return shapes | {name: tuple(tensor.dims) for name, tensor in model_tensors(model).items()}


def _new_initializer(graph: Any, name: str, tensor: CodedTensor) -> Any:
    """An initializer without values, for a tensor that the topology only names as a node's input."""
    onnx = load_onnx_package()
    made = {output for node in graph.node for output in node.output}
    if name in made or name not in _node_inputs(graph):
        raise NnrError(
            f"NNR tensor {name!r} is no initializer of the ONNX topology, and no constant input of a node"
        )
    dimensions = tensor.unit.tensor_dimensions
    data_type = onnx.TensorProto.FLOAT
    if tensor.unit.payload_type == PayloadType.INT32:
        data_type = onnx.TensorProto.INT32
    for info in (*graph.input, *graph.value_info):
        if info.name == name:
            stated = info.type.tensor_type
            data_type = stated.elem_type
            if all(size.HasField("dim_value") for size in stated.shape.dim):
                dimensions = tuple(size.dim_value for size in stated.shape.dim)
    if dimensions is None:
        raise NnrError(f"NNR tensor {name!r}: neither its unit nor the ONNX topology states its dimensions")
    return graph.initializer.add(name=name, dims=dimensions, data_type=data_type)


def _node_inputs(graph: Any) -> set[str]:
    """Names that nodes read, those in subgraphs too."""
    names = set()
    for node in graph.node:
        names.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                names |= _node_inputs(inner)
    return names


def _parsed(message: Any, data: bytes, wrong: str) -> Any:
    """Returns `message` filled from `data`."""
    try:
        message.ParseFromString(data)
    except Exception as error:
        # protobuf's own error class; its import path differs between releases.
        raise NnrError(f"the NNR bitstream's {wrong} ({type(error).__name__})") from None
    return message


def carry(model: Any, settings: Settings) -> Any:
    """A copy of a ModelProto whose float32 tensors of two dimensions and more hold NNR units in raw_data (B.4).

    Settings must keep to B.4: uniform or dependent quantization and cabac_unary_length 10, which are inferred.
    """
    onnx = load_onnx_package()
    if settings.method not in ("uniform", "dependent") or settings.cabac_unary_length != 10:
        raise NnrError(
            "ONNX tensors carry NNR_PT_FLOAT32 with cabac_unary_length 10: use uniform or dependent"
        )
    carried = onnx.ModelProto()
    carried.CopyFrom(model)
    for name, tensor in model_tensors(carried).items():
        values = onnx.numpy_helper.to_array(tensor)
        # B.4 has no exact payload: what `settings_in_network` would keep exactly stays as it is.
        if values.dtype != np.float32 or values.ndim < 2 or not np.isfinite(values).all():
            continue
        unit = encode_unit(name, values, settings)
        if unit.payload_type != PayloadType.FLOAT32:
            continue
        bare = type(unit)(unit.payload_type, unit.ref_ids, unit.payload)
        _clear(tensor)
        tensor.data_type = ISO_IEC_15938_17
        tensor.raw_data = write_unit(bare)
    return carried


def uncarry(model: Any, folder: pathlib.Path | None = None, *, limit_bytes: int | None = None) -> Any:
    """A copy of a ModelProto with its NNR tensors decoded to float32.

    folder: where external data lies (keys location, offset, length); None refuses it. limit_bytes: of memory; None
    allows 64 MiB and 8 times the units. Raises NnrError on paths out
    of the folder and on units other than one NNR_NDU of NNR_PT_FLOAT32 without dimensions and unary length.
    """
    onnx = load_onnx_package()
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    carrying = carrying_tensors(plain)
    coded = {name: _carried_tensor(onnx, name, tensor, folder) for name, tensor in carrying.items()}
    payload_bytes = sum(len(tensor.unit.payload) for tensor in coded.values())
    budget = MemoryBudget(default_limit_bytes(payload_bytes) if limit_bytes is None else limit_bytes)
    for name, tensor in carrying.items():
        shape = tuple(tensor.dims)
        values = replace(coded[name], limit_bytes=limit_bytes).decode_kept(
            shape, budget, KEPT_COPIES * ITEM_BYTES
        )
        _clear(tensor)
        tensor.data_type = onnx.TensorProto.FLOAT
        fill(name, tensor, values)
    return plain


def carrying_tensors(model: Any) -> dict[str, Any]:
    """The `model_tensors` of a ModelProto that hold an NNR unit (B.4)."""
    return {
        name: tensor for name, tensor in model_tensors(model).items() if tensor.data_type == ISO_IEC_15938_17
    }


def values_of_tensors(model: Any, folder: pathlib.Path) -> dict[str, np.ndarray]:
    """The values of the `model_tensors` by name; external data lies in `folder`."""
    onnx = load_onnx_package()
    try:
        return {
            name: onnx.numpy_helper.to_array(tensor, str(folder))
            for name, tensor in model_tensors(model).items()
        }
    except (OSError, ValueError, TypeError) as error:
        raise NnrError(f"an ONNX initializer cannot be read: {str(error).splitlines()[0]}") from None


def carried_tensors(
    model: Any, folder: pathlib.Path | None = None
) -> list[tuple[CodedTensor, tuple[int, ...]]]:
    """The NNR tensors in a ModelProto (B.4), not decoded, each with its shape; as `uncarry` else."""
    onnx = load_onnx_package()
    return [
        (_carried_tensor(onnx, name, tensor, folder), tuple(tensor.dims))
        for name, tensor in carrying_tensors(model).items()
    ]


def _carried_tensor(onnx: Any, name: str, initializer: Any, folder: pathlib.Path | None) -> CodedTensor:
    data = initializer.raw_data
    if initializer.data_location == onnx.TensorProto.EXTERNAL:
        data = _external(initializer, folder)
    with warnings.catch_warnings():
        # Behind NNR_STR, which is allowed here (E-29): B.4 infers what NNR_MPS would say.
        warnings.filterwarnings("ignore", ".*no NNR_MPS", NnrWarning)
        found = read_bitstream(data, start_required=False)
    if len(found.tensors) != 1 or found.topology or found.quantization:
        raise NnrError(f"ONNX initializer {name!r} must hold one NNR_NDU unit (B.4)")
    tensor = found.tensors[0]
    unit = tensor.unit
    if unit.payload_type != PayloadType.FLOAT32:
        raise NnrError(
            f"ONNX initializer {name!r} holds payload type {unit.payload_type}; B.4 allows NNR_PT_FLOAT32"
        )
    if unit.tensor_dimensions is not None or unit.cabac_unary_length is not None:
        raise NnrError(f"ONNX initializer {name!r} signals input parameters, which B.4 infers")
    if unit.ref_ids != (name,):
        # E-47: the initializer's name counts.
        warnings.warn(
            f"ONNX initializer {name!r} holds the NNR tensor {', '.join(unit.ref_ids)!r}",
            NnrWarning,
            stacklevel=3,
        )
    return tensor


def _external(initializer: Any, folder: pathlib.Path | None) -> bytes:
    """The bytes that external_data points at (E-48); without a length, one unit's own size."""
    keys = {entry.key: entry.value for entry in initializer.external_data}
    location = pathlib.PurePosixPath(keys.get("location", ""))
    if folder is None or not location.parts or location.is_absolute() or ".." in location.parts:
        raise NnrError(f"ONNX initializer {initializer.name!r}: external data {str(location)!r} is refused")
    try:
        offset = int(keys.get("offset", "0"))
        length = int(keys["length"]) if "length" in keys else None
        data = (folder / location).read_bytes()
    except (OSError, ValueError) as error:
        raise NnrError(
            f"ONNX initializer {initializer.name!r}: external data cannot be read ({error})"
        ) from None
    if not 0 <= offset <= len(data) or (length is not None and not 0 <= length <= len(data) - offset):
        raise NnrError(f"ONNX initializer {initializer.name!r}: external data lies outside {str(location)!r}")
    if length is None:
        length = unit_bytes(data, offset)
        if data[offset + 2 : offset + 3] == bytes([UnitType.STR]):
            # NNR_STR may stand before the unit (E-29).
            length += unit_bytes(data, offset + length)
    return data[offset : offset + length]


def _item_bytes(tensor: Any) -> int:
    """What an item of a TensorProto takes while it is filled, whatever its type: the last copy is protobuf's."""
    return KEPT_COPIES * (8 if tensor.data_type in _WIDE_TYPES else ITEM_BYTES)


def _clear(initializer: Any) -> None:
    """Forget a TensorProto's values; its name, dims and data_type stay."""
    for field in _DATA_FIELDS:
        initializer.ClearField(field)
    initializer.ClearField("data_location")


def fill(name: str, initializer: Any, values: np.ndarray) -> None:
    """Store values in a TensorProto, in its own type; raises NnrError when shape or type cannot hold them."""
    known = load_onnx_package().helper.get_all_tensor_dtypes()
    dtype: np.dtype[Any] = np.dtype(object)
    if initializer.data_type in known:
        dtype = np.dtype(load_onnx_package().helper.tensor_dtype_to_np_dtype(initializer.data_type))
    if dtype.kind not in "biuf" and dtype.name != "bfloat16":
        # Strings and complex numbers no payload has; of four bits two items would share a byte.
        raise NnrError(f"NNR tensor {name!r} cannot have ONNX's data_type {initializer.data_type}")
    if tuple(initializer.dims) != values.shape:
        raise NnrError(f"NNR tensor {name!r} has shape {values.shape}, ONNX says {tuple(initializer.dims)}")
    if dtype.kind in "iu" and values.dtype.kind == "f":
        # Integers that were quantized (`Settings.integer_step`) come back as floats.
        limits = np.iinfo(dtype)
        values = np.clip(np.rint(values.astype(np.float64)), limits.min, limits.max)
    with np.errstate(invalid="ignore"):
        stored = values.astype(dtype)
    if dtype.kind in "biu" and not np.array_equal(stored, values):
        raise NnrError(f"NNR tensor {name!r} has values outside {dtype}")
    _clear(initializer)
    initializer.raw_data = np.ascontiguousarray(stored).astype(dtype.newbyteorder("<")).tobytes()
