"""What the integers of a quantized model's inputs and outputs stand for: a JSON file beside the model."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tosaic.compiler.ir import CurvedEncoding, Declared, DType, Encoding, EncodingCurve, Graph, unsigned_type
from tosaic.driver.replacing import replacing
from tosaic.errors import InputError, in_words

Encodings = dict[str, Encoding]
_INTEGERS = ("int8", "int16", "int32", "uint8", "uint16")


def sidecar(model: str | pathlib.Path) -> pathlib.Path:
    """The file of encodings that belongs to a model: `net.tosa` has `net.quant.json`."""
    return pathlib.Path(model).with_suffix(".quant.json")


def write_encodings(
    path: pathlib.Path,
    inputs: Mapping[str, Encoding],
    outputs: Mapping[str, Encoding],
    source: Mapping[str, Any] | None = None,
    declared: Mapping[str, Declared] | None = None,
) -> None:
    """Writes `encodings_text` to a file; `source` tells of the network that was quantized, `declared` what a traced
    function says of its inputs and outputs."""
    text = encodings_text(inputs, outputs, source, declared)
    with replacing(path) as scratch:
        scratch.write_text(text)


def encodings_text(
    inputs: Mapping[str, Encoding],
    outputs: Mapping[str, Encoding],
    source: Mapping[str, Any] | None = None,
    declared: Mapping[str, Declared] | None = None,
) -> str:
    """JSON text: {"inputs": {name: {"dtype", "scale", "zero_point"}}, with "curve", "unit" and "step" instead of the
    scale where an input has a curve, "outputs": ..., "source": ..., "declared": {name:
    {"dtype", "shape", "low", "high"}}}."""
    sides = {"inputs": inputs, "outputs": outputs}
    text: dict[str, Any] = {
        side: {
            name: {"dtype": _spelled(e), **_numbers(e), "zero_point": e.zero_point}
            for name, e in encodings.items()
        }
        for side, encodings in sides.items()
    }
    if source is not None:
        text["source"] = source
    if declared:
        text["declared"] = {name: dataclasses.asdict(each) for name, each in declared.items()}
    return json.dumps(text, indent=1) + "\n"


def declared_of(model: str | pathlib.Path, graph: Graph) -> dict[str, Declared]:
    """What the function that a .tosa file was traced from says of inputs and outputs, out of the file beside it; {}
    where there is none, or where it is another model's. InputError for a damaged one."""
    path = sidecar(model)
    if not path.is_file():
        return {}
    try:
        found = {
            name: Declared.of(each) for name, each in json.loads(path.read_text()).get("declared", {}).items()
        }
        ports = {name: graph.tensors[name] for name in (*graph.inputs, *graph.outputs) if name in found}
        return {name: found[name] for name, port in ports.items() if found[name].fits(port.shape, port.dtype)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path}: is no file of encodings ({in_words(error)}); write it again by tosaic import"
        ) from None


def encodings_of(model: str | pathlib.Path) -> Encodings:
    """What `read_encodings` finds beside a .tosa or .tsc file; other files have none."""
    return read_encodings(sidecar(model)) if pathlib.Path(model).suffix in (".tosa", ".tsc") else {}


def read_encodings(path: pathlib.Path) -> Encodings:
    """Encodings by the name of input or output; none if there is no such file. InputError for a damaged one."""
    if not path.is_file():
        return {}
    try:
        return parse_encodings(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def parse_encodings(text: str, origin: str) -> Encodings:
    """Encodings out of the JSON text of such a file; InputError, which names `origin`, for a damaged one."""
    try:
        sides = json.loads(text)
        return {name: _parsed(found) for side in ("inputs", "outputs") for name, found in sides[side].items()}
    except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{origin}: is no file of encodings ({type(error).__name__}: {error}); write it again by tosaic quantize"
        ) from None


def _spelled(encoding: Encoding) -> str:
    """The type of its integers: int8, or uint8 where they have no sign."""
    return str(unsigned_type(encoding.dtype)) if encoding.unsigned else encoding.dtype.name.lower()


def _numbers(encoding: Encoding) -> dict[str, Any]:
    """What reals are made with, the zero point apart. Who knows no curves finds no scale."""
    if isinstance(encoding, CurvedEncoding):
        return {"curve": encoding.curve.kind, "unit": encoding.curve.unit, "step": encoding.step}
    return {"scale": encoding.scale}


def _parsed(found: dict[str, Any]) -> Encoding:
    """Raises ValueError for what no integers can be made with."""
    if "curve" in found:
        even = _parsed({"dtype": found["dtype"], "scale": found["step"], "zero_point": found["zero_point"]})
        kind, unit = found["curve"], float(found["unit"])
        if kind not in ("log", "sqrt") or even.unsigned or not 0 < unit < np.inf:
            raise ValueError(f"{kind!r} with the unit {unit} is no curve")
        return CurvedEncoding.of(even, EncodingCurve(kind, unit))
    name, scale, zero_point = str(found["dtype"]).lower(), found["scale"], found["zero_point"]
    unsigned = name in ("uint8", "uint16")
    dtype = DType[name[unsigned:].upper()]
    if dtype.is_float or dtype in (DType.BOOL, DType.SHAPE):
        raise ValueError(f"{found['dtype']} is not a type of activations")
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < np.inf:
        raise ValueError(f"the scale {scale!r} is no positive number")
    limits = np.iinfo(unsigned_type(dtype)) if unsigned else dtype
    if type(zero_point) is not int or not limits.min <= zero_point <= limits.max:
        raise ValueError(f"the zero point {zero_point!r} is no number of {name}")
    return Encoding(dtype, float(scale), zero_point, unsigned)


def quantize(values: ArrayLike, scale: float, zero_point: int = 0, dtype: str = "int8") -> np.ndarray:
    """Returns integers for reals: round(values / scale) + zero_point, ties to even, saturated."""
    if dtype not in _INTEGERS:
        raise InputError(f"cannot quantize to {dtype!r}; use {', '.join(_INTEGERS[:-1])} or {_INTEGERS[-1]}")
    unsigned = dtype.startswith("u")
    encoding = Encoding(DType[dtype[unsigned:].upper()], _checked(scale), zero_point, unsigned)
    return encoding.quantize(values).view(dtype)


def dequantize(values: ArrayLike, scale: float, zero_point: int = 0) -> np.ndarray:
    """Returns the reals (float32) that integers stand for: (values - zero_point) * scale."""
    return Encoding(DType.INT32, _checked(scale), zero_point).dequantize(values).astype(np.float32)


def _checked(scale: float) -> float:
    if not 0 < scale < np.inf:
        curved = (
            "; an input with a curve has none: use its encoding's quantize and dequantize"
            if scale == 0
            else ""
        )
        raise InputError(f"a scale must be positive and finite, not {scale}{curved}")
    return float(scale)
