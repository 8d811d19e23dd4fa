"""Bitstreams of tensors as the published editions have them, in the syntax that published_reader.py reads."""

import math
from collections.abc import Sequence

from tosaic.nnr import levels
from tosaic.nnr.bits import BitWriter
from tosaic.nnr.bitstream import Bitstream, CodedTensor
from tosaic.nnr.errors import NnrError
from tosaic.nnr.payload import PayloadType
from tosaic.nnr.published_payload import encode_published
from tosaic.nnr.published_reader import NO_TOPOLOGY, PUBLISHED_START
from tosaic.nnr.units import DEFAULT_QP_DENSITY, DEFAULT_QUANTIZATION_PARAMETER, NNR_QSU, UnitType

GENERAL_PROFILE_IDC = 1
# Six bits of unit type, then independently_decodable_flag 1 and partial_data_counter_present_flag 0.
TYPE_BITS, INDEPENDENT = 6, 0b10
SHORT_SIZE_LIMIT = 1 << 15


def published(found: Bitstream) -> bytes:
    """The tensors of a bitstream of the draft as a bitstream of a published edition, level by level the same.

    Raises NnrError for tensors without dimensions and for payload types other than int32 and float32, whose published
    form is not established.
    """
    scales = {(tensor.qp_density, tensor.quantization_parameter) for tensor in found.tensors}
    if len(scales) > 1:
        raise NnrError(
            f"the tensors have {len(scales)} kinds of model parameters, of which a published file holds one"
        )
    density, parameter = scales.pop() if scales else (DEFAULT_QP_DENSITY, DEFAULT_QUANTIZATION_PARAMETER)
    writer = BitWriter()
    writer.u(8, 1 << 7 | NNR_QSU, "topology_carriage_flag to mps_quantization_method_flags")
    writer.u(8, 0, "mps_topology_indexed_reference_flag to nnr_reserved_zero_2bits")
    writer.u(3, density, "mps_qp_density")
    writer.i(
        13, found.tensors[0].quantization_parameter if found.tensors else 0, "mps_quantization_parameter"
    )
    writer.byte_alignment()
    start = PUBLISHED_START + bytes([GENERAL_PROFILE_IDC])
    units = [start, _unit(UnitType.MPS, writer.octets()), _unit(UnitType.TPL, NO_TOPOLOGY)]
    units += [_unit(UnitType.NDU, _data_unit(tensor, number)) for number, tensor in enumerate(found.tensors)]
    return b"".join(units)


def _unit(unit_type: UnitType, content: bytes) -> bytes:
    header = bytes([unit_type << 8 - TYPE_BITS | INDEPENDENT])
    size = 3 + len(content)
    if size < SHORT_SIZE_LIMIT:
        return size.to_bytes(2, "big") + header + content
    return (1 << 31 | size + 2).to_bytes(4, "big") + header + content


def _data_unit(tensor: CodedTensor, number: int) -> bytes:
    unit = tensor.unit
    is_float = unit.payload_type == PayloadType.FLOAT32
    if not is_float and unit.payload_type != PayloadType.INT32:
        raise NnrError(
            f"tensor {tensor.name!r} is kept without loss or has a codebook, whose form in the published editions is "
            "not established: use --method uniform or dependent"
        )
    dimensions = tuple(tensor.shape())
    if not dimensions or 0 in dimensions:
        raise NnrError(f"tensor {tensor.name!r} of {list(dimensions)} has no form in the published editions")
    qp_bits = 6 + tensor.qp_density if is_float else 0
    found = levels.decode(unit.payload, math.prod(dimensions), tensor.cabac_unary_length, qp_bits=qp_bits)
    if found.dq_flag and not is_float:
        raise NnrError(
            f"tensor {tensor.name!r} of integers has dependent quantization, which a published header lacks"
        )
    # The published header holds lengths from 1 on.
    length = max(tensor.cabac_unary_length, 1)
    writer = BitWriter()
    # One element, no decompressed data format, input parameters.
    writer.u(8, unit.payload_type << 3 | 0b001, "nnr_compressed_data_unit_payload_type")
    writer.st(tensor.name, "topology_elem_id")
    writer.u(1, 1, "node_id_present_flag")
    _exp_golomb(writer, 1, 0, "device_id")
    _exp_golomb(writer, 5, number, "parameter_id")
    writer.u(6, 0b100000, "the six bits behind parameter_id")
    if is_float:
        writer.u(1, int(found.dq_flag), "dq_flag")
    writer.u(6, 0b110000, "tensor_dimensions_flag, cabac_unary_length_flag, compressed_parameter_types")
    _dimensions(writer, dimensions, length)
    payload = encode_published(
        found.levels,
        dimensions,
        cabac_unary_length=length,
        dq_flag=found.dq_flag,
        qp=found.qp,
        qp_bits=qp_bits,
    )
    return writer.octets(payload)


def _dimensions(writer: BitWriter, dimensions: Sequence[int], unary_length: int) -> None:
    _exp_golomb(writer, 1, len(dimensions), "count_tensor_dimensions")
    for size in dimensions:
        _exp_golomb(writer, 7, size, "tensor_dimensions")
    writer.u(8, unary_length - 1, "cabac_unary_length_minus1")
    if len(dimensions) > 1:
        writer.u(6, 0b100000, "first_tensor_dimension_shift and scan_order")
    writer.byte_alignment()


def _exp_golomb(writer: BitWriter, order: int, value: int, element: str) -> None:
    """Writes ue(order)."""
    bits = (value + (1 << order)).bit_length()
    writer.u(bits - 1 - order, 0, element)
    writer.u(bits, value + (1 << order), element)
