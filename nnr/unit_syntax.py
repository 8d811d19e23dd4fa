"""Reads the syntax of unit headers and payloads (7.3.4, 7.3.5)."""

from typing import Any

from tosaic.nnr.bits import BitReader
from tosaic.nnr.deflate import inflate
from tosaic.nnr.errors import NnrError
from tosaic.nnr.payload import PayloadType
from tosaic.nnr.units import (
    DEFAULT_QP_DENSITY,
    DEFAULT_QUANTIZATION_PARAMETER,
    NNR_QCB,
    NNR_QSU,
    Compression,
    LayerParameterSet,
    ModelParameterSet,
    QuantizationMap,
    SparsificationPoint,
    StorageFormat,
)

# Of one quantization_map(): a codebook has at most 65535 entries. The second limit is for a bitstream's maps together:
# zlib makes a thousand bytes of one.
MAX_MAP_ENTRIES = 1 << 16
MAX_TOTAL_MAP_ENTRIES = 1 << 17


def read_stored_header(reader: BitReader) -> tuple[int, Compression]:
    """Reads nnr_topology_unit_header() or nnr_quantization_unit_header(): storage format and compression."""
    storage_format = reader.u(8, "topology_storage_format")
    return storage_format, read_compression(reader)


def read_compression(reader: BitReader) -> Compression:
    """A compressed flag, then compression_format or byte_alignment() (E-32)."""
    if not reader.flag("compressed_topology_flag"):
        reader.byte_alignment()
        return Compression.RAW
    value = reader.u(7, "compression_format")
    if value > Compression.DFL:
        raise reader.error(f"compression_format {value} is reserved")
    return Compression(value)


def read_stored_payload(
    storage_format: StorageFormat, compression: Compression, payload: bytes, origin: str, limit_bytes: int
) -> bytes:
    """topology_data_str or quantization_data_str, without its terminator (E-31)."""
    if compression is Compression.DFL:
        data = inflate(payload, origin, limit_bytes)
        data = data[:-1] if data.endswith(b"\0") else data
    elif storage_format is not StorageFormat.NNEF:
        data = payload[:-1] if payload.endswith(b"\0") else payload
    else:
        data, terminator, rest = payload.partition(b"\0")
        if not terminator:
            raise NnrError(f"{origin}: the NNEF text has no terminating 0x00")
        if rest.strip(b"\0"):
            raise NnrError(f"{origin}: {len(rest)} bytes follow the NNEF text")
    if storage_format is StorageFormat.NNEF:
        if b"\0" in data:
            raise NnrError(f"{origin}: the NNEF text holds a 0x00")
        try:
            data.decode()
        except UnicodeDecodeError:
            raise NnrError(f"{origin}: the NNEF text is not UTF-8") from None
    return data


def read_data_unit_header(reader: BitReader) -> dict[str, Any]:
    """nnr_compressed_data_unit_header() (7.3.4.6): the fields of a DataUnit but its payload."""
    payload_type = reader.u(5, "nnr_compressed_data_unit_payload_type")
    several = reader.flag("nnr_multiple_topology_elements_present_flag")
    has_format = reader.flag("nnr_decompressed_data_format_present_flag")
    has_parameters = reader.flag("input_parameters_present_flag")
    count = reader.u(8, "count_topology_elements") if several else 1
    if count == 0:
        raise reader.error("count_topology_elements is 0")
    fields: dict[str, Any] = {
        "payload_type": payload_type,
        "ref_ids": tuple(reader.st("ref_id") for _ in range(count)),
    }
    if payload_type == PayloadType.CB_FLOAT32:
        fields["codebook_zero_offset"] = reader.u(8, "codebook_zero_offset")
        size = reader.u(16, "codebook_size")
        fields["codebook"] = reader.flt32_list(size, "codebook")
    if has_format:
        found = reader.u(7, "nnr_decompressed_data_format")
        # Table 2: TENSOR_INT32 0, TENSOR_FLOAT32 1; the payload type implies it (E-36).
        if found > 1 or (payload_type <= 3 and found != int(payload_type != PayloadType.INT32)):
            raise reader.error(
                f"nnr_decompressed_data_format {found} contradicts payload type {payload_type}"
            )
        fields["decompressed_data_format"] = found
    if has_parameters:
        has_dimensions = reader.flag("tensor_dimensions_flag")
        has_length = reader.flag("cabac_unary_length_flag")
        if has_dimensions:
            dimensions = reader.u(8, "count_tensor_dimensions")
            fields["tensor_dimensions"] = tuple(reader.u(16, "tensor_dimensions") for _ in range(dimensions))
        if has_length:
            fields["cabac_unary_length"] = reader.u(8, "cabac_unary_length")
    reader.byte_alignment()
    return fields


def read_model_parameter_set(reader: BitReader) -> ModelParameterSet:
    """Reads nnr_model_parameter_set_payload() (7.3.5.2)."""
    topology_carriage_flag = reader.flag("topology_carriage_flag")
    sparsification_flag = reader.flag("sparsification_flag")
    methods = reader.u(6, "quantization_method_flags")
    density, parameter = DEFAULT_QP_DENSITY, DEFAULT_QUANTIZATION_PARAMETER
    if methods & NNR_QSU:
        density = reader.u(3, "qp_density")
        parameter = reader.i(13, "quantization_parameter")
    sparsification = read_sparsification_map(reader) if sparsification_flag else None
    ctu_partition_flag = reader.flag("ctu_partition_flag")
    max_ctu_dim_flag = 0
    if ctu_partition_flag:
        max_ctu_dim_flag = reader.u(2, "max_ctu_dim_flag")
        reader.u(5, "nnr_reserved_zero_5bits")
    else:
        reader.u(7, "nnr_reserved_zero_7bits")
    return ModelParameterSet(
        topology_carriage_flag,
        methods & (NNR_QSU | NNR_QCB),
        density,
        parameter,
        sparsification,
        ctu_partition_flag,
        max_ctu_dim_flag,
    )


def read_layer_parameter_set(reader: BitReader) -> LayerParameterSet:
    """Reads nnr_layer_parameter_set_unit_payload() (7.3.5.3)."""
    independently_decodable_flag = reader.u(1, "independently_decodable_flag")
    sparsification_flag = reader.flag("sparsification_flag")
    methods = reader.u(6, "quantization_method_flags")
    step_size = reader.u(8, "quantization_step_size") if methods & NNR_QSU else 0
    quantization_map = read_quantization_map(reader) if methods & NNR_QCB else None
    sparsification = read_sparsification_map(reader) if sparsification_flag else None
    return LayerParameterSet(
        independently_decodable_flag,
        methods & (NNR_QSU | NNR_QCB),
        step_size,
        quantization_map,
        sparsification,
    )


def read_sparsification_map(reader: BitReader) -> tuple[SparsificationPoint, ...]:
    """sparsification_performance_map(): both counts are one more than the entries (E-42)."""
    points = []
    for _ in range(reader.u(8, "count_thresholds") - 1):
        threshold = reader.flt32("sparsification_threshold")
        ratio = reader.flt32("non_zero_ratio")
        accuracy = reader.flt32("nn_accuracy")
        classes = max(0, reader.u(8, "count_classes") - 1)
        points.append(
            SparsificationPoint(threshold, ratio, accuracy, reader.flt32_list(classes, "nn_class_accuracy"))
        )
    return tuple(points)


def read_quantization_map(reader: BitReader) -> QuantizationMap:
    """quantization_map(), whose syntax is this project's (E-45)."""
    compression = read_compression(reader)
    precision = reader.u(8, "index_precision")
    if precision > 2:
        raise reader.error(f"index_precision {precision} is reserved")
    data = reader.octets(reader.u(32, "quantization_map_bytes"), "quantization_map_data")
    bits = 8 << precision
    limit_bytes = MAX_MAP_ENTRIES * (bits // 8 + 4)
    if compression is Compression.DFL:
        data = inflate(data, "quantization_map_data", limit_bytes)
    if len(data) > limit_bytes:
        raise reader.error(f"quantization_map_data has more than {MAX_MAP_ENTRIES} entries")
    if len(data) % (bits // 8 + 4):
        raise reader.error(
            f"quantization_map_data of {len(data)} bytes is no row of {bits}-bit indices and flt(32)"
        )
    pairs = BitReader(data, 0, len(data), "quantization_map_data")
    return QuantizationMap(
        tuple((pairs.u(bits, "index"), pairs.flt32("value")) for _ in range(len(data) // (bits // 8 + 4))),
        bits,
        compression is Compression.DFL,
    )
