"""Units of the published editions of ISO/IEC 15938-17, as far as streams of the public codec nncodec 2.1.3 show them.

Names of syntax elements of NNR_MPS are those that the codec reports, those of the data unit's header are from memory of
public descriptions: what counts are widths and values. Whatever no stream at hand shows is refused by its name, never
guessed (docs/nnr.md, Editions).
"""

import warnings
from collections.abc import Iterator

from tosaic.nnr.bits import BitReader
from tosaic.nnr.errors import NnrError, NnrWarning
from tosaic.nnr.payload import PayloadType
from tosaic.nnr.units import (
    NNR_QSU,
    ModelParameterSet,
    Placed,
    PublishedDataUnit,
    SkippedUnit,
    StartUnit,
    Unit,
    UnitType,
)

# NNR_STR: nnr_unit_size 4, and six bits of type 0 in front of two flags, of which the first is set. The draft has no
# unit that is so short.
PUBLISHED_START = b"\x00\x04\x02"
# NNR_TPL of the codec: the storage and compression format 0, and no topology.
NO_TOPOLOGY = bytes(3)
# A number of more bits holds no size that a memory has.
MAX_ZEROS = 32
MAX_DIMENSIONS = 255


def published_units(data: bytes) -> Iterator[Placed]:
    """The units of a bitstream of a published edition. Raises NnrError on damage and on syntax not established."""
    start = 0
    parameters_seen = False
    while start < len(data):
        reader = BitReader(data, start, len(data), f"NNR unit at byte {start} (published edition)")
        size = reader.u(31 if reader.flag("nnr_unit_size_flag") else 15, "nnr_unit_size")
        header_bytes = 5 if data[start] >> 7 else 3
        if not header_bytes <= size <= len(data) - start:
            raise NnrError(
                f"NNR unit at byte {start} has nnr_unit_size {size}; {header_bytes} to {len(data) - start} are possible"
            )
        unit_type = reader.u(6, "nnr_unit_type")
        not_independent = not reader.flag("independently_decodable_flag")
        if reader.flag("partial_data_counter_present_flag"):
            raise reader.error(
                "parts of units (partial_data_counter) of a published edition are not supported"
            )
        name = f"NNR_{UnitType(unit_type).name}" if unit_type <= UnitType.AGG else f"type {unit_type}"
        origin = f"NNR unit at byte {start} ({name}, published edition)"
        inside = BitReader(data, start + header_bytes, start + size, origin)
        unit = _unit(unit_type, inside, parameters_seen)
        parameters_seen = parameters_seen or isinstance(unit, ModelParameterSet)
        yield Placed(unit, start, size, not_independent=not_independent)
        start += size


def _unit(unit_type: int, reader: BitReader, parameters_seen: bool) -> Unit:
    if unit_type == UnitType.STR:
        # general_profile_idc: what it says is said again by the units.
        reader.octets(1, "general_profile_idc")
        _check_end(reader)
        return StartUnit()
    if unit_type == UnitType.MPS:
        return _model_parameter_set(reader)
    if unit_type == UnitType.NDU:
        if not parameters_seen:
            raise reader.error("there is no NNR_MPS before it, which says how its header reads")
        return _data_unit(reader)
    content = reader.rest()
    if unit_type != UnitType.TPL or content != NO_TOPOLOGY:
        warnings.warn(
            str(reader.error("units of this kind are not established for published editions; skipped")),
            NnrWarning,
            stacklevel=4,
        )
    return SkippedUnit(unit_type, content)


def _model_parameter_set(reader: BitReader) -> ModelParameterSet:
    # The topology that it announces is empty; so none is carried.
    reader.flag("topology_carriage_flag")
    for element in (
        "mps_sparsification_flag",
        "mps_pruning_flag",
        "mps_unification_flag",
        "mps_decomposition_performance_map_flag",
    ):
        _expect(reader, 1, 0, element)
    _expect(reader, 3, NNR_QSU, "mps_quantization_method_flags")
    for element in (
        "mps_topology_indexed_reference_flag",
        "base_model_id_present_flag",
        "validation_set_performance_present_flag",
        "metric_type_performance_map_valid_flag",
        "mps_parent_signalling_enabled_flag",
        "nnr_pre_flag",
    ):
        _expect(reader, 1, 0, element)
    _expect(reader, 2, 0, "nnr_reserved_zero_2bits")
    qp_density = reader.u(3, "mps_qp_density")
    quantization_parameter = reader.i(13, "mps_quantization_parameter")
    reader.byte_alignment()
    _check_end(reader)
    return ModelParameterSet(qp_density=qp_density, quantization_parameter=quantization_parameter)


def _data_unit(reader: BitReader) -> PublishedDataUnit:
    payload_type = reader.u(5, "nnr_compressed_data_unit_payload_type")
    if payload_type not in (PayloadType.INT32, PayloadType.FLOAT32):
        raise _unknown(reader, "nnr_compressed_data_unit_payload_type", payload_type)
    _expect(reader, 1, 0, "nnr_multiple_topology_elements_present_flag")
    _expect(reader, 1, 0, "nnr_decompressed_data_format_present_flag")
    _expect(reader, 1, 1, "input_parameters_present_flag")
    name = reader.st("topology_elem_id")
    # Identifiers of devices and parameters, for updates of a model that other streams hold: without effect here.
    _expect(reader, 1, 1, "node_id_present_flag")
    exp_golomb(reader, 1, "device_id")
    exp_golomb(reader, 5, "parameter_id")
    _expect(reader, 6, 0b100000, "the six bits behind parameter_id")
    dq_flag = payload_type == PayloadType.FLOAT32 and reader.flag("dq_flag")
    _expect(reader, 1, 1, "tensor_dimensions_flag")
    _expect(reader, 1, 1, "cabac_unary_length_flag")
    _expect(reader, 4, 0, "compressed_parameter_types")
    count = exp_golomb(reader, 1, "count_tensor_dimensions")
    if count > MAX_DIMENSIONS:
        raise _unknown(reader, "count_tensor_dimensions", count)
    dimensions = tuple(exp_golomb(reader, 7, "tensor_dimensions") for _ in range(count))
    unary_length = reader.u(8, "cabac_unary_length_minus1") + 1
    if count > 1:
        _expect(reader, 6, 0b100000, "first_tensor_dimension_shift and scan_order")
    reader.byte_alignment()
    return PublishedDataUnit(payload_type, (name,), reader.rest(), dimensions, unary_length, dq_flag=dq_flag)


def exp_golomb(reader: BitReader, order: int, element: str) -> int:
    """ue(order): an Exp-Golomb code, zeros that tell its length first."""
    zeros = 0
    while not reader.flag(element):
        zeros += 1
        if zeros > MAX_ZEROS:
            raise reader.error(f"{element} has more than {MAX_ZEROS} zeros in front")
    bits = order + zeros
    return (1 << bits) - (1 << order) + reader.u(bits, element)


def _expect(reader: BitReader, bits: int, value: int, element: str) -> None:
    found = reader.u(bits, element)
    if found != value:
        raise _unknown(reader, element, found)


def _unknown(reader: BitReader, element: str, value: int) -> NnrError:
    return reader.error(
        f"{element} is {value}, whose meaning in the published editions is not established: docs/nnr.md, Editions"
    )


def _check_end(reader: BitReader) -> None:
    rest = len(reader.rest())
    if rest:
        raise reader.error(f"{rest} bytes follow its payload")
