"""What surrounds the CABAC decoder in its tests: coded tensors, the software's answer, and a bench with stalls."""

import dataclasses
import random

import numpy as np
from kept_simulator import kept_simulator

from tosaic.hw.cabac import CabacDecoder, DecodeError
from tosaic.hw.config import Config
from tosaic.hw.nnr_streams import interleave, stream_levels
from tosaic.nnr import NnrError, levels

# What `tosaic.nnr` says to each fault.
MESSAGES = {
    "too short for": DecodeError.TRUNCATED,
    "starts with ivlOffset": DecodeError.START,
    "is truncated": DecodeError.TRUNCATED,
    "has 31 ones": DecodeError.PREFIX,
    "is outside int32": DecodeError.LEVEL,
    "terminating_one_bit": DecodeError.TERMINATE,
    "stop bit": DecodeError.STOP,
    "nesting_zero_bit": DecodeError.PADDING,
    "trailing data": DecodeError.TRAILING,
}


RESULT_FIELDS = ("tensor", "stream", "error", "position", "saturated")


def config_of(columns=4, engines=1):
    return Config(
        "test",
        rows=1,
        columns=columns,
        am_bytes=1 << 12,
        am_banks=4,
        wm_bytes=1 << 12,
        line_pixels=8,
        cabac_engines=engines,
    )


@dataclasses.dataclass
class Tensor:
    """A job: payloads of its streams, and the settings they were coded with."""

    payloads: list[bytes]
    count: int
    unary_length: int = 10
    qp_bits: int = 0
    dq_coded: bool = True
    low: int = -128
    high: int = 127
    offset: int = 0
    number: int = 0

    def decoded(self, word_bytes):
        """The software's levels in their places and its first complaint about each stream."""
        result, errors, positions = np.zeros(self.count, np.int64), [], []
        for payload, slices in zip(
            self.payloads, stream_levels(self.count, len(self.payloads), word_bytes), strict=True
        ):
            own = sum(each.stop - each.start for each in slices)
            try:
                found = levels.decode(
                    payload,
                    own,
                    self.unary_length,
                    qp_bits=self.qp_bits,
                    has_dq_flag=self.dq_coded,
                    with_positions=True,
                )
            except NnrError as error:
                errors.append(next(code for text, code in MESSAGES.items() if text in str(error)))
                # Any order will do for a stream nobody can read.
                positions.append([8 * len(payload) * index // own for index in range(own)])
                continue
            errors.append(DecodeError.NONE)
            positions.append([*found.positions])
            start = 0
            for each in slices:
                result[each] = found.levels[start : start + each.stop - each.start]
                start += each.stop - each.start
        return result, errors, positions

    def expected(self, word_bytes):
        """(words, saturated, errors) that the decoder must give."""
        values, errors, _ = self.decoded(word_bytes)
        weights = np.clip(values, self.low, self.high)
        data = weights.astype(np.int8).tobytes()
        return data + bytes(-len(data) % word_bytes), int((weights != values).sum()), errors

    def block(self, word_bytes):
        """The words in memory."""
        payloads = [bytes([0xA5] * self.offset) + self.payloads[0], *self.payloads[1:]]
        positions = self.decoded(word_bytes)[2] if len(payloads) > 1 else [[]]
        return interleave(payloads, positions, self.count, word_bytes)


def code(values, streams=1, word_bytes=4, dq=False, **settings):
    """The Tensor of `values`, coded."""
    flat = np.asarray(values, np.int64).reshape(-1)
    tensor = Tensor([], flat.size, **settings)
    for slices in stream_levels(flat.size, streams, word_bytes):
        own = np.concatenate([flat[each] for each in slices]) if slices else flat[:0]
        tensor.payloads.append(
            levels.encode(
                own,
                tensor.unary_length,
                dq_flag=dq if tensor.dq_coded else None,
                qp=1 if tensor.qp_bits else 0,
                qp_bits=tensor.qp_bits,
            )
        )
    return tensor


class Bench:
    """Runs jobs through a decoder. `stall` is the probability, per cycle and channel, that a neighbour is not ready."""

    def __init__(self, config, tensors, stall=0.0, seed=1, limit=40000):
        self.config, self.tensors, self.stall, self.limit = config, tensors, stall, limit
        self.rng = random.Random(seed)
        self.results, self.words, self.result_cycles, self.job_cycles = [], [], [], []
        self.cycle = 0
        self.dut, _, self._simulator = kept_simulator(CabacDecoder, config)

    def run(self):
        self._simulator.run(self._run)
        assert len(self.results) == len(self.tensors), f"stuck: {len(self.results)} results"
        return self

    def _goes(self):
        return self.stall == 0 or self.rng.random() >= self.stall

    def _set_job(self, ctx, tensor):
        job = self.dut.jobs.payload
        ctx.set(job.settings.unary_length, tensor.unary_length)
        ctx.set(job.settings.header_bins, tensor.qp_bits)
        ctx.set(job.settings.dq_coded, tensor.dq_coded)
        ctx.set(job.settings.low, tensor.low)
        ctx.set(job.settings.high, tensor.high)
        ctx.set(job.tensor, tensor.number)
        ctx.set(job.levels, tensor.count)
        ctx.set(job.log2_streams, len(tensor.payloads).bit_length() - 1)
        ctx.set(job.offset, tensor.offset)
        for index, payload in enumerate(tensor.payloads):
            ctx.set(job.lengths[index], len(payload))

    async def _run(self, ctx):
        dut, width = self.dut, self.config.word_bytes
        blocks = [tensor.block(width) for tensor in self.tensors]
        data = b"".join(blocks)
        ends = np.cumsum([len(block) for block in blocks])
        job, position, current = 0, 0, []
        offers_word = offers_job = False
        held = None
        while self.cycle < self.limit and len(self.results) < len(self.tensors):
            # What was offered stays until it is taken.
            offers_job = job < len(self.tensors) and (offers_job or self._goes())
            offers_word = position < len(data) and (offers_word or self._goes())
            if offers_job:
                self._set_job(ctx, self.tensors[job])
            ctx.set(dut.jobs.valid, offers_job)
            ctx.set(dut.words.valid, offers_word)
            ctx.set(dut.words.payload, int.from_bytes(data[position : position + width], "little"))
            takes_weights, takes_result = self._goes(), self._goes()
            ctx.set(dut.weights.ready, takes_weights)
            ctx.set(dut.results.ready, takes_result)
            if offers_word and ctx.get(dut.words.ready):
                position += width
                offers_word = False
            offered = ctx.get(dut.weights.payload) if ctx.get(dut.weights.valid) else None
            assert held is None or offered == held
            held = None if takes_weights else offered
            if offered is not None and takes_weights:
                current.append(offered.to_bytes(width, "little"))
            if takes_result and ctx.get(dut.results.valid):
                payload = dut.results.payload
                self.results.append({name: ctx.get(payload[name]) for name in RESULT_FIELDS})
                self.words.append(b"".join(current))
                self.result_cycles.append(self.cycle)
                # Nothing behind a tensor's block was taken, and nothing of it is left.
                assert position == ends[len(self.results) - 1]
                current = []
            if offers_job and ctx.get(dut.jobs.ready):
                self.job_cycles.append(self.cycle)
                job += 1
                offers_job = False
            await ctx.tick()
            self.cycle += 1


def check(config, tensors, **settings):
    """Run the tensors and compare words, errors and saturation with the software's."""
    bench = Bench(config, tensors, **settings).run()
    for tensor, words, result in zip(tensors, bench.words, bench.results, strict=True):
        expected, saturated, errors = tensor.expected(config.word_bytes)
        assert result["tensor"] == tensor.number
        if any(errors):
            # Streams run side by side: which of several faults is met first depends on their lengths.
            assert result["error"] in {error for error in errors if error}
            assert errors[result["stream"]] == result["error"]
            # Words in front of the fault are those of the sound part, as far as they come.
            assert len(words) <= len(expected)
        else:
            assert result["error"] == DecodeError.NONE
            assert words == expected
            assert result["saturated"] == saturated
    return bench
