"""LOAD_DECODE: blocks of NNR streams through LOAD into WM and AM, between ordinary loads."""

import dataclasses
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

from tosaic.hw.dma import LoadUnit
from tosaic.hw.isa import Instruction, Opcode, Space, make
from tosaic.hw.nnr_streams import block_words, interleave, separate, stream_levels
from tosaic.nnr import levels as coded

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
    return Bench(LoadUnit(config), axi, local, program, BASE, SIZE, **more)


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
@pytest.mark.parametrize("columns, engines", [(4, 1), (8, 2), (16, 4)])
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
