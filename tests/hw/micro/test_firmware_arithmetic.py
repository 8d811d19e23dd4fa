"""Single micro-ops on single numbers, around the edges of 32 and 48 bits: the firmware against the emulator."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from native_runs import run_both

from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import STORE_STREAM, Element, Op, Opcode, Source
from tosaic.sim.assembler import Assembler

CONFIG = CONFIGS["nano"]
INT32 = st.one_of(
    st.integers(-(2**31), 2**31 - 1), st.sampled_from([-(2**31), -(2**31) + 1, -1, 0, 1, 2**30, 2**31 - 1])
)
CORNER = st.integers(-(2**31), -(2**31) + 3) | st.integers(2**31 - 3, 2**31 - 1)
ZP = st.one_of(st.just(0), st.integers(-(2**17), 2**17 - 1))
FLAG = st.integers(0, 1)


def compare(x: int, b: int, first: dict[str, int], second: dict[str, int], bounds: dict[str, int]) -> None:
    """Runs on both: x goes to a register by way of `first`, whose 48 bits `second` takes, with B the number b."""
    assembler = Assembler(CONFIG)
    assembler.emit(Opcode.LOAD_GO, row_bytes=64, rows=1)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 0)
    for stream, address in ((0, 0), (1, 4), (STORE_STREAM, 64)):
        assembler.emit(Opcode.VECTOR_STREAM, stream=stream, address=address, element=Element.INT32, splat=1)
        assembler.emit(Opcode.VECTOR_DIMS, stream=stream, pair=0, count_low=3, stride_low=4, count_high=1)
    assembler.emit(Opcode.VECTOR_PARAM, address=12, bias=1, scale=1)
    assembler.emit(Opcode.VECTOR_TABLE, address=64, entries=512)  # of zeros
    assembler.emit(Opcode.VECTOR_UOP, index=0, a_source=Source.LOAD, **first)
    load_b = {"b_source": Source.LOAD, "b_index": 1}
    assembler.emit(Opcode.VECTOR_UOP, index=1, a_source=Source.REGISTER, destination=1, **load_b, **second)
    assembler.emit(Opcode.VECTOR_BOUNDS, index=1, **bounds)
    # The low and the high half of the result.
    store = {"a_source": Source.REGISTER, "a_index": 1, "to_memory": 1}
    assembler.emit(Opcode.VECTOR_UOP, index=2, op=Op.MOV, **store)
    shift = {"b_source": Source.IMMEDIATE}
    assembler.emit(Opcode.VECTOR_UOP, index=3, op=Op.ASR, **store, **shift)
    assembler.emit(Opcode.VECTOR_BOUNDS, index=3, immediate=16)
    assembler.emit(Opcode.VECTOR_GO, vectors=1, slots=1, repeats=1, uops=4, lanes=1, tail_lanes=1)
    assembler.pass_token(Opcode.VECTOR_SIGNAL, Opcode.STORE_WAIT, 1)
    assembler.emit(Opcode.STORE_GO, memory_address=64, local_address=64, row_bytes=16, rows=1)
    memory = np.zeros(1024, np.uint8)
    memory[:8].view("<i4")[:] = x, b
    memory[12:64] = np.random.default_rng(x & 0xFFFF).integers(0, 256, 52)
    size = assembler.place(memory, 512)
    run_both(CONFIG, memory, 512, size)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    x=INT32,
    b=st.one_of(INT32, st.integers(0, 63)),
    op=st.sampled_from(Op),
    wide=st.sampled_from([0, 0, 3, 15]),
    numbers=st.tuples(INT32, st.integers(0, 63), ZP, ZP),
    flags=st.tuples(FLAG, FLAG, FLAG, FLAG, FLAG),
    bounds=st.tuples(INT32, INT32),
)
def test_micro_ops(x, b, op, wide, numbers, flags, bounds):
    multiplier, shift, a_zp, out_zp = numbers
    bias, per_channel, twice, clamp, wrap32 = flags
    if shift == 0 and op == Op.RESCALE:
        twice = 0
    # The first micro-op makes more than 32 bits of x.
    first = {"op": Op.RESCALE, "multiplier": 1 << wide, "shift": 0}
    second = {"op": op, "multiplier": multiplier, "shift": shift, "a_zp": a_zp, "out_zp": out_zp}
    second |= {"bias": bias, "per_channel": per_channel, "round": twice, "clamp": clamp, "wrap32": wrap32}
    compare(x, b, first, second, {"low": min(bounds), "high": max(bounds)})


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(x=CORNER, b=CORNER, shift=st.integers(58, 63))
@example(x=-(2**31), b=-(2**31), shift=63)
def test_largest_products(x, b, shift):
    """Product and rounding may need 65 bits."""
    compare(x, b, {"op": Op.MOV}, {"op": Op.MUL, "shift": shift}, {})


@pytest.mark.parametrize("twice", [0, 1])
@pytest.mark.parametrize("zero_point", [0, -4])
def test_rescales_whose_sums_need_65_bits(zero_point, twice):
    """2 * (2^31 - 1) + 4 times 2^31 - 1 is 2^63 - 2."""
    scale = {"op": Op.RESCALE, "multiplier": 2**31 - 1, "shift": 62, "a_zp": zero_point, "round": twice}
    compare(2**31 - 1, 0, {"op": Op.RESCALE, "multiplier": 2, "shift": 0}, scale, {})


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    x=INT32,
    b=st.one_of(st.just(0), INT32),
    multiplier=INT32,
    shift=st.integers(0, 63),
    zps=st.tuples(ZP, ZP),
    flags=st.tuples(FLAG, FLAG),
)
def test_rescales(x, b, multiplier, shift, zps, flags):
    twice, clamp = flags
    second = {"op": Op.RESCALE, "multiplier": multiplier, "shift": shift, "a_zp": zps[0], "out_zp": zps[1]}
    compare(x, b, {"op": Op.MOV}, second | {"round": twice, "clamp": clamp}, {"low": -100, "high": 1 << 20})
