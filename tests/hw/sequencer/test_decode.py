"""The decoder accepts exactly what isa.decode accepts."""

import functools
import operator

import pytest
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from tosaic.hw.isa import CHECK_XOR, CORES_FIELD, FIELDS, IllegalInstruction, Opcode, decode, encode, make
from tosaic.hw.sequencer.decode import Decoder


def _legal(instructions, core_mask_bits=0):
    """The decoder's verdicts."""
    verdicts = []
    decoder = Decoder(core_mask_bits)

    async def testbench(ctx):
        for raw in instructions:
            ctx.set(decoder.instruction, int.from_bytes(raw, "little"))
            verdicts.append(int(not (ctx.get(decoder.damaged) or ctx.get(decoder.unknown))))

    simulator = Simulator(decoder)
    simulator.add_testbench(testbench)
    simulator.run()
    return verdicts


def _decodes(raw, core_mask_bits=0):
    try:
        fields = decode(raw).fields
    except IllegalInstruction:
        return 0
    return not fields.get(CORES_FIELD, 0) >> core_mask_bits


def _fix_check(raw):
    check = functools.reduce(operator.xor, raw[:1] + raw[2:], CHECK_XOR)
    return raw[:1] + bytes([check]) + raw[2:]


def _with_all_ones(opcode):
    values = {f.name: -1 if f.signed else (1 << f.bits) - 1 for f in FIELDS[opcode]}
    return encode(make(opcode, **values))


@pytest.mark.parametrize("core_mask_bits", (0, 2, 4))
def test_every_opcode_byte_and_every_bit_beyond_the_fields(core_mask_bits):
    cases = [_fix_check(bytes([opcode]) + bytes(15)) for opcode in range(256)]
    for opcode in Opcode:
        full = _with_all_ones(opcode)
        cases.append(full)
        for bit in range(128):
            flipped = (int.from_bytes(full, "little") ^ 1 << bit).to_bytes(16, "little")
            cases += [flipped, _fix_check(flipped)]
    assert _legal(cases, core_mask_bits) == [_decodes(raw, core_mask_bits) for raw in cases]


_raw = st.binary(min_size=16, max_size=16)
_opcode_first = st.builds(
    lambda o, raw: bytes([o]) + raw[1:], st.sampled_from([int(o) for o in Opcode]), _raw
)
_sparse = st.builds(
    lambda o, bit: (o | 1 << bit).to_bytes(16, "little"),
    st.sampled_from([int(o) for o in Opcode]),
    st.integers(16, 127),
)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.one_of(_raw, _opcode_first, _sparse, st.builds(_fix_check, _opcode_first | _sparse)), min_size=20
    )
)
def test_agrees_with_isa_decode(cases):
    assert _legal(cases) == [_decodes(raw) for raw in cases]
