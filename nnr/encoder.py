"""Whole tensors to data units: the choice of payload type and quantizer."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tosaic.nnr.errors import NnrError
from tosaic.nnr.payload import (
    PayloadType,
    encode_codebook_tensor,
    encode_float_tensor,
    encode_raw_tensor,
    encode_tensor,
)
from tosaic.nnr.quantize import qp_for_step, quantize_codebook, quantize_dependent, quantize_uniform
from tosaic.nnr.unit_writer import write_units
from tosaic.nnr.units import (
    NNR_QCB,
    NNR_QSU,
    DataUnit,
    ModelParameterSet,
    QuantizationUnit,
    StartUnit,
    TopologyUnit,
    Unit,
)

METHODS = ("lossless", "uniform", "dependent", "codebook")
INTEGER_TYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32)


@dataclass(frozen=True)
class Settings:
    """How float tensors are coded; integer tensors are coded losslessly as NNR_PT_INT32 by every method.

    relative_step: step size of "uniform" and "dependent" as a fraction of each tensor's largest absolute value.
    rate_weight: of the dependent quantizer's trellis.
    """

    method: str = "lossless"
    cabac_unary_length: int = 10
    relative_step: float = 1 / 127
    codebook_size: int = 16
    rate_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise NnrError(f"NNR method {self.method!r} is not one of {', '.join(METHODS)}")


def encodable(values: np.ndarray) -> bool:
    """Whether a data unit can hold the tensor: float32, or integers within int32, sizes below 65536."""
    return (values.dtype == np.float32 or values.dtype in INTEGER_TYPES) and max(
        values.shape, default=0
    ) < 65536


def encode_unit(name: str, values: np.ndarray, settings: Settings = Settings()) -> DataUnit:  # noqa: B008
    """One tensor as a data unit; raises NnrError if it is not `encodable`."""
    if not encodable(values):
        raise NnrError(f"tensor {name!r} of {values.dtype}{list(values.shape)} does not fit an NNR data unit")
    length = settings.cabac_unary_length
    shape = values.shape
    if values.dtype != np.float32:
        payload = encode_tensor(values.astype(np.int64), cabac_unary_length=length)
        return DataUnit(PayloadType.INT32, (name,), payload, shape, length)
    if settings.method == "lossless" or not np.isfinite(values).all():
        return DataUnit(PayloadType.RAW_FLOAT32, (name,), encode_raw_tensor(values), shape)
    if settings.method == "codebook":
        indices, codebook, offset = quantize_codebook(values, settings.codebook_size)
        payload = encode_codebook_tensor(indices, codebook_zero_offset=offset, cabac_unary_length=length)
        entries = tuple(codebook.tolist())
        return DataUnit(PayloadType.CB_FLOAT32, (name,), payload, shape, length, entries, offset)
    largest = float(np.abs(values).max(initial=0.0))
    # A tensor of zeros has no scale of its own; iae(8) at qp_density 2 holds steps of 2**-32 to 1.75 * 2**31.
    qp = min(max(qp_for_step(largest * settings.relative_step), -128), 127) if largest else 0
    dependent = settings.method == "dependent"
    if dependent:
        levels = quantize_dependent(values, qp, rate_weight=settings.rate_weight)
    else:
        levels = quantize_uniform(values, qp)
    payload = encode_float_tensor(levels, qp, cabac_unary_length=length, dq=dependent)
    return DataUnit(PayloadType.FLOAT32, (name,), payload, shape, length)


def encode_model(
    tensors: Mapping[str, np.ndarray],
    settings: Settings = Settings(),  # noqa: B008
    *,
    topology: TopologyUnit | None = None,
    quantization: QuantizationUnit | None = None,
) -> bytes:
    """A bitstream: NNR_STR, NNR_MPS, topology and quantization if given, one data unit per tensor, in order."""
    flags = NNR_QCB if settings.method == "codebook" else NNR_QSU
    units: list[Unit] = [StartUnit(), ModelParameterSet(topology is not None, flags)]
    units += [unit for unit in (topology, quantization) if unit]
    units += [encode_unit(name, values, settings) for name, values in tensors.items()]
    return write_units(units)
