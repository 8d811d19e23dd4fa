"""The decoder accepts exactly what isa.decode accepts."""

import itertools

import pytest
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from tosaic.hw.check_byte import check_byte
from tosaic.hw.isa import CHECKED_FIELD, CORES_FIELD, FIELDS, IllegalInstruction, Opcode, decode, encode, make
from tosaic.hw.sequencer.decode import Decoder


def _legal(instructions, core_mask_bits=0, load_crc=0):
    """The decoder's verdicts."""
    verdicts = []
    decoder = Decoder(core_mask_bits, load_crc)

    async def testbench(ctx):
        for raw in instructions:
            ctx.set(decoder.instruction, int.from_bytes(raw, "little"))
            verdicts.append(int(not (ctx.get(decoder.damaged) or ctx.get(decoder.unknown))))

    simulator = Simulator(decoder)
    simulator.add_testbench(testbench)
    simulator.run()
    return verdicts


def _decodes(raw, core_mask_bits=0, load_crc=0):
    try:
        found = decode(raw)
    except IllegalInstruction:
        return 0
    checks = found.opcode is Opcode.LOAD_CHECK or found.fields.get(CHECKED_FIELD, 0)
    return int(not found.fields.get(CORES_FIELD, 0) >> core_mask_bits and (not checks or load_crc == 1))


def _fix_check(raw):
    return raw[:1] + bytes([check_byte(raw)]) + raw[2:]


def _with_all_ones(opcode):
    values = {f.name: -1 if f.signed else (1 << f.bits) - 1 for f in FIELDS[opcode]}
    return encode(make(opcode, **values))


@pytest.mark.parametrize(("core_mask_bits", "load_crc"), [(0, 0), (2, 1), (4, 0)])
def test_every_opcode_byte_and_every_bit_beyond_the_fields(core_mask_bits, load_crc):
    cases = [_fix_check(bytes([opcode]) + bytes(15)) for opcode in range(256)]
    for opcode in Opcode:
        full = _with_all_ones(opcode)
        cases.append(full)
        for bit in range(128):
            flipped = (int.from_bytes(full, "little") ^ 1 << bit).to_bytes(16, "little")
            cases += [flipped, _fix_check(flipped)]
    assert _legal(cases, core_mask_bits, load_crc) == [
        _decodes(raw, core_mask_bits, load_crc) for raw in cases
    ]


def _flipped(raw, *bits):
    return (int.from_bytes(raw, "little") ^ sum(1 << bit for bit in bits)).to_bytes(16, "little")


def test_the_check_byte_is_the_catalogues():
    """CRC-8/I-432-1 of "123456789", behind zeros, which change nothing."""
    assert check_byte(bytes(7) + b"123456789") == 0xA1


@pytest.mark.parametrize("opcode", Opcode)
def test_two_flipped_bits_are_no_instruction(opcode):
    """All 8,128 pairs of bits, where every field is at its largest and where it is 0."""
    for raw in (_with_all_ones(opcode), encode(make(opcode, **{f.name: 0 for f in FIELDS[opcode]}))):
        for bits in itertools.combinations(range(128), 2):
            with pytest.raises(IllegalInstruction):
                decode(_flipped(raw, *bits))


def test_three_flipped_bits_are_no_instruction():
    """The check byte differs by the same whatever the instruction is: by no three bits' differences it stays."""
    differs = [check_byte(_flipped(bytes(16), bit)) ^ check_byte(bytes(16)) for bit in range(128)]
    differs[8:16] = [1 << bit for bit in range(8)]
    del differs[7]  # Set in no opcode.
    assert max(Opcode) < 1 << 7
    assert not any(a ^ b ^ c == 0 for a, b, c in itertools.combinations(differs, 3))


def test_the_decoder_finds_two_flipped_bits():
    raw = _with_all_ones(Opcode.LOAD_GO)
    pairs = [
        (bit, other) for bit in range(128) for other in (bit ^ 8, (bit + 37) % 128, 127 - bit) if bit != other
    ]
    assert _legal([raw], load_crc=1) == [1]
    assert not any(_legal([_flipped(raw, *bits) for bits in pairs], load_crc=1))


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
    for load_crc in (0, 1):
        assert _legal(cases, load_crc=load_crc) == [_decodes(raw, load_crc=load_crc) for raw in cases]
