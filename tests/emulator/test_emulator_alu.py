"""Every operation of a micro-op on operands of all magnitudes against the scalar machine: results and bounds."""

import random

import numpy as np
import pytest
from scalar_machine import ScalarMachine

from tosaic.hw.config_text import get_config
from tosaic.hw.isa import FIELDS, Instruction, Op, Opcode, make
from tosaic.sim.emulator.alu import Value, VectorParameters
from tosaic.sim.emulator.domain import micro_op

MAGNITUDES = (0, 1, 5, 127, 128, 32767, 32768, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 47) - 1)
DRAWS = 60
"""Number of draws of a test."""


def operand(dice: random.Random, bits: int, columns: int) -> Value:
    """Lanes of some magnitude, both ends among them, and a bound that is as small as can be."""
    most = min(dice.choice(MAGNITUDES), (1 << bits - 1) - 1)
    lanes = [most, -most, *(dice.randint(-most, most) for _ in range(columns - 2))]
    dice.shuffle(lanes)
    return Value(np.array(lanes), most)


def instruction(dice: random.Random, op: Op) -> tuple[Instruction, Instruction]:
    """A micro-op, and its VECTOR_BOUNDS."""

    def number(bits: int) -> int:
        most = (1 << dice.randint(1, bits - 1)) - 1
        return dice.choice((most, -most - 1, dice.randint(-most, most)))

    fields = {field.name: 0 for field in FIELDS[Opcode.VECTOR_UOP]} | {"op": op}
    for name in ("bias", "per_channel", "round", "clamp", "wrap32"):
        fields[name] = int(dice.random() < 0.4)
    for name in ("a_zp", "out_zp"):
        fields[name] = number(18) if dice.random() < 0.3 else 0
    # A RESCALE by no shift is another test.
    shift = dice.choice((int(op is Op.RESCALE), 1, 2, 31, 32, *(dice.randint(3, 62) for _ in range(4))))
    fields |= {"multiplier": number(32), "shift": shift}
    low, high = sorted((number(32), number(32)))
    bounds = {field.name: 0 for field in FIELDS[Opcode.VECTOR_BOUNDS]} | {"low": low, "high": high}
    return make(Opcode.VECTOR_UOP, **fields), make(Opcode.VECTOR_BOUNDS, **bounds)


def test_a_rescale_whose_sum_needs_65_bits() -> None:
    """(2^32 - 1) * (2^31 - 1) + 2^61 is above 2^63: it does not wrap, and >> 62 makes 2 of it."""
    config, most = get_config("base"), (1 << 31) - 1
    fields = {field.name: 0 for field in FIELDS[Opcode.VECTOR_UOP]} | {"op": Op.RESCALE, "per_channel": 1}
    uop, lanes = make(Opcode.VECTOR_UOP, **fields), np.full(config.columns, (1 << 32) - 1)
    scalar = ScalarMachine(config, bytearray())
    scalar.multiplier, scalar.shift = [most] * config.columns, [62] * config.columns
    parameters = VectorParameters(
        np.zeros(config.columns, np.int64),
        np.array(scalar.multiplier),
        np.array(scalar.shift),
        np.zeros(512, np.int64),
    )
    found = micro_op(
        uop, (0, 0), Value(lanes, 1 << 32), Value(lanes - lanes, 0), parameters, config.vector_bits
    )
    assert found.lanes.tolist() == [2] * config.columns
    assert [scalar.lane(uop, lane, (1 << 32) - 1, 0) for lane in range(config.columns)] == [
        2
    ] * config.columns


@pytest.mark.parametrize("machine", ["base", "nano"])
@pytest.mark.parametrize("op", Op, ids=lambda op: op.name)
def test_an_operation(op: Op, machine: str) -> None:
    config = get_config(machine)
    bits, columns, dice = config.vector_bits, config.columns, random.Random(f"{op.name} {machine}")
    scalar = ScalarMachine(config, bytearray())
    for _ in range(DRAWS):
        uop, bounds = instruction(dice, op)
        a, b = (operand(dice, bits, columns) for _ in range(2))
        if dice.random() < 0.4:
            # Shifts, and operands that are equal.
            b = Value(np.array([dice.randrange(64) for _ in range(columns)]), 63) if op.name[0] in "LA" else a
        scalar.bias, scalar.multiplier = (operand(dice, 32, columns).lanes.tolist() for _ in range(2))
        scalar.shift = [dice.randint(2, 62) for _ in range(columns)]
        scalar.table = [dice.randrange(-(1 << 31), 1 << 31) for _ in range(512)]
        scalar.bounds = {0: bounds}
        parameters = VectorParameters(
            *(np.array(each) for each in (scalar.bias, scalar.multiplier, scalar.shift, scalar.table))
        )
        found = micro_op(uop, (bounds.low, bounds.high), a, b, parameters, bits)
        pairs = zip(a.lanes.tolist(), b.lanes.tolist(), strict=True)
        wanted = [scalar.lane(uop, lane, *pair) for lane, pair in enumerate(pairs)]
        assert found.lanes.tolist() == wanted, uop
        assert max(map(abs, wanted)) <= found.bound, uop
