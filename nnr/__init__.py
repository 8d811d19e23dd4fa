"""NNR, the compressed representation of neural networks (ISO/IEC 15938-17, second working draft).

Dictionaries of arrays: `encode`, `decode`. Tensors: `encode_tensor`, `decode_tensor` and their kin code one payload.
Files: `read_bitstream`, `write_units`.
Arrays, ONNX models and settings become bytes, and bytes become them. It may import `errors` and `hw.nnr_tables`.
ONNX's carriage is here (`onnx_carriage` needs the package onnx only); NNEF's needs a reader of NNEF, so it is in
`compiler.importers.nnef.nnr_carriage`.
"""

from tosaic.nnr.arrays import decode, encode
from tosaic.nnr.bitstream import Bitstream, CodedTensor, decode_units, read_bitstream
from tosaic.nnr.encoder import Settings
from tosaic.nnr.errors import NnrError, NnrWarning
from tosaic.nnr.payload import (
    PayloadType,
    decode_tensor,
    encode_codebook_tensor,
    encode_float_tensor,
    encode_raw_tensor,
    encode_tensor,
)
from tosaic.nnr.quantize import qp_for_step, quantize_codebook, quantize_dependent, quantize_uniform
from tosaic.nnr.unit_reader import read_units
from tosaic.nnr.unit_writer import write_unit, write_units

__all__ = [
    "Bitstream",
    "CodedTensor",
    "NnrError",
    "NnrWarning",
    "PayloadType",
    "Settings",
    "decode",
    "decode_tensor",
    "decode_units",
    "encode",
    "encode_codebook_tensor",
    "encode_float_tensor",
    "encode_raw_tensor",
    "encode_tensor",
    "qp_for_step",
    "quantize_codebook",
    "quantize_dependent",
    "quantize_uniform",
    "read_bitstream",
    "read_units",
    "write_unit",
    "write_units",
]
