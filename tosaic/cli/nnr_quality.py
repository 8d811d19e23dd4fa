"""`tosaic nnr encode --calib`: what was chosen for each tensor, and what it does to the outputs, as a table."""

import math
import pathlib

from tosaic.driver.quantize import load_samples
from tosaic.errors import InputError
from tosaic.nnr import read_bitstream
from tosaic.nnr.encoder import Settings
from tosaic.nnr.onnx_calibration import Calibrated, CodingTarget, encode_for_quality


def encode_by_samples(
    model: pathlib.Path,
    samples: pathlib.Path,
    target: CodingTarget,
    rate_weight: float,
    *,
    weights_only: bool = False,
) -> bytes:
    """The bitstream of an ONNX model, or of its weights only, that meets the target; prints how."""
    from tosaic.nnr import onnx_carriage

    if model.suffix != ".onnx":
        raise InputError(f"{model}: --calib measures the outputs of .onnx models only")
    if (target.sqnr_decibels is None) == (target.size_bytes is None):
        raise InputError("--calib needs one target: --target-sqnr DECIBELS or --target-bytes N")
    settings = Settings("dependent", cabac_unary_length=None, rate_weight=rate_weight)
    found = encode_for_quality(
        onnx_carriage.load(model), load_samples(samples), target, settings, weights_only=weights_only
    )
    _print(found)
    return found.data


def _print(found: Calibrated) -> None:
    payload_bytes = {tensor.name: len(tensor.unit.payload) for tensor in read_bitstream(found.data).tensors}
    print(f"{'payload':>9} {'qp':>5} {'alone':>9}  tensor")
    for row in found.rows:
        qp = "exact" if row.qp is None else str(row.qp)
        scaled = ", scaled per output channel" if row.scaled else ""
        size_bytes = payload_bytes[row.coded_name]
        print(f"{size_bytes:>9,} {qp:>5} {_decibels(row.output_decibels):>9}  {row.name}{scaled}")
    for name, ratio in found.output_decibels.items():
        print(f"output {name!r}: {_decibels(ratio)}")


def _decibels(ratio: float) -> str:
    return f"{ratio:.1f} dB" if math.isfinite(ratio) else "exact"
