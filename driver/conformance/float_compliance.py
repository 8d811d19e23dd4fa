"""Judges float outputs by the tolerance that a test states (TOSA 1.0 section 1.8.2), with tosa-tools' verifier.

The rules (exact, dot product, ulp, absolute and relative error, products, special values) live in that library
alone: a second copy of them could only be equal or wrong. The reference is the reference model's in float64.
"""

import ctypes
import functools
import importlib.util
import json
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.errors import InputError

from .case import ConformanceCase
from .float_files import as_bits

_LIBRARY = "libtosa_reference_verify_lib.so"

# tosa_datatype_t of the library's types.h.
_FLOAT64 = 99
_TYPES = {DType.BF16: 0, DType.FP16: 2, DType.FP32: 3, DType.FP8E4M3: 12, DType.FP8E5M2: 13}


class _Tensor(ctypes.Structure):
    """tosa_tensor_t of the library's types.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int32)),
        ("num_dims", ctypes.c_int32),
        ("data_type", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
    ]


def deviation(
    case: ConformanceCase, name: str, got: np.ndarray, reference: np.ndarray, bounds: np.ndarray | None
) -> str | None:
    """One line on how output `name` leaves its tolerance; None when it complies.

    `reference` and `bounds` are baked. InputError when tosa-tools is not installed.
    """
    compliance = json.loads((case.folder / "desc.json").read_text())["meta"]["compliance"]
    stated = compliance["tensors"][name]
    dtype = DType[stated["data_type"]]
    if got.shape != reference.shape or got.dtype != dtype.numpy:
        return (
            f"output {name!r} is {got.dtype}{list(got.shape)}, the reference model gives "
            f"{dtype.name.lower()}{list(reference.shape)}"
        )
    ours = as_bits(got, dtype)
    exact = np.asarray(reference, np.float64, order="C")
    limits = None if bounds is None else np.asarray(bounds, np.float64, order="C")

    def judge() -> bool:
        return _verifier()(
            _pointer(name, exact, _FLOAT64),
            None if limits is None else _pointer(name, limits, _FLOAT64),
            _pointer(name, ours, _TYPES[dtype]),
            json.dumps(compliance).encode(),
        )

    complies, said = _overheard(judge)
    if complies:
        return None
    return f"output {name!r} ({stated['mode']}) is out of tolerance: {said or 'no reason given'}"


def _pointer(name: str, array: np.ndarray, data_type: int) -> Any:
    """The array as the library takes it; it keeps no reference to it."""
    shape = (ctypes.c_int32 * array.ndim)(*array.shape)
    tensor = _Tensor(name.encode(), shape, array.ndim, data_type, array.ctypes.data, array.nbytes)
    return ctypes.byref(tensor)


@functools.cache
def _verifier() -> Callable[..., bool]:
    """The library's tvf_verify_data(reference, bounds, implementation, description) -> bool."""
    found = importlib.util.find_spec("tosa_reference_model")
    places = found.submodule_search_locations if found else None
    file = pathlib.Path(next(iter(places or ["."]))) / _LIBRARY
    if not file.is_file():
        raise InputError(
            f"there is no {_LIBRARY}, which judges floats: install the Python package tosa-tools"
        )
    verify = ctypes.CDLL(str(file)).tvf_verify_data
    verify.argtypes = [ctypes.POINTER(_Tensor)] * 3 + [ctypes.c_char_p]
    verify.restype = ctypes.c_bool
    return verify


def _overheard(judge: Callable[[], bool]) -> tuple[bool, str]:
    """What `judge` finds, and its reasons, which the library writes to the standard error."""
    with tempfile.TemporaryFile("w+") as log:
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            complies = judge()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        log.seek(0)
        return complies, " ".join(line.strip() for line in log if line.startswith("[Verifier]"))
