"""TOSA networks in NNR bitstreams. The draft has no carriage for them: this one uses a value that it leaves to users.

NNR_TPL, of storage format 128, holds a `.tosa` file in which the coded constants have become inputs; NNR_QNT, if there,
what the integers of inputs and outputs stand for, as JSON. A data unit's ref_id is the tensor's name, in a branch
`BRANCH/NAME`.
"""

from collections.abc import Iterator

import numpy as np

from tosaic.compiler.ir import DType, Graph, read_tosa, write_tosa
from tosaic.compiler.ir.tensors import Tensor
from tosaic.errors import Error, UnsupportedError
from tosaic.nnr.bitstream import Bitstream
from tosaic.nnr.encoder import Settings, encodable, encode_model
from tosaic.nnr.errors import NnrError
from tosaic.nnr.unit_writer import compression_for
from tosaic.nnr.units import QuantizationUnit, StorageFormat, TopologyUnit

# A data unit's header and name take about as much; a smaller constant is shorter in the topology.
SMALLEST_CODED_BYTES = 32


def encode_tosa(graph: Graph, settings: Settings, encodings: str = "") -> bytes:
    """A TOSA graph as one bitstream; `encodings` is the JSON text of its inputs' and outputs' scales, if any.

    Constants that no payload type holds (int48, float16, shapes, ...) and small ones stay in the topology.
    """
    if graph.states:
        raise UnsupportedError(
            f"input {next(iter(graph.states))!r} carries a state from run to run, for which a TOSA topology has no "
            "place; encode the ONNX model or the NNEF folder"
        )
    topology = graph.copy()
    tensors = {}
    for ref_id, owner, tensor in list(_constants(topology)):
        values = tensor.data
        if values is not None and values.nbytes >= SMALLEST_CODED_BYTES and _codable(tensor, values):
            tensors[ref_id] = values
            tensor.data = None
            owner.inputs.append(tensor.name)
    text = write_tosa(topology)
    unit = TopologyUnit(StorageFormat.TOSA, text, compression_for(text))
    quantization = None
    if encodings:
        quantization = QuantizationUnit(
            StorageFormat.TOSA, encodings.encode(), compression_for(encodings.encode())
        )
    return encode_model(tensors, settings, topology=unit, quantization=quantization)


def carried_graph(found: Bitstream) -> Graph:
    """The TOSA graph that a bitstream carries, its constants decoded. Raises NnrError when names, shapes or types do
    not agree, and on damage."""
    if found.topology is None or found.topology.storage_format is not StorageFormat.TOSA:
        raise NnrError("the NNR bitstream carries no TOSA topology")
    try:
        graph = read_tosa(found.topology.data)
    except Error as error:
        raise NnrError(f"the NNR bitstream's topology: {error}") from None
    budget = found.budget()
    inputs = {
        _ref_id(graph, owner, name): (owner, owner.tensors[name])
        for owner in graph.walk()
        for name in owner.inputs
    }
    for coded in found.tensors:
        for name in coded.unit.ref_ids:
            if name not in inputs:
                raise NnrError(f"NNR tensor {name!r} is no input of the TOSA topology")
            owner, tensor = inputs.pop(name)
            tensor.data = _in_type(name, tensor, coded.decode_kept(tensor.shape, budget))
            owner.inputs.remove(tensor.name)
    return graph


def carried_encodings(found: Bitstream) -> str:
    """The JSON text of inputs' and outputs' scales that a bitstream with a TOSA topology carries; empty without."""
    if found.quantization is None or found.quantization.storage_format is not StorageFormat.TOSA:
        return ""
    try:
        return found.quantization.data.decode()
    except UnicodeDecodeError:
        raise NnrError("the NNR bitstream's quantization information is not UTF-8") from None


def _constants(graph: Graph) -> Iterator[tuple[str, Graph, Tensor]]:
    for owner in graph.walk():
        for tensor in owner.tensors.values():
            if tensor.data is not None:
                yield _ref_id(graph, owner, tensor.name), owner, tensor


def _ref_id(main: Graph, owner: Graph, name: str) -> str:
    return name if owner is main else f"{owner.name}/{name}"


def _codable(tensor: Tensor, values: np.ndarray) -> bool:
    # NumPy holds bfloat16 and eight-bit floats as float32, but a quantized value need not be one of them.
    return (tensor.dtype.is_integer or tensor.dtype is DType.FP32) and encodable(values)


def _in_type(name: str, tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """Decoded values in the tensor's own type."""
    if values.shape != tensor.shape:
        raise NnrError(f"NNR tensor {name!r} has shape {values.shape}, TOSA says {tensor.shape}")
    dtype, floats = tensor.dtype, values.dtype.kind == "f"
    if dtype.is_integer and floats:
        # Integers that were quantized (`Settings.integer_step`) come back as floats.
        values = np.clip(np.rint(values.astype(np.float64)), dtype.min, dtype.max)
    elif not dtype.is_integer and not (dtype is DType.FP32 and floats):
        raise NnrError(f"NNR tensor {name!r} is coded as {values.dtype}, TOSA says {dtype.name.lower()}")
    if dtype.is_integer and values.size and not dtype.min <= values.min() <= values.max() <= dtype.max:
        raise NnrError(f"NNR tensor {name!r} has values outside {dtype.name.lower()}")
    return values.astype(dtype.numpy)
