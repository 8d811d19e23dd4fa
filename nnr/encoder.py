"""Whole tensors to data units: the choice of payload type and quantizer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

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
from tosaic.nnr.reduce import sparsify, threshold_for
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

# Flags before the remainder: each has contexts of its own, which pays only where levels are that large and frequent.
SEARCHED_UNARY_LENGTHS = (0, 1, 2, 3, 4, 6, 8, 10, 14, 20)
METHODS = ("lossless", "uniform", "dependent", "codebook")
INTEGER_TYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32)


@dataclass(frozen=True)
class Settings:
    """How tensors are coded.

    cabac_unary_length: None takes the length of the shortest payload, tensor by tensor.
    qp: of "uniform" and "dependent", instead of `relative_step`.
    method: of float tensors. Integer tensors are coded without loss as NNR_PT_INT32, unless `integer_step` says else.
    relative_step: step size of "uniform" and "dependent" as a fraction of each tensor's largest absolute value.
    rate_weight: of the dependent quantizer's trellis: squared steps that one bit is worth.
    sparsity: share (0..1) of the weights of every tensor of two dimensions or more that are made zero first.
    integer_step: with "uniform" and "dependent", integer tensors of two dimensions or more are quantized too, with this
    step size, and coded as NNR_PT_FLOAT32; who decodes them rounds to the tensor's own type. 0 keeps them exactly.
    """

    method: str = "lossless"
    cabac_unary_length: int | None = 10
    relative_step: float = 1 / 127
    codebook_size: int = 16
    rate_weight: float = 0.0
    sparsity: float = 0.0
    integer_step: float = 0.0
    qp: int | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise NnrError(f"NNR method {self.method!r} is not one of {', '.join(METHODS)}")
        if not 0 < self.relative_step < float("inf"):
            raise NnrError(f"the step size must be a positive fraction, not {self.relative_step}")
        if not 0 <= self.sparsity <= 1:
            raise NnrError(f"the share of zeros must be 0..1, not {self.sparsity}")
        if not 0 <= self.rate_weight < float("inf"):
            raise NnrError(f"the weight of the rate must not be negative, not {self.rate_weight}")
        if self.integer_step and self.method not in ("uniform", "dependent"):
            raise NnrError(f"method {self.method!r} keeps integers exactly: use uniform or dependent")
        if self.integer_step and not 1 <= self.integer_step <= 128:
            raise NnrError(f"the step size of integers must be 1..128, not {self.integer_step}")


def encodable(values: np.ndarray, *, dimensions_known: bool = False) -> bool:
    """Whether a data unit can hold the tensor: float32, or integers within int32.

    Sizes must be below 65536, which tensor_dimensions cannot signal, unless the decoder knows them (E-34).
    """
    known_type = values.dtype == np.float32 or values.dtype in INTEGER_TYPES
    return known_type and (dimensions_known or max(values.shape, default=0) < 65536)


def encode_unit(
    name: str,
    values: np.ndarray,
    settings: Settings = Settings(),  # noqa: B008
    *,
    dimensions_known: bool = False,
) -> DataUnit:
    """One tensor as a data unit; raises NnrError if it is not `encodable`. Dimensions are signalled where they fit."""
    if not encodable(values, dimensions_known=dimensions_known):
        raise NnrError(
            f"tensor {name!r} of {values.dtype}{list(values.shape)} does not fit an NNR data unit: it holds float32, "
            "or integers of up to int32, with sizes below 65536"
        )
    length = settings.cabac_unary_length
    shape = _signalled(values)
    weights = values.ndim >= 2
    if settings.sparsity and weights:
        values = sparsify(values, threshold_for(values, settings.sparsity))
    if values.dtype != np.float32:
        if settings.integer_step and weights:
            return _quantized(name, values, qp_for_step(settings.integer_step), settings)
        wide = values.astype(np.int64)
        payload, length = _shortest(lambda length: encode_tensor(wide, cabac_unary_length=length), length)
        return DataUnit(PayloadType.INT32, (name,), payload, shape, length)
    if settings.method == "lossless" or not np.isfinite(values).all():
        return DataUnit(PayloadType.RAW_FLOAT32, (name,), encode_raw_tensor(values), shape)
    if settings.method == "codebook":
        indices, codebook, offset = quantize_codebook(values, settings.codebook_size)
        payload, length = _shortest(
            lambda length: encode_codebook_tensor(
                indices, codebook_zero_offset=offset, cabac_unary_length=length
            ),
            length,
        )
        entries = tuple(codebook.tolist())
        return DataUnit(PayloadType.CB_FLOAT32, (name,), payload, shape, length, entries, offset)
    largest = float(np.abs(values).max(initial=0.0))
    # A tensor of zeros has no scale of its own; iae(8) at qp_density 2 holds steps of 2**-32 to 1.75 * 2**31, and what
    # needs others is kept exactly.
    qp = qp_for_step(largest * settings.relative_step) if largest else 0
    qp = qp if settings.qp is None else settings.qp
    if not -128 <= qp <= 127:
        return DataUnit(PayloadType.RAW_FLOAT32, (name,), encode_raw_tensor(values), shape)
    return _quantized(name, values, qp, settings)


def _shortest(encode: Callable[[int], bytes], length: int | None) -> tuple[bytes, int]:
    """The payload of the unary length, or of the one that makes it shortest, and that length."""
    if length is not None:
        return encode(length), length
    payloads = {tried: encode(tried) for tried in SEARCHED_UNARY_LENGTHS}
    best = min(payloads, key=lambda tried: (len(payloads[tried]), tried))
    return payloads[best], best


def _signalled(values: np.ndarray) -> tuple[int, ...] | None:
    return values.shape if max(values.shape, default=0) < 65536 else None


def _quantized(name: str, values: np.ndarray, qp: int, settings: Settings) -> DataUnit:
    """A tensor as NNR_PT_FLOAT32, by the method's quantizer."""
    length, dependent = settings.cabac_unary_length, settings.method == "dependent"
    if dependent:
        keep = settings.sparsity > 0
        levels = quantize_dependent(values, qp, rate_weight=settings.rate_weight, keep_zeros=keep)
    else:
        levels = quantize_uniform(values, qp)
    payload, length = _shortest(
        lambda length: encode_float_tensor(levels, qp, cabac_unary_length=length, dq=dependent), length
    )
    return DataUnit(PayloadType.FLOAT32, (name,), payload, _signalled(values), length)


def settings_in_network(values: np.ndarray, settings: Settings) -> Settings:
    """Settings for a tensor of a network: those of fewer than two dimensions are kept exactly. They are biases and
    scales, which are few and matter much."""
    return settings if values.ndim >= 2 else replace(settings, method="lossless", integer_step=0.0)


def encode_model(
    tensors: Mapping[str, np.ndarray],
    settings: Settings = Settings(),  # noqa: B008
    *,
    topology: TopologyUnit | None = None,
    quantization: QuantizationUnit | None = None,
    dimensions_known: bool = False,
    of_network: bool = False,
    per_tensor: Mapping[str, Settings] | None = None,
) -> bytes:
    """A bitstream: NNR_STR, NNR_MPS, topology and quantization if given, one data unit per tensor, in order.

    With a topology, and where the tensors are a network's without it, `settings_in_network` hold, but for the tensors
    that have settings of their own in `per_tensor`.
    """
    methods = {settings.method, *(each.method for each in (per_tensor or {}).values())}
    flags = NNR_QCB * ("codebook" in methods) | NNR_QSU * (methods != {"codebook"})
    # sparsification_flag says that it was applied; how well the network does at other thresholds nobody measured.
    sparsification = () if settings.sparsity else None
    parameters = ModelParameterSet(topology is not None, flags, sparsification=sparsification)
    units: list[Unit] = [StartUnit(), parameters]
    units += [unit for unit in (topology, quantization) if unit]
    own = per_tensor or {}
    for name, values in tensors.items():
        common = settings_in_network(values, settings) if topology or of_network else settings
        units.append(encode_unit(name, values, own.get(name, common), dimensions_known=dimensions_known))
    return write_units(units)
