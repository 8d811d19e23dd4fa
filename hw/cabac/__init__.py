"""The CABAC decoder: NNR payloads (ISO/IEC 15938-17, second working draft, clause 11) to int8 weights.

Clause 11 cannot run as printed; docs/cabac.md says how it is read here. `CabacDecoder` is the block; an `Engine` in it
decodes one stream.
"""

from ..nnr_streams import UNARY_MAX, DecodeError
from .decoder import CabacDecoder
from .job import TensorJob, TensorResult

__all__ = ["UNARY_MAX", "CabacDecoder", "DecodeError", "TensorJob", "TensorResult"]
