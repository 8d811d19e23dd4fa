"""What the decoder is told about a tensor, and what it reports when it has decoded it."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data
from amaranth.utils import exact_log2

from ..config import Config
from ..isa import Opcode, width
from ..nnr_streams import TAG_BITS, DecodeError

STREAM_BYTES_BITS = width(Opcode.LOAD_STREAMS, "length_0")
LEVEL_BITS = 28
"""Levels of a tensor; the decoder by itself takes more than LOAD_DECODE can ask for."""
TENSOR_BITS = width(Opcode.LOAD_TENSOR, "tensor")

POSITION_BITS = STREAM_BYTES_BITS + 3


class TensorSettings(data.Struct):
    """The part of a job that all streams of a tensor share."""

    unary_length: unsigned(8)  # cabac_unary_length
    # Bypass bins in front of dq_flag, which are dropped: qp of NNR_PT_FLOAT32 has 6 + qp_density.
    header_bins: unsigned(width(Opcode.LOAD_TENSOR, "header_bins"))
    dq_coded: unsigned(1)  # the stream has a dq_flag (NNR_PT_INT32, NNR_PT_FLOAT32); else `dq` holds
    dq: unsigned(1)
    low: signed(8)  # smallest weight: -128, or -8 for int4
    high: signed(8)  # largest weight: 127, or 7


class TensorJob(data.StructLayout):
    """One tensor."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "settings": TensorSettings,
                "tensor": TENSOR_BITS,  # any number, returned with the result
                "levels": LEVEL_BITS,  # of the whole tensor
                "log2_streams": width(Opcode.LOAD_TENSOR, "log2_streams"),  # 0, 1, 2 for 1, 2, 4 streams
                "lengths": data.ArrayLayout(STREAM_BYTES_BITS, config.cabac_engines),  # bytes of each stream
                "offset": exact_log2(
                    config.word_bytes
                ),  # bytes in front of the first stream in its first word
            }
        )


class EngineJob(data.StructLayout):
    """One stream: `settings` and its own `levels`, `length` in bytes and `offset`."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "settings": TensorSettings,
                "levels": LEVEL_BITS,
                "length": STREAM_BYTES_BITS,
                "offset": exact_log2(config.word_bytes),
            }
        )


class EngineResult(data.Struct):
    """How a stream went."""

    error: DecodeError  # why the stream was given up, or NONE
    position: unsigned(POSITION_BITS)  # near this bit
    saturated: unsigned(LEVEL_BITS)  # levels outside the bounds; stops at its largest value


class TensorResult(data.Struct):
    """How the tensor `tensor` went: see EngineResult; `stream` is the one with the error."""

    tensor: unsigned(TENSOR_BITS)
    stream: unsigned(TAG_BITS)
    error: DecodeError
    position: unsigned(POSITION_BITS)
    saturated: unsigned(LEVEL_BITS)


class DecodeReport(data.Struct):
    """A damaged stream of a tensor: why (`code`), and how many bits had been read."""

    code: DecodeError
    stream: unsigned(TAG_BITS)
    tensor: unsigned(TENSOR_BITS)
    position: unsigned(POSITION_BITS)
