"""The weights of an ONNX model without the network, for a receiver that has the model: NNR tensors only."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.nnr.arrays import as_codable, decode_all
from tosaic.nnr.bitstream import Bitstream
from tosaic.nnr.encoder import INTEGER_TYPES, Settings, encode_model
from tosaic.nnr.errors import NnrError
from tosaic.nnr.onnx_carriage import fill, load_onnx_package
from tosaic.nnr.onnx_tensors import SCALED_SUFFIX, SCALES_SUFFIX, model_tensors


def encode_weights(model: Any, settings: Settings, per_tensor: Mapping[str, Settings] | None = None) -> bytes:
    """The weights of a ModelProto as one bitstream with no topology; per_tensor: settings of some, by name.

    Weights are the `model_tensors` of floats and of integers of up to 32 bits: those of 64 bits are shapes and axes,
    which are the network's. Raises NnrError for a weight that no data unit holds.
    """
    onnx = load_onnx_package()
    values = {name: onnx.numpy_helper.to_array(each) for name, each in model_tensors(model).items()}
    weights = {
        name: as_codable(name, each)
        for name, each in values.items()
        if each.dtype.kind == "f" or each.dtype in INTEGER_TYPES
    }
    # Sizes that a unit cannot signal are the model's.
    return encode_model(weights, settings, dimensions_known=True, of_network=True, per_tensor=per_tensor)


def with_weights(model: Any, found: Bitstream) -> Any:
    """A copy of a ModelProto with the tensors of a bitstream in place of its own of the same names.

    Raises NnrError where the model has no such tensor, or one of another shape.
    """
    changed = load_onnx_package().ModelProto()
    changed.CopyFrom(model)
    held = model_tensors(changed)
    shapes = {
        unit_name: tuple(tensor.dims)
        for name, tensor in held.items()
        for unit_name in (name, name + SCALED_SUFFIX)
    }
    for name, values in _unscaled(decode_all(found, shapes)).items():
        if name not in held:
            raise NnrError(f"NNR tensor {name!r} is none of the ONNX model's: the weights are of another one")
        fill(name, held[name], values)
    return changed


def _unscaled(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The products of tensors and their scales per channel, which are powers of two, and the other tensors."""
    found = dict(tensors)
    for scaled in [name for name in tensors if name.endswith(SCALED_SUFFIX)]:
        name = scaled.removesuffix(SCALED_SUFFIX)
        if name + SCALES_SUFFIX in tensors:
            found[name] = found.pop(scaled) * found.pop(name + SCALES_SUFFIX)
    return found
