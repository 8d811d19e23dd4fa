"""The decoder of a whole bitstream (clause 5): parameter sets applied, outputs as soon as they are complete."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tosaic.nnr.errors import NnrError, NnrWarning
from tosaic.nnr.levels import MAX_LEVELS_PER_BIT
from tosaic.nnr.memory import ITEM_BYTES, MemoryBudget, default_limit_bytes
from tosaic.nnr.payload import PayloadType, decode_tensor, dequantize, shaped
from tosaic.nnr.published_payload import decode_published
from tosaic.nnr.unit_reader import read_units
from tosaic.nnr.units import (
    DEFAULT_CABAC_UNARY_LENGTH,
    DEFAULT_QP_DENSITY,
    DEFAULT_QUANTIZATION_PARAMETER,
    NNR_QSU,
    AggregateType,
    DataUnit,
    LayerParameterSet,
    ModelParameterSet,
    Placed,
    PublishedDataUnit,
    QuantizationUnit,
    StartUnit,
    TopologyUnit,
)

# A unit of five bytes is an object of hundreds; no network has as many tensors.
MAX_UNITS = 1 << 16
# A parsed topology, and the text it came from.
PARSED_COPIES = 3


@dataclass(frozen=True)
class CodedTensor:
    """A data unit with what the parameter sets before it say; `decode` gives the tensor."""

    unit: DataUnit
    qp_density: int = DEFAULT_QP_DENSITY
    quantization_parameter: int = DEFAULT_QUANTIZATION_PARAMETER
    # The block scan of 7.4.2.4.2 has no syntax; such tensors are listed, never decoded by guess (E-40).
    block_scan: bool = False
    layer: LayerParameterSet | None = None
    # Of memory for decoding; None follows from the payload's length.
    limit_bytes: int | None = None

    @property
    def name(self) -> str:
        """The first ref_id."""
        return self.unit.ref_ids[0]

    @property
    def cabac_unary_length(self) -> int:
        """The length as signalled, or 10 (E-35)."""
        length = self.unit.cabac_unary_length
        return DEFAULT_CABAC_UNARY_LENGTH if length is None else length

    def shape(self, dimensions: Sequence[int] | None = None) -> Sequence[int]:
        """The signalled dimensions, or `dimensions` where none are signalled; NnrError without either."""
        shape = dimensions if self.unit.tensor_dimensions is None else self.unit.tensor_dimensions
        if shape is None:
            raise NnrError(f"NNR tensor {self.name!r} signals no tensor_dimensions: they must be given")
        return shape

    def decode_kept(
        self, dimensions: Sequence[int] | None, budget: MemoryBudget, kept_item_bytes: int = ITEM_BYTES
    ) -> np.ndarray:
        """Decodes, as `decode` does, a tensor that is kept beside others, in `kept_item_bytes` per item.

        Raises NnrError when they are above the memory limit together.
        """
        count = math.prod(self.shape(dimensions))
        # Rows that a published edition skips take no bits.
        if isinstance(self.unit, PublishedDataUnit) or count <= MAX_LEVELS_PER_BIT * 8 * len(
            self.unit.payload
        ):
            # Otherwise `decode` tells what is wrong.
            budget.take(self.name, count, kept_item_bytes * count, len(self.unit.payload))
        return self.decode(dimensions)

    def decode(self, dimensions: Sequence[int] | None = None) -> np.ndarray:
        """The tensor: int32 or float32 of the signalled dimensions, or of `dimensions` where none are signalled.

        Raises NnrError on a damaged payload, a reserved payload type, a block scan, or missing dimensions.
        """
        unit = self.unit
        if unit.payload_type > PayloadType.RAW_FLOAT32:
            raise NnrError(f"NNR tensor {self.name!r} has the reserved payload type {unit.payload_type}")
        if self.block_scan:
            raise NnrError(
                f"NNR tensor {self.name!r} is scanned in CTU blocks, which the text does not define"
            )
        shape = self.shape(dimensions)
        try:
            if isinstance(unit, PublishedDataUnit):
                return self._decode_published(unit)
            return decode_tensor(
                unit.payload,
                shape,
                payload_type=PayloadType(unit.payload_type).name.lower(),
                cabac_unary_length=self.cabac_unary_length,
                qp_density=self.qp_density,
                quantization_parameter=self.quantization_parameter,
                codebook=unit.codebook,
                codebook_zero_offset=unit.codebook_zero_offset,
                limit_bytes=self.limit_bytes,
            )
        except NnrError as error:
            raise NnrError(f"NNR tensor {self.name!r}: {error}") from None

    def _decode_published(self, unit: PublishedDataUnit) -> np.ndarray:
        """The header of a published edition always has dimensions, and only the two payload types of levels."""
        assert unit.tensor_dimensions is not None
        is_float = unit.payload_type == PayloadType.FLOAT32
        levels, qp = decode_published(
            unit.payload,
            unit.tensor_dimensions,
            cabac_unary_length=self.cabac_unary_length,
            dq_flag=unit.dq_flag,
            qp_bits=6 + self.qp_density if is_float else 0,
            limit_bytes=self.limit_bytes,
        )
        values = dequantize(levels, qp + self.quantization_parameter, self.qp_density) if is_float else levels
        return shaped(values, unit.tensor_dimensions)


Output = TopologyUnit | QuantizationUnit | ModelParameterSet | LayerParameterSet | CodedTensor


@dataclass
class _State:
    """What the decoder remembers between units; NNR_STR replaces it."""

    model: ModelParameterSet | None = None
    layer: LayerParameterSet | None = None
    seen: set[type] = field(default_factory=set)


def decode_units(units: Iterator[Placed]) -> Iterator[Output]:
    """Outputs in stream order, each as soon as its last unit is read; aggregates are opened.

    Warns about parameter sets that are missing or contradict the units (E-53). Raises NnrError on two topologies.
    """
    state = _State()
    for placed in units:
        unit = placed.unit
        if isinstance(unit, StartUnit):
            _check_end(state)
            state = _State()
        elif isinstance(unit, TopologyUnit | QuantizationUnit):
            name = f"NNR_{unit.type.name}"
            if type(unit) in state.seen:
                raise NnrError(
                    f"NNR unit at byte {placed.offset_bytes}: a second {name} without partial_data_counter"
                )
            if DataUnit in state.seen:
                _warn(f"NNR unit at byte {placed.offset_bytes}: {name} after the first NNR_NDU (A.3, B.3)")
            yield unit
        elif isinstance(unit, ModelParameterSet):
            state.model = unit
            yield unit
        elif isinstance(unit, LayerParameterSet):
            state.layer = unit
            yield unit
        elif isinstance(unit, DataUnit):
            yield _coded_tensor(unit, state, placed.aggregate)
        state.seen.add(type(unit))
    _check_end(state)


def _coded_tensor(unit: DataUnit, state: _State, aggregate: AggregateType | None) -> CodedTensor:
    model = state.model
    block_scan = aggregate in (AggregateType.XYZ_1, AggregateType.XYZ_2)
    if model is None:
        return CodedTensor(unit, block_scan=block_scan, layer=state.layer)
    uniform = bool(model.quantization_method_flags & NNR_QSU)
    return CodedTensor(
        unit,
        model.qp_density if uniform else DEFAULT_QP_DENSITY,
        model.quantization_parameter if uniform else DEFAULT_QUANTIZATION_PARAMETER,
        block_scan or model.ctu_partition_flag,
        state.layer,
    )


def _check_end(state: _State) -> None:
    """Checks the end of a network, at the end or before the next NNR_STR."""
    # A bare unit in an ONNX tensor has no parameter set by design (B.4).
    if state.seen >= {StartUnit, DataUnit} and state.model is None:
        _warn("NNR bitstream has no NNR_MPS; qp_density 2 and quantization_parameter 0 are inferred")
    elif state.model and state.model.topology_carriage_flag != (TopologyUnit in state.seen):
        said = int(state.model.topology_carriage_flag)
        _warn(f"NNR topology_carriage_flag is {said}, which is not what the units present say")


def _warn(message: str) -> None:
    warnings.warn(message, NnrWarning, stacklevel=3)


@dataclass(frozen=True)
class Bitstream:
    """Everything a bitstream holds. Tensors are decoded on demand."""

    units: tuple[Placed, ...]
    topology: TopologyUnit | None
    quantization: QuantizationUnit | None
    tensors: tuple[CodedTensor, ...]
    limit_bytes: int

    def budget(self) -> MemoryBudget:
        """What the tensors may take together if they are all decoded and kept, beside the topology as it is parsed."""
        topology_bytes = len(self.topology.data) if self.topology else 0
        return MemoryBudget(max(self.limit_bytes - PARSED_COPIES * topology_bytes, 0))


def read_bitstream(data: bytes, *, start_required: bool = True, limit_bytes: int | None = None) -> Bitstream:
    """Read all of a bitstream; raises NnrError on damage outside the payloads, which `CodedTensor.decode` judges.

    limit_bytes: of memory for reading and decoding; None allows 64 MiB and 8 times the input.
    """
    allowed_bytes = default_limit_bytes(len(data)) if limit_bytes is None else limit_bytes
    units: list[Placed] = []

    def listed() -> Iterator[Placed]:
        for placed in read_units(data, start_required=start_required, limit_bytes=allowed_bytes):
            if len(units) == MAX_UNITS:
                raise NnrError(f"the NNR bitstream has more than {MAX_UNITS} units")
            units.append(placed)
            yield placed

    outputs = list(decode_units(listed()))
    topologies = [output for output in outputs if isinstance(output, TopologyUnit)]
    quantizations = [output for output in outputs if isinstance(output, QuantizationUnit)]
    return Bitstream(
        tuple(units),
        topologies[-1] if topologies else None,
        quantizations[-1] if quantizations else None,
        tuple(
            replace(output, limit_bytes=allowed_bytes)
            for output in outputs
            if isinstance(output, CodedTensor)
        ),
        allowed_bytes,
    )
