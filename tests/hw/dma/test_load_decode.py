"""LOAD_DECODE: blocks of NNR streams through LOAD into WM and AM, between ordinary loads."""

import dataclasses
import functools
import random

import numpy as np
import pytest
from dma_models import (
    AM_BYTES,
    WM_BYTES,
    AxiReadModel,
    Bench,
    LocalMemories,
    Memory,
    Stalls,
    assert_same,
    config_of,
    load_go,
    signal,
    wait,
)
from rest_nightly import first_of

from tosaic.hw.dma import LoadUnit
from tosaic.hw.isa import Error, Instruction, Opcode, Space, make
from tosaic.hw.nnr_streams import DecodeError, block_words, interleave, separate, stream_levels
from tosaic.nnr import levels as coded
from tosaic.nnr import quantize_dependent

BASE = 0x4000_0000
SIZE = 16 << 10


@dataclasses.dataclass
class Block:
    """A tensor's streams in memory, and the instructions that decode it."""

    weights: np.ndarray
    lengths: list[int]
    data: bytes
    fields: dict[str, int]

    def program(self, address, local, space=Space.WM, tensor=7, **changed):
        lengths = [*self.lengths, 0, 0, 0, 0]
        go = {"row_bytes": len(self.data), "weights": self.weights.size} | changed
        return [
            make(Opcode.LOAD_TENSOR, tensor=tensor, **self.fields),
            make(Opcode.LOAD_STREAMS, **{f"length_{n}": lengths[n] for n in range(4)}),
            make(Opcode.LOAD_DECODE, memory_address=address, space=space, local_address=local, **go),
        ]


def block_of(weights, width, streams=1, unary_length=1, **fields):
    """`weights` (integers) coded."""
    weights = np.asarray(weights, np.int64)
    payloads, positions = [], []
    for slices in stream_levels(weights.size, streams, width):
        own = np.concatenate([weights[each] for each in slices]) if slices else weights[:0]
        payloads.append(coded.encode(own, unary_length))
        found = coded.decode(payloads[-1], own.size, unary_length, with_positions=True)
        positions.append(found.positions)
    data = interleave(payloads, positions, weights.size, width)
    lengths = [len(payload) for payload in payloads]
    assert len(data) == block_words(lengths, width) * width
    assert separate(data, lengths, width) == payloads
    settings = {"unary_length": unary_length, "header_bins": 0, "dq_coded": 1, "dq": 0, "int4": 0}
    settings["log2_streams"] = streams.bit_length() - 1
    return Block(weights, lengths, data, settings | fields)


def sparse(count, seed, zeros=0.6):
    rng = np.random.default_rng(seed)
    values = np.clip(rng.laplace(0, 12, count).round(), -128, 127)
    return np.where(rng.random(count) < zeros, 0, values).astype(np.int64)


def bench(program, blocks, columns=8, engines=1, stall=0.0, latency=20, seed=1, **more):
    """A LOAD unit whose memory holds `blocks` (address -> bytes)."""
    config = dataclasses.replace(config_of(columns), cabac_engines=engines)
    rng = random.Random(seed)
    content = bytearray(random.Random(5).randbytes(SIZE))
    for address, data in blocks.items():
        content[address : address + len(data)] = data
    axi = AxiReadModel(config, Memory(BASE, content), latency, Stalls(stall, rng), Stalls(stall, rng))
    local = LocalMemories(config, Stalls(stall, rng))
    return Bench(LoadUnit, axi, local, program, BASE, SIZE, **more)


def expected(bench_, program, blocks):
    """AM and WM when instruction after instruction was executed."""
    am, wm, width = bytearray(AM_BYTES), bytearray(WM_BYTES), bench_.dut.config.columns
    for command in program:
        if not isinstance(command, Instruction) or command.opcode not in (Opcode.LOAD_GO, Opcode.LOAD_DECODE):
            continue
        if command.opcode == Opcode.LOAD_GO:
            start = command.memory_address
            raw = bench_.axi.memory.bytes[start : start + command.row_bytes]
        else:
            raw = blocks[command.memory_address].weights.astype(np.int8).tobytes()
            raw += bytes(-len(raw) % width)
        local = am if command.space == Space.AM else wm
        local[command.local_address : command.local_address + len(raw)] = raw
    return am, wm


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("columns, engines", first_of([(8, 2), (4, 1), (16, 4)], 1))
def test_decoded_and_plain_loads_in_order(columns, engines, stall):
    """Loads in front, between and behind write before and after the blocks, to the same places."""
    blocks = {
        0: block_of(sparse(20 * columns, 1), columns, engines),
        4096: block_of(sparse(9 * columns - 3, 2), columns),
        8192: block_of(sparse(30 * columns + 1, 3, 0.95), columns, engines, unary_length=3),
        12288: block_of(sparse(1, 4), columns, engines),
    }
    program = [
        load_go(1000, 100, 700),
        load_go(2048, 0, 64 * columns, space=Space.WM),
        *blocks[0].program(0, 10 * columns),
        signal("LOAD", 1, 1),
        *blocks[4096].program(4096, 12 * columns),
        load_go(64, 14 * columns, 4 * columns, space=Space.WM),
        signal("LOAD", 2, 1),
        wait("LOAD", 1, 1),
        *blocks[8192].program(8192, 2 * columns, space=Space.AM),
        *blocks[12288].program(12288, 0, space=Space.AM),
        load_go(500, 5 * columns + 3, 100),
        signal("LOAD", 3, 1),
    ]
    dut = bench(program, {a: b.data for a, b in blocks.items()}, columns, engines, stall)
    wm_at_signal = {}
    dut.on_signal = lambda self: wm_at_signal.setdefault(len(self.signals), bytes(self.local.wm))
    dut.run(limit=60000)
    assert dut.errors == []
    am, wm = expected(dut, program, blocks)
    assert_same(dut.local.am, am)
    assert_same(dut.local.wm, wm)
    assert [fired[1:] for fired in dut.signals] == [(1, 1), (2, 1), (3, 1)]
    # The first SIGNAL came when the first block was written, and nothing behind it.
    assert_same(wm_at_signal[1], bytes(expected(dut, program[:5], blocks)[1]))


def test_a_word_per_beat_and_the_next_block_without_a_pause():
    """The block behind is requested while one is decoded; loads behind wait; other masters get the read channel."""
    blocks = {0: block_of(sparse(300, 1), 8), 4096: block_of(sparse(300, 2), 8)}
    program = [
        *blocks[0].program(0, 0),
        signal("LOAD", 0, 1),
        *blocks[4096].program(4096, 512),
        signal("LOAD", 1, 1),
        load_go(8192, 0, 8),
    ]
    dut = bench(program, {a: b.data for a, b in blocks.items()})
    decoding, ready = [], []

    def watch(ctx, self):
        decoding.append(ctx.get(self.dut.decoding))
        ready.append(ctx.get(self.dut.axi.rready))

    dut.before_cycle = watch
    dut.run(limit=20000)
    assert dut.errors == [] and [fired[1] for fired in dut.signals] == [0, 1]
    assert all(ready)
    first, second = (fired[0] for fired in dut.signals)
    # Between the two blocks the decoder rests for a cycle.
    assert decoding[:second].count(0) <= decoding.index(1) + 4
    bursts = {
        address - BASE: cycle
        for (address, _), cycle in zip(dut.axi.bursts, dut.axi.address_cycles, strict=True)
    }
    assert bursts[4096] < first - 200 and bursts[8192] >= second - 2


def test_blocks_longer_than_the_buffer_leave_the_channel_free():
    """At most 64 beats of blocks are requested and not decoded; R never waits."""
    rng = np.random.default_rng(3)
    long = block_of(rng.integers(-128, 128, 420), 4)
    assert len(long.data) > 4 * 100
    dut = bench([*long.program(0, 0), signal("LOAD", 0, 1)], {0: long.data}, columns=4, latency=5)
    ready = []
    dut.before_cycle = lambda ctx, self: ready.append(ctx.get(self.dut.axi.rready))
    dut.run(limit=30000)
    assert_same(dut.local.wm, expected(dut, long.program(0, 0), {0: long})[1])
    assert dut.errors == [] and all(ready)
    # The first two bursts come at once, each later one when 32 beats have been decoded.
    requests = dut.axi.address_cycles
    assert requests[1] - requests[0] <= 2 and len(requests) > 3
    assert all(b - a > 200 for a, b in zip(requests[1:], requests[2:], strict=False))


def stopped(dut, ctx):
    """An error was seen, and the bus owes nothing more."""
    return dut.errors and not ctx.get(dut.dut.status.busy)


def fault(program, blocks, engines=1, columns=8, **more):
    """The error that a program ends in, with what DECODE_ERROR and DECODE_POSITION would show, and the bench."""
    dut = bench(program, blocks, columns=columns, engines=engines, **more)
    seen = {}

    def done(self, ctx):
        names = ("code", "stream", "tensor", "position")
        seen.update({name: int(ctx.get(getattr(self.dut.damaged, name))) for name in names})
        return stopped(self, ctx)

    dut.run(limit=20000, stop_when=done)
    return Error(dut.errors[0][1]), seen, dut


@functools.cache
def good():
    """A block that decodes; it is coded for the first test that needs it."""
    return block_of(sparse(200, 9), 8)


@pytest.mark.parametrize(
    "wanted, damage",
    [
        (DecodeError.TRUNCATED, lambda raw: raw[:-40]),
        (DecodeError.START, lambda raw: b"\xff\xff" + raw[2:]),
        (DecodeError.TRAILING, lambda raw: raw + b"\0"),
        (DecodeError.PADDING, lambda raw: raw[:-1] + bytes([raw[-1] | 1])),
    ],
)
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_a_damaged_stream_ends_in_its_error(wanted, damage, stall):
    raw = damage(good().data[: good().lengths[0]])
    if wanted == DecodeError.PADDING and raw == good().data[: good().lengths[0]]:
        pytest.fail("the stream ends with its last bit: take another seed")
    block = Block(good().weights, [len(raw)], raw + bytes(-len(raw) % 8), good().fields)
    program = [*block.program(0, 0, tensor=513), signal("LOAD", 0, 1), load_go(8192, 0, 64)]
    code, seen, dut = fault(program, {0: block.data}, stall=stall)
    assert code == Error.DECODE
    assert DecodeError(seen["code"]) == wanted and seen["tensor"] == 513 and seen["stream"] == 0
    # A level that reads too far is found out when it leaves the pipeline, a window of bits later.
    assert 0 <= seen["position"] <= 8 * len(raw) + 32
    assert dut.signals == [] and not any(dut.local.am)


@pytest.mark.parametrize("value, int4", [(128, 0), (-129, 0), (8, 1), (-9, 1), (100000, 0)])
def test_a_level_outside_the_weights_type_is_an_error(value, int4):
    weights = np.array([3, -7, 0, value, 5])
    block = block_of(weights, 8, int4=int4)
    code, seen, _ = fault([*block.program(0, 0, tensor=2), signal("LOAD", 0, 1)], {0: block.data})
    assert code == Error.DECODE
    assert DecodeError(seen["code"]) == DecodeError.SATURATED and seen["tensor"] == 2


def test_the_damaged_one_of_several_streams_is_named():
    weights = sparse(16 * 40, 4, 0.3)
    block = block_of(weights, 16, 4)
    payloads = separate(block.data, block.lengths, 16)
    positions = [coded.decode(payload, 160, 1, with_positions=True).positions for payload in payloads]
    payloads[2] = b"\xff\xff" + payloads[2][2:]
    data = interleave(payloads, positions, weights.size, 16)
    bad = Block(weights, block.lengths, data, block.fields)
    code, seen, _ = fault(bad.program(0, 0), {0: data}, engines=4, columns=16)
    assert code == Error.DECODE
    assert (seen["code"], seen["stream"], seen["tensor"]) == (DecodeError.START, 2, 7)


@pytest.mark.parametrize("tags", [b"\0" * 8, b"\x55" * 8, b"\xff" * 8])
def test_tags_that_starve_a_stream_end_in_an_error(tags):
    block = block_of(sparse(8 * 60, 5, 0.2), 8, 2)
    data = tags + block.data[8:]
    bad = Block(block.weights, block.lengths, data, block.fields)
    code, seen, _ = fault([*bad.program(0, 0, tensor=9), signal("LOAD", 0, 1)], {0: data}, engines=2)
    assert code == Error.DECODE
    assert seen["tensor"] == 9


@pytest.mark.parametrize(
    "changed",
    [
        {"longer": 8},
        {"longer": -8},
        {"longer": -1},
        {"row_bytes": 0},
        {"weights": 0},
        {"memory_address": 4},
        {"local_address": 12},
    ],
)
def test_wrong_fields_are_illegal(changed):
    program = good().program(0, 0)
    longer = changed.get("longer", 0)
    fields = {"row_bytes": len(good().data) + longer} if longer else changed
    program[2] = make(Opcode.LOAD_DECODE, **{**program[2].fields, **fields})
    code, _, dut = fault([*program, signal("LOAD", 0, 1)], {0: good().data})
    assert code == Error.ILLEGAL and dut.signals == [] and not any(dut.local.wm)


def test_more_streams_than_engines_are_illegal():
    block = block_of(sparse(8 * 40, 5), 8, 2)
    assert fault(block.program(0, 0), {0: block.data}, engines=1)[0] == Error.ILLEGAL


@pytest.mark.parametrize("index", range(3))
def test_without_a_decoder_its_instructions_are_illegal(index):
    code, _, dut = fault([good().program(0, 0)[index]], {0: good().data}, engines=0)
    assert code == Error.ILLEGAL and not dut.axi.bursts


def test_a_unary_length_beyond_the_hardware_is_an_error():
    block = block_of(sparse(50, 1), 8, unary_length=17)
    code, seen, _ = fault(block.program(0, 0), {0: block.data})
    assert code == Error.DECODE and DecodeError(seen["code"]) == DecodeError.UNARY_LENGTH


def test_dependent_quantization_and_a_header():
    """dq_flag from the stream or from the instruction; qp in front of it is dropped."""
    levels = quantize_dependent(np.random.default_rng(1).normal(0, 3, 90).astype(np.float32), 0)
    for dq_flag, qp_bits, fields in (
        (True, 0, {"dq_coded": 1}),
        (True, 8, {"dq_coded": 1, "header_bins": 8}),
    ):
        payload = coded.encode(levels, 1, dq_flag=dq_flag, qp=-5 if qp_bits else 0, qp_bits=qp_bits)
        data = payload + bytes(-len(payload) % 8)
        settings = {**good().fields, **fields}
        block = Block(levels, [len(payload)], data, settings)
        program = [*block.program(0, 64), signal("LOAD", 0, 1)]
        dut = bench(program, {0: data})
        dut.run(limit=20000)
        assert dut.errors == []
        assert_same(dut.local.wm, expected(dut, program, {0: block})[1])
