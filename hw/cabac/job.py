"""What the decoder is told about a tensor, and what it says when it is through."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data
from amaranth.utils import exact_log2

from ..config import Config
from ..nnr_streams import DecodeError

STREAM_BYTES_BITS = 24
LEVEL_BITS = 28
TENSOR_BITS = 16
POSITION_BITS = STREAM_BYTES_BITS + 3


class Settings(data.Struct):
    """The part of a job that all streams of a tensor share."""

    unary_length: unsigned(8)  # cabac_unary_length
    header_bins: unsigned(
        4
    )  # bypass bins in front of dq_flag, dropped: qp of NNR_PT_FLOAT32 has 6 + qp_density
    dq_coded: unsigned(1)  # the stream has a dq_flag (NNR_PT_INT32, NNR_PT_FLOAT32); else `dq` holds
    dq: unsigned(1)
    low: signed(8)  # smallest weight: -128, or -8 for int4
    high: signed(8)  # largest weight: 127, or 7


class TensorJob(data.StructLayout):
    """One tensor: `settings`; `tensor`, any number, returned with the result; `levels` of the whole tensor;
    `log2_streams`: 0, 1, 2 for 1, 2, 4 streams; `lengths` of each stream in bytes; `offset`: bytes in front of the
    first stream in its first word."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "settings": Settings,
                "tensor": TENSOR_BITS,
                "levels": LEVEL_BITS,
                "log2_streams": 2,
                "lengths": data.ArrayLayout(STREAM_BYTES_BITS, config.cabac_engines),
                "offset": exact_log2(config.word_bytes),
            }
        )


class EngineJob(data.StructLayout):
    """One stream: `settings` and its own `levels`, `length` in bytes and `offset`."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "settings": Settings,
                "levels": LEVEL_BITS,
                "length": STREAM_BYTES_BITS,
                "offset": exact_log2(config.word_bytes),
            }
        )


class EngineResult(data.Struct):
    """`error` is NONE or why the stream was given up near bit `position`; `saturated` levels were outside the bounds
    (stops counting at its largest value)."""

    error: DecodeError
    position: unsigned(POSITION_BITS)
    saturated: unsigned(LEVEL_BITS)


class TensorResult(data.Struct):
    """How the tensor `tensor` went: see EngineResult; `stream` is the one with the error."""

    tensor: unsigned(TENSOR_BITS)
    stream: unsigned(2)
    error: DecodeError
    position: unsigned(POSITION_BITS)
    saturated: unsigned(LEVEL_BITS)


class DecodeReport(data.Struct):
    """A damaged stream of a tensor: why (`code`), and how many bits had been read."""

    code: DecodeError
    stream: unsigned(2)
    tensor: unsigned(TENSOR_BITS)
    position: unsigned(POSITION_BITS)
