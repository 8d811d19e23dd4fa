"""Plain dictionaries of arrays to bitstreams and back."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from tosaic.nnr.bitstream import Bitstream, read_bitstream
from tosaic.nnr.encoder import Settings, encode_model
from tosaic.nnr.errors import NnrError


def encode(tensors: Mapping[str, ArrayLike], settings: Settings | None = None) -> bytes:
    """A bitstream of tensors by name, without a network.

    Floats of 32 bits and fewer are coded as float32, integers within int32 as int32, as `settings` say. float64, bool
    and other types are refused with an NnrError, for they would come back as other values.
    """
    codable = {name: as_codable(name, np.asarray(values)) for name, values in tensors.items()}
    return encode_model(codable, settings or Settings())


def decode(
    data: bytes | bytearray | memoryview,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    limit_bytes: int | None = None,
) -> dict[str, np.ndarray]:
    """The tensors of a bitstream by name: float32 and int32.

    shapes: of tensors whose units signal none. limit_bytes: of memory; None allows 64 MiB and 8 times the input.
    Raises NnrError on damage, above the limit, and if a name occurs twice.
    """
    return decode_all(read_bitstream(bytes(data), limit_bytes=limit_bytes), shapes)


def decode_all(found: Bitstream, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, np.ndarray]:
    """Decodes, as `decode` does, a bitstream that was read."""
    arrays: dict[str, np.ndarray] = {}
    budget = found.budget()
    for tensor in found.tensors:
        for name in tensor.unit.ref_ids:
            if name in arrays:
                raise NnrError(f"the NNR bitstream has two tensors {name!r}")
            arrays[name] = tensor.decode_kept((shapes or {}).get(name), budget)
    return arrays


def as_codable(name: str, values: np.ndarray) -> np.ndarray:
    """The same values in a type that a data unit holds; NnrError if there is none."""
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.dtype == np.float16:
        return values.astype(np.float32)
    if values.dtype.kind in "iu" and values.dtype.itemsize >= 4:
        limits = np.iinfo(np.int32)
        if values.size and not limits.min <= int(values.min()) <= int(values.max()) <= limits.max:
            raise NnrError(
                f"tensor {name!r} of {values.dtype} has values outside int32, which NNR does not hold"
            )
        return values.astype(np.int32)
    if values.dtype == np.float64:
        raise NnrError(
            f"tensor {name!r} is float64, which NNR does not hold; narrow it yourself: values.astype(numpy.float32)"
        )
    if values.dtype != np.float32 and values.dtype.kind not in "iu":
        raise NnrError(f"tensor {name!r} is {values.dtype}; NNR holds float32 and integers of up to 32 bits")
    return values
