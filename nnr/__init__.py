"""NNR, the compressed representation of neural networks (ISO/IEC 15938-17, second working draft)."""

from tosaic.nnr.errors import NnrError, NnrWarning
from tosaic.nnr.payload import (
    PayloadType,
    decode_tensor,
    encode_codebook_tensor,
    encode_float_tensor,
    encode_raw_tensor,
    encode_tensor,
)

__all__ = [
    "NnrError",
    "NnrWarning",
    "PayloadType",
    "decode_tensor",
    "encode_codebook_tensor",
    "encode_float_tensor",
    "encode_raw_tensor",
    "encode_tensor",
]
