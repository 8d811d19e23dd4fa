"""What an NNR bitstream holds, as a table: units, then tensors."""

from collections.abc import Sequence

import numpy as np

from tosaic.nnr import CodedTensor, NnrError
from tosaic.nnr.bitstream import Bitstream
from tosaic.nnr.payload import PayloadType
from tosaic.nnr.units import (
    NNR_QSU,
    AggregateUnit,
    DataUnit,
    ModelParameterSet,
    Placed,
    QuantizationUnit,
    SkippedUnit,
    TopologyUnit,
    UnitType,
)


def print_units(found: Bitstream) -> None:
    """A line per unit: where it is, its size, and what its header says."""
    print(f"{'byte':>9} {'size':>9}  unit")
    for placed in found.units:
        name = "  " * placed.depth + _name(placed)
        parts = f", {placed.parts} parts" if placed.parts > 1 else ""
        print(f"{placed.offset_bytes:>9,} {placed.size_bytes:>9,}  {name}{parts}{_details(placed)}")


def _name(placed: Placed) -> str:
    unit = placed.unit
    if not isinstance(unit, SkippedUnit):
        return f"NNR_{unit.type.name}"
    known = unit.unit_type <= UnitType.AGG
    return f"{f'NNR_{UnitType(unit.unit_type).name}' if known else f'type {unit.unit_type}'}, skipped"


def _details(placed: Placed) -> str:
    unit = placed.unit
    if isinstance(unit, TopologyUnit | QuantizationUnit):
        return f"  {unit.storage_format.name}, {len(unit.data):,} bytes, stored {unit.compression.name}"
    if isinstance(unit, ModelParameterSet) and unit.quantization_method_flags & NNR_QSU:
        return f"  qp_density {unit.qp_density}, quantization_parameter {unit.quantization_parameter}"
    if isinstance(unit, DataUnit):
        return f"  {', '.join(unit.ref_ids)}"
    if isinstance(unit, AggregateUnit):
        return f"  {unit.aggregate_type.name}, {len(unit.units)} units"
    return ""


def print_tensors(tensors: Sequence[tuple[CodedTensor, Sequence[int] | None]]) -> list[str]:
    """A line per tensor and one for all; returns what is wrong with those that cannot be decoded.

    tensors: each with its shape where its unit signals none. The ratio is that of the plain values to the payload:
    float32, or integers of as few whole bytes as hold them.
    """
    print(f"{'payload':>9} {'type':12} {'bits/weight':>11} {'ratio':>7}  tensor")
    damaged, payload_bytes, plain_bytes, weights = [], 0, 0, 0
    for tensor, shape in tensors:
        size, kind = len(tensor.unit.payload), _kind(tensor)
        names = ", ".join(tensor.unit.ref_ids)
        try:
            values = tensor.decode(shape)
        except NnrError as error:
            damaged.append(str(error))
            print(f"{size:>9,} {kind:12} {'-':>11} {'-':>7}  {names}: cannot be decoded")
            continue
        plain = values.size * _item_bytes(values)
        print(f"{size:>9,} {kind:12} {_figures(size, plain, values.size)}  {names} {list(values.shape)}")
        payload_bytes, plain_bytes, weights = payload_bytes + size, plain_bytes + plain, weights + values.size
    print(
        f"{payload_bytes:>9,} {'all':12} {_figures(payload_bytes, plain_bytes, weights)}  {weights:,} weights in "
        f"{len(tensors) - len(damaged)} tensors"
    )
    return damaged


def _kind(tensor: CodedTensor) -> str:
    known = tensor.unit.payload_type <= PayloadType.RAW_FLOAT32
    return PayloadType(tensor.unit.payload_type).name.lower() if known else "reserved"


def _figures(payload_bytes: int, plain_bytes: int, weights: int) -> str:
    bits = f"{8 * payload_bytes / weights:.3f}" if weights else "-"
    ratio = f"{plain_bytes / payload_bytes:.2f}" if payload_bytes else "-"
    return f"{bits:>11} {ratio:>7}"


def _item_bytes(values: np.ndarray) -> int:
    if values.dtype.kind == "f" or not values.size:
        return values.itemsize
    low, high = int(values.min()), int(values.max())
    return next(bytes for bytes in (1, 2, 4) if -(1 << 8 * bytes - 1) <= low and high < 1 << 8 * bytes - 1)
