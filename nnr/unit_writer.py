"""Bytes out of units: the mirror of the reader (7.3)."""

from collections.abc import Iterable
from dataclasses import replace

from tosaic.nnr.bits import BitWriter
from tosaic.nnr.deflate import MAX_INFLATED_BYTES, deflate
from tosaic.nnr.errors import NnrError
from tosaic.nnr.payload import PayloadType
from tosaic.nnr.units import (
    NNR_QCB,
    NNR_QSU,
    AggregateType,
    AggregateUnit,
    Compression,
    DataUnit,
    LayerParameterSet,
    ModelParameterSet,
    QuantizationMap,
    QuantizationUnit,
    SkippedUnit,
    SparsificationPoint,
    StartUnit,
    StorageFormat,
    TopologyUnit,
    Unit,
    UnitType,
)


def compression_for(data: bytes) -> Compression:
    """Deflated, unless readers would take the data for a deflate bomb."""
    return Compression.DFL if len(data) < MAX_INFLATED_BYTES else Compression.RAW


def write_units(units: Iterable[Unit]) -> bytes:
    """A bitstream of `units`; raises NnrError on a field that does not fit. The first should be a StartUnit."""
    return b"".join(write_unit(unit) for unit in units)


def write_unit(unit: Unit, *, part_bytes: int | None = None) -> bytes:
    """One unit, or several with partial_data_counter counting down when its payload exceeds `part_bytes`."""
    if isinstance(unit, SkippedUnit):
        return _framed(unit.unit_type, unit.data, b"", 0, False)
    if isinstance(unit, AggregateUnit):
        return _aggregate(unit)
    header, payload = _header(unit), _payload(unit)
    if part_bytes is None or len(payload) <= part_bytes:
        return _framed(unit.type, header, payload, 0, False)
    pieces = [payload[start : start + part_bytes] for start in range(0, len(payload), part_bytes)]
    if len(pieces) > 256:
        raise NnrError(
            f"NNR_{unit.type.name} payload needs {len(pieces)} parts; partial_data_counter counts 256"
        )
    # Parts depend on each other: independently_decodable_flag 1 says so (E-25).
    return b"".join(
        _framed(unit.type, header, piece, len(pieces) - 1 - number, True)
        for number, piece in enumerate(pieces)
    )


def _framed(unit_type: int, header: bytes, payload: bytes, counter: int, not_independent: bool) -> bytes:
    """Frames nnr_unit(): size, common header, type-specific header, payload."""
    length = 3 + len(header) + len(payload)
    writer = BitWriter()
    long_form = length + 2 >= 1 << 15
    writer.u(1, int(long_form), "nnr_unit_size_flag")
    writer.u(31 if long_form else 15, length + (4 if long_form else 2), "nnr_unit_size")
    writer.u(8, unit_type, "nnr_unit_type")
    writer.u(8, counter, "partial_data_counter")
    writer.u(1, int(not_independent), "independently_decodable_flag")
    writer.u(7, 0, "reserved")
    return writer.octets(header + payload)


def _header(unit: Unit) -> bytes:
    writer = BitWriter()
    if isinstance(unit, TopologyUnit | QuantizationUnit):
        writer.u(8, unit.storage_format, "topology_storage_format")
        _compression(writer, unit.compression)
    elif isinstance(unit, DataUnit):
        _data_unit_header(writer, unit)
    return writer.octets()


def _compression(writer: BitWriter, compression: Compression) -> None:
    if compression is Compression.RAW:
        # The flag, 0, and byte_alignment(): 0x40, as the text has it (E-32).
        writer.u(1, 0, "compressed_topology_flag")
        writer.byte_alignment()
    else:
        writer.u(1, 1, "compressed_topology_flag")
        writer.u(7, compression, "compression_format")


def _data_unit_header(writer: BitWriter, unit: DataUnit) -> None:
    parameters = unit.tensor_dimensions is not None or unit.cabac_unary_length is not None
    writer.u(5, unit.payload_type, "nnr_compressed_data_unit_payload_type")
    writer.u(1, int(len(unit.ref_ids) != 1), "nnr_multiple_topology_elements_present_flag")
    writer.u(1, int(unit.decompressed_data_format is not None), "nnr_decompressed_data_format_present_flag")
    writer.u(1, int(parameters), "input_parameters_present_flag")
    if not unit.ref_ids:
        raise NnrError("a compressed data unit needs a ref_id")
    if len(unit.ref_ids) != 1:
        writer.u(8, len(unit.ref_ids), "count_topology_elements")
    for ref_id in unit.ref_ids:
        writer.st(ref_id, "ref_id")
    if unit.payload_type == PayloadType.CB_FLOAT32:
        writer.u(8, unit.codebook_zero_offset, "codebook_zero_offset")
        writer.u(16, len(unit.codebook), "codebook_size")
        for value in unit.codebook:
            writer.flt32(value)
    if unit.decompressed_data_format is not None:
        writer.u(7, unit.decompressed_data_format, "nnr_decompressed_data_format")
    if parameters:
        writer.u(1, int(unit.tensor_dimensions is not None), "tensor_dimensions_flag")
        writer.u(1, int(unit.cabac_unary_length is not None), "cabac_unary_length_flag")
        if unit.tensor_dimensions is not None:
            writer.u(8, len(unit.tensor_dimensions), "count_tensor_dimensions")
            for size in unit.tensor_dimensions:
                writer.u(16, size, "tensor_dimensions")
        if unit.cabac_unary_length is not None:
            writer.u(8, unit.cabac_unary_length, "cabac_unary_length")
    writer.byte_alignment()


def _payload(unit: Unit) -> bytes:
    writer = BitWriter()
    if isinstance(unit, DataUnit):
        return unit.payload
    if isinstance(unit, TopologyUnit | QuantizationUnit):
        if unit.storage_format is StorageFormat.NNEF and b"\0" in unit.data:
            raise NnrError("NNEF text holds a 0x00, which ends a string")
        # A terminator always: a reader drops one 0x00, which must not be the protobuf's own last byte (E-31).
        data = unit.data + b"\0"
        return deflate(data) if unit.compression is Compression.DFL else data
    if isinstance(unit, ModelParameterSet):
        _model_parameter_set(writer, unit)
    elif isinstance(unit, LayerParameterSet):
        _layer_parameter_set(writer, unit)
    else:
        assert isinstance(unit, StartUnit)
    return writer.octets()


def _model_parameter_set(writer: BitWriter, unit: ModelParameterSet) -> None:
    writer.u(1, int(unit.topology_carriage_flag), "topology_carriage_flag")
    writer.u(1, int(unit.sparsification is not None), "sparsification_flag")
    writer.u(6, unit.quantization_method_flags, "quantization_method_flags")
    if unit.quantization_method_flags & NNR_QSU:
        writer.u(3, unit.qp_density, "qp_density")
        writer.i(13, unit.quantization_parameter, "quantization_parameter")
    if unit.sparsification is not None:
        _sparsification_map(writer, unit.sparsification)
    writer.u(1, int(unit.ctu_partition_flag), "ctu_partition_flag")
    writer.u(2, unit.max_ctu_dim_flag if unit.ctu_partition_flag else 0, "max_ctu_dim_flag")
    writer.u(5, 0, "nnr_reserved_zero_5bits")


def _layer_parameter_set(writer: BitWriter, unit: LayerParameterSet) -> None:
    writer.u(1, unit.independently_decodable_flag, "independently_decodable_flag")
    writer.u(1, int(unit.sparsification is not None), "sparsification_flag")
    writer.u(6, unit.quantization_method_flags, "quantization_method_flags")
    if unit.quantization_method_flags & NNR_QSU:
        writer.u(8, unit.quantization_step_size, "quantization_step_size")
    if unit.quantization_method_flags & NNR_QCB:
        _quantization_map(writer, unit.quantization_map or QuantizationMap(()))
    if unit.sparsification is not None:
        _sparsification_map(writer, unit.sparsification)


def _sparsification_map(writer: BitWriter, points: tuple[SparsificationPoint, ...]) -> None:
    # One more than the entries, as the loops of the text count (E-42).
    writer.u(8, len(points) + 1, "count_thresholds")
    for point in points:
        for value in (point.threshold, point.non_zero_ratio, point.nn_accuracy):
            writer.flt32(value)
        writer.u(8, len(point.class_accuracies) + 1, "count_classes")
        for value in point.class_accuracies:
            writer.flt32(value)


def _quantization_map(writer: BitWriter, table: QuantizationMap) -> None:
    if table.index_bits not in (8, 16, 32):
        raise NnrError(f"quantization_map indices have 8, 16 or 32 bits, not {table.index_bits}")
    pairs = BitWriter()
    for index, value in table.entries:
        pairs.u(table.index_bits, index, "index")
        pairs.flt32(value)
    data = deflate(pairs.octets()) if table.compressed else pairs.octets()
    _compression(writer, Compression.DFL if table.compressed else Compression.RAW)
    writer.u(8, {8: 0, 16: 1, 32: 2}[table.index_bits], "index_precision")
    writer.u(32, len(data), "quantization_map_bytes")
    writer.octets(data)


def _aggregate(unit: AggregateUnit) -> bytes:
    """nnr_aggregate_unit_header() and its units; entry points beyond u(16) are left out (E-39)."""
    members = [write_unit(member) for member in unit.units]
    if len(members) < 2:
        raise NnrError(f"an aggregate unit holds at least 2 units, not {len(members)}")
    placeholder = unit.aggregate_type is not AggregateType.GEN
    if placeholder and len(unit.quant_bitdepths) != len(members):
        raise NnrError(f"an aggregate of type {unit.aggregate_type.name} needs a quant_bitdepth per unit")
    common = 4 + (len(members) if placeholder else 0)
    total = 5 + common + sum(map(len, members))
    offset = (7 if total + 3 * len(members) >= 1 << 15 else 5) + common + 3 * len(members)
    offsets = []
    for member in members:
        offsets.append(offset)
        offset += len(member)
    if unit.entry_points and offsets[-1] > 65535:
        return _aggregate(replace(unit, entry_points=False))
    writer = BitWriter()
    writer.u(8, unit.aggregate_type, "nnr_aggregate_unit_type")
    writer.u(1, int(unit.entry_points), "entry_points_present_flag")
    writer.u(7, 0, "nnr_reserved_zero_7bits")
    writer.u(16, len(members) - 2, "num_of_nnr_units_minus2")
    if unit.entry_points:
        for part, start in zip(unit.units, offsets, strict=True):
            kind = part.unit_type if isinstance(part, SkippedUnit) else part.type
            writer.u(8, kind, "nnr_unit_type")
            writer.u(16, start, "nnr_unit_entry_point")
    if placeholder:
        orders = unit.ctu_scan_orders or (0,) * len(members)
        for depth, order in zip(unit.quant_bitdepths, orders, strict=True):
            writer.u(5, depth, "quant_bitdepth")
            writer.u(1, order, "ctu_scan_order")
            writer.u(2, 0, "nnr_reserved_zero_2bits")
    return _framed(UnitType.AGG, writer.octets(), b"".join(members), 0, False)
