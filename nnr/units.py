"""NNR units as data (clauses 7.3 and 7.4): what the reader returns and the writer takes."""

import enum
from dataclasses import dataclass, field


class UnitType(enum.IntEnum):
    """nnr_unit_type (Table 6); 7..127 are reserved, 128..255 unspecified."""

    STR = 0
    MPS = 1
    LPS = 2
    TPL = 3
    QNT = 4
    NDU = 5
    AGG = 6


class StorageFormat(enum.IntEnum):
    """topology_storage_format and quantization_storage_format.

    TOSA is this project's: the text leaves 128 to 255 to users, and gives TOSA no number.
    """

    NNEF = 0
    ONNX = 1
    TOSA = 128


class Compression(enum.IntEnum):
    """compression_format: NNR_PT_RAW and NNR_DFL."""

    RAW = 0
    DFL = 1


class AggregateType(enum.IntEnum):
    """nnr_aggregate_unit_type; XYZ_1 and XYZ_2 are placeholders in the text."""

    GEN = 0
    XYZ_1 = 1
    XYZ_2 = 2


# quantization_method_flags: bits, combined by OR (E-41).
NNR_QSU = 0x01
NNR_QCB = 0x02
# Inferred when no model parameter set gives them (E-18, E-35).
DEFAULT_QP_DENSITY = 2
DEFAULT_QUANTIZATION_PARAMETER = 0
DEFAULT_CABAC_UNARY_LENGTH = 10


@dataclass(frozen=True)
class SparsificationPoint:
    """One threshold of sparsification_performance_map(), with the accuracies it leads to. Metadata only."""

    threshold: float
    non_zero_ratio: float
    nn_accuracy: float
    class_accuracies: tuple[float, ...] = ()


@dataclass(frozen=True)
class QuantizationMap:
    """quantization_map() in this project's syntax (E-45): pairs of index and value. Metadata only."""

    entries: tuple[tuple[int, float], ...]
    index_bits: int = 8
    compressed: bool = False


@dataclass(frozen=True)
class StartUnit:
    """NNR_STR: the decoder forgets everything it knew."""

    type = UnitType.STR


@dataclass(frozen=True)
class ModelParameterSet:
    """NNR_MPS (7.3.5.2). qp_density and quantization_parameter are coded with NNR_QSU only; else the inferred ones.

    sparsification: None when sparsification_flag is 0.
    """

    topology_carriage_flag: bool = False
    quantization_method_flags: int = NNR_QSU
    qp_density: int = DEFAULT_QP_DENSITY
    quantization_parameter: int = DEFAULT_QUANTIZATION_PARAMETER
    sparsification: tuple[SparsificationPoint, ...] | None = None
    ctu_partition_flag: bool = False
    max_ctu_dim_flag: int = 0
    type = UnitType.MPS


@dataclass(frozen=True)
class LayerParameterSet:
    """NNR_LPS (7.3.5.3): metadata of the data units that follow, without effect on decoding (E-43, E-44)."""

    independently_decodable_flag: int = 0
    quantization_method_flags: int = 0
    quantization_step_size: int = 0
    quantization_map: QuantizationMap | None = None
    sparsification: tuple[SparsificationPoint, ...] | None = None
    type = UnitType.LPS


@dataclass(frozen=True)
class TopologyUnit:
    """NNR_TPL: the network's structure. `data` is NNEF text in UTF-8, or an ONNX protobuf."""

    storage_format: StorageFormat
    data: bytes
    compression: Compression = Compression.RAW
    type = UnitType.TPL


@dataclass(frozen=True)
class QuantizationUnit:
    """NNR_QNT: quantization information of the model's format, laid out like a topology."""

    storage_format: StorageFormat
    data: bytes
    compression: Compression = Compression.RAW
    type = UnitType.QNT


@dataclass(frozen=True)
class DataUnit:
    """NNR_NDU: one coded tensor. `payload` is that of `decode_tensor`; None means not signalled.

    payload_type: 0..3 of Table 3, or a reserved value, which can be listed but not decoded.
    ref_ids: more than one when the unit has topology_elements_ids_list().
    """

    payload_type: int
    ref_ids: tuple[str, ...]
    payload: bytes
    tensor_dimensions: tuple[int, ...] | None = None
    cabac_unary_length: int | None = None
    codebook: tuple[float, ...] = ()
    codebook_zero_offset: int = 0
    decompressed_data_format: int | None = None
    type = UnitType.NDU


@dataclass(frozen=True)
class PublishedDataUnit(DataUnit):
    """NNR_NDU of a published edition: the flag of dependent quantization stands in its header."""

    dq_flag: bool = False


@dataclass(frozen=True)
class AggregateUnit:
    """NNR_AGG: a group of at least two units.

    quant_bitdepths and ctu_scan_orders: per unit, for the placeholder types XYZ_1 and XYZ_2 only.
    """

    units: tuple["Unit", ...]
    aggregate_type: AggregateType = AggregateType.GEN
    entry_points: bool = False
    quant_bitdepths: tuple[int, ...] = ()
    ctu_scan_orders: tuple[int, ...] = ()
    type = UnitType.AGG


@dataclass(frozen=True)
class SkippedUnit:
    """A reserved or unspecified unit: its type and its bytes after the three bytes of the common header."""

    unit_type: int
    data: bytes


Unit = (
    StartUnit
    | ModelParameterSet
    | LayerParameterSet
    | TopologyUnit
    | QuantizationUnit
    | DataUnit
    | AggregateUnit
    | SkippedUnit
)


@dataclass(frozen=True)
class Placed:
    """A unit and where it was read. `depth`: aggregates around it; `parts`: units its payload came in.

    not_independent: independently_decodable_flag as coded, where 1 means not independent (E-25).
    aggregate: type of the aggregate around it; a placeholder's wherever one is around it.
    """

    unit: Unit
    offset_bytes: int
    size_bytes: int
    depth: int = 0
    parts: int = 1
    not_independent: bool = False
    aggregate: AggregateType | None = field(default=None)
