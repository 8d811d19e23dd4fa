"""The CABAC decoder by itself, Verilated: for long tensors and many of them."""

import ctypes
import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence

from amaranth.back import verilog

from tosaic.hw.cabac import CabacDecoder, DecodeError, TensorJob, TensorResult
from tosaic.hw.config import Config

from ..cache import cached, progress
from .build import verilate

HARNESS = pathlib.Path(__file__).parent / "cabac_harness.cpp"
OPTIONS = (
    *("--cc", "--top-module", "cabac", "--prefix", "Vcabac"),
    *("-O3", "--no-assert", "--no-timing", "-Wno-lint", "-Wno-fatal"),
)
FAULTS = {
    -1: "it is stuck",
    -2: "it gave too many words",
    -3: "it changed a word before it was taken",
    -4: "it took too many or too few words",
}


@dataclasses.dataclass(frozen=True)
class CabacTensor:
    """A block of streams, the fields of its TensorJob, and those of the job's settings; `lengths`: one per stream."""

    block: bytes
    lengths: Sequence[int]
    levels: int
    unary_length: int = 10
    header_bins: int = 0
    dq_coded: bool = True
    dq: bool = False
    low: int = -128
    high: int = 127
    offset: int = 0


@dataclasses.dataclass(frozen=True)
class CabacRun:
    """`weights`: the words that came out. `cycles`: from the job taken to the result taken. The rest: see
    `tosaic.hw.cabac.TensorResult`."""

    weights: bytes
    cycles: int
    stream: int
    error: DecodeError
    position: int
    saturated: int


class CabacSimulator:
    """The Verilated decoder of a configuration, built at the first use and cached."""

    def __init__(self, config: Config):
        self.config = config
        text = verilog.convert(CabacDecoder(config), name="cabac", emit_src=False)
        key = hashlib.sha256(text.encode() + HARNESS.read_bytes() + repr(OPTIONS).encode()).hexdigest()[:20]

        def make(path: pathlib.Path) -> None:
            source = path.with_suffix(".v")
            source.write_text(text)
            with progress(f"building the CABAC decoder's simulator for {config.name}, once"):
                verilate([source], HARNESS, path, options=OPTIONS)

        name = f"{config.name}-{config.cabac_engines}"
        self._run = ctypes.CDLL(str(cached("cabac", name, key, ".so", make))).cabac_run
        self._run.restype = ctypes.c_int64

    def run(
        self, tensor: CabacTensor, *, stall: float = 0.0, seed: int = 1, limit_cycles: int = 1 << 30
    ) -> CabacRun:
        """Decode one tensor.

        stall: probability per cycle and channel that words do not come, or weights are not taken. Raises AssertionError
        when the decoder breaks its contract: hangs, takes or gives too much, changes what it offers.
        """
        width = self.config.word_bytes
        layout, result_shape = TensorJob(self.config), TensorResult.as_shape()
        job = layout.const(
            {
                "settings": {
                    "unary_length": tensor.unary_length,
                    "header_bins": tensor.header_bins,
                    "dq_coded": tensor.dq_coded,
                    "dq": tensor.dq,
                    "low": tensor.low,
                    "high": tensor.high,
                },
                "levels": tensor.levels,
                "log2_streams": len(tensor.lengths).bit_length() - 1,
                "lengths": [*tensor.lengths] + [0] * (self.config.cabac_engines - len(tensor.lengths)),
                "offset": tensor.offset,
            }
        )
        job_bytes = job.as_value().value.to_bytes(8 * -(-layout.size // 64), "little")
        words = -(-tensor.levels // width)
        weights = ctypes.create_string_buffer(max(words, 1) * width)
        result = ctypes.create_string_buffer(8 * -(-result_shape.size // 64))
        written = ctypes.c_int64()
        number = ctypes.c_int64
        cycles = self._run(
            *(
                job_bytes,
                number(len(job_bytes)),
                tensor.block,
                number(len(tensor.block) // width),
                number(width),
            ),
            *(weights, number(words), ctypes.byref(written), result, number(-(-result_shape.size // 8))),
            *(number(round(256 * stall)), number(seed), number(limit_cycles)),
        )
        assert cycles >= 0, f"the CABAC decoder breaks its contract: {FAULTS[cycles]}"
        bits = int.from_bytes(result.raw, "little") & ((1 << result_shape.size) - 1)
        values = TensorResult.from_bits(bits)
        return CabacRun(
            weights.raw[: written.value * width],
            cycles,
            int(values.stream),
            DecodeError(values.error),
            int(values.position),
            int(values.saturated),
        )
