"""Files of weights without a network: NumPy's .npz, safetensors, and PyTorch's state_dict."""

import json
import math
import pathlib
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.errors import in_words
from tosaic.install import install_command
from tosaic.nnr.errors import NnrError

# The types of safetensors that NumPy has, little endian; BF16 is the upper half of a float32.
_SAFETENSORS_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}
_HEADER_LENGTH_BYTES = 8
# Training scripts put the weights of a checkpoint under one of these keys.
_STATE_KEYS = ("state_dict", "model_state_dict", "model")


def read_npz(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file by name. Raises NnrError on a damaged file, and on Python objects in it."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive.items())
    except Exception as error:  # NumPy parses headers as Python, and raises what its parser and zipfile raise
        raise NnrError(f"cannot read {path}: {getattr(error, 'strerror', None) or in_words(error)}") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise NnrError(f"cannot read {path}: its member {name!r} is no array")
    return arrays


def read_safetensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The tensors of a .safetensors file by name, bfloat16 widened to float32. Raises NnrError on a damaged file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NnrError(f"cannot read {path}: {error.strerror}") from None
    start = _HEADER_LENGTH_BYTES + int.from_bytes(data[:_HEADER_LENGTH_BYTES], "little")
    try:
        if start > len(data):
            raise ValueError(f"its header ends at byte {start} of {len(data)}")
        header = json.loads(data[_HEADER_LENGTH_BYTES:start])
        return {
            name: _safetensor(name, told, memoryview(data)[start:])
            for name, told in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NnrError(f"{path} is no safetensors file: {type(error).__name__}: {error}") from None


def _safetensor(name: str, told: Mapping[str, Any], data: memoryview) -> np.ndarray:
    if told["dtype"] not in _SAFETENSORS_TYPES:
        raise NnrError(f"tensor {name!r} is of the safetensors type {told['dtype']}, which NNR does not hold")
    dtype = np.dtype(_SAFETENSORS_TYPES[told["dtype"]])
    shape, (begin, end) = tuple(told["shape"]), told["data_offsets"]
    if not 0 <= begin <= end <= len(data) or end - begin != dtype.itemsize * math.prod(shape):
        raise ValueError(f"bytes {begin} to {end} are not tensor {name!r} of {told['dtype']}{list(shape)}")
    values = np.frombuffer(data[begin:end], dtype).reshape(shape)
    if told["dtype"] == "BF16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values


def read_state_dict(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The tensors of a PyTorch file by name, loaded with `weights_only`; bfloat16 is widened to float32.

    A checkpoint may hold the state_dict under a key of its own. Raises NnrError without torch, on a damaged file and on
    one that holds Python objects or no tensors.
    """
    try:
        import torch
    except ImportError:
        raise NnrError(f"{path}: PyTorch files need the package torch: {install_command('torch')}") from None
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise NnrError(f"cannot read {path}: {error.strerror or error}") from None
    except pickle.UnpicklingError:
        raise NnrError(
            f"{path} holds Python objects, which may run code; write it as torch.save(module.state_dict(), FILE.pt)"
        ) from None
    except Exception as error:  # noqa: BLE001
        # A damaged pickle makes torch's own machine of instructions raise whatever it meets.
        raise NnrError(f"{path} is no PyTorch file of weights: {in_words(error)}") from None
    state = loaded
    if isinstance(loaded, Mapping):
        state = next((loaded[key] for key in _STATE_KEYS if isinstance(loaded.get(key), Mapping)), loaded)
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise NnrError(
            f"{path} holds no state_dict, a dictionary of tensors; write it as torch.save(module.state_dict(), FILE.pt)"
        )
    return {str(name): _torch_values(str(name), tensor) for name, tensor in state.items()}


def _torch_values(name: str, tensor: Any) -> np.ndarray:
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.float()
    try:
        return np.asarray(tensor.detach().numpy())
    except (TypeError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise NnrError(f"tensor {name!r} of {tensor.dtype} has no NumPy form: {first}") from None


READERS = {
    ".npz": read_npz,
    ".safetensors": read_safetensors,
    ".pt": read_state_dict,
    ".pth": read_state_dict,
}
"""Readers by the suffix of the file."""
