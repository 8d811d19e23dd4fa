"""Each random function of `sim/terms` stands for one function, wherever REQUIRE holds: golden's operator and the
emulator's are that one.

Operands of 8 and 16 bits are enumerated. Of wider ones the operators are pieces with known borders (a shift by s has
its steps at multiples of 2^s and of half of it; leading zeros change at powers of 2), and both sides of borders are
enumerated; the arithmetic in between is a sum, or a product with one factor, which NumPy computes exactly.
"""

import itertools
import re

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import FIELDS, Instruction, Op, Opcode, Source, make
from tosaic.sim.emulator.alu import Value, VectorParameters
from tosaic.sim.emulator.domain import micro_op
from tosaic.sim.golden.kernels import evaluate_operator
from tosaic.sim.golden.requirements import strictly
from tosaic.sim.terms import LEMMAS, Algebra
from tosaic.sim.terms import evaluate as read
from tosaic.sim.terms.functions import named, shifted
from tosaic.sim.terms.indexed import picked, put

INT8, INT16 = np.arange(-128, 128), np.arange(-(1 << 15), 1 << 15)
ENDS = -(1 << 31), (1 << 31) - 1
BORDERS = np.unique(
    np.clip([s * (1 << k) + d for s in (-1, 1) for k in range(32) for d in range(-2, 3)], *ENDS)
)
"""int32 around all powers of 2."""
PROVED = {
    **dict.fromkeys(("AND", "OR", "XOR"), "test_bitwise"),
    **dict.fromkeys(("EQ", "GT", "GE"), "test_comparisons"),
    **dict.fromkeys(("ASR", "ASRR", "LSL", "LSR"), "test_shifts"),
    **dict.fromkeys(("U8", "BYTE", "WRAP8", "WRAP16", "WRAP32", "WRAP48"), "test_low_bits"),
    **dict.fromkeys(("MAX", "MIN"), "test_maximum_and_minimum"),
    "RESCALE": "test_rescale",
    "CLAMP": "test_clamp",
    "TABLE8": "test_table_of_int8",
    "TABLE16": "test_table_of_int16",
    "CLZ": "test_leading_zeros",
    "ABS": "test_magnitude",
    **dict.fromkeys(("PICK", "PUT"), "test_rows_at_an_index"),
}
"""The test that shows the lemma of each function."""


def test_every_lemma_is_shown() -> None:
    assert PROVED.keys() == LEMMAS.keys()
    assert all(name in globals() and re.match(r"test_\w+$", name) for name in PROVED.values())


def micro_operation(op: Op, **fields: int) -> Instruction:
    """Returns a micro-operation on a register, or on two."""
    given = {field.name: 0 for field in FIELDS[Opcode.VECTOR_UOP]} | {"a_source": Source.REGISTER, "op": op}
    return make(Opcode.VECTOR_UOP, **given | fields)


def operation(op: Op, x: np.ndarray, b: np.ndarray | int = 0, **fields: int) -> np.ndarray:
    """What the emulator computes."""
    return emulated(micro_operation(op, **fields), x, b, VectorParameters.empty(1))


def emulated(
    uop: Instruction, x: np.ndarray, b: np.ndarray | int, parameters: VectorParameters
) -> np.ndarray:
    a, other = (Value(np.asarray(each, np.int64), 1 << 31) for each in (x, b))
    lanes = micro_op(uop, (0, 0), a, other, parameters, 48).lanes
    return np.broadcast_to(lanes, np.broadcast_shapes(np.shape(x), np.shape(b)))


def golden(op: str, operands: list[np.ndarray], out: DType, **attributes: object) -> np.ndarray:
    with strictly():
        return evaluate_operator(op, operands, attributes, [out])[0].astype(np.int64)


def term(op: str, x: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    """What the second reader computes of constants."""
    algebra = Algebra(entropy=1)
    one = algebra.constant(x)
    return named(algebra, op, one, one if b is None else algebra.constant(b)).low


def pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(values, len(values)).astype(np.int32), np.tile(values, len(values)).astype(np.int32)


@pytest.mark.parametrize("op", ["AND", "OR", "XOR"])
def test_bitwise(op: str) -> None:
    """A bit of the result depends on one bit of each: all pairs of bytes, and of borders, whose signs extend."""
    for x, b in (pairs(INT8), pairs(BORDERS[::3])):
        wanted = golden(f"BITWISE_{op}", [x, b], DType.INT32)
        algebra = Algebra(entropy=1)
        assert (operation(Op[op], x, b) == wanted).all()
        assert (algebra.bitwise(op, algebra.constant(x), algebra.constant(b)).low == wanted).all()


@pytest.mark.parametrize("op", ["EQUAL", "GREATER", "GREATER_EQUAL"])
def test_comparisons(op: str) -> None:
    own = {"EQUAL": "EQ", "GREATER": "GT", "GREATER_EQUAL": "GE"}[op]
    for x, b in (pairs(INT8), pairs(BORDERS)):
        wanted = golden(op, [x, b], DType.BOOL)
        assert (operation(Op[own], x, b) == wanted).all() and (term(own, x, b) == wanted).all()


@pytest.mark.parametrize("name", ["ASR", "ASRR", "LSL", "LSR"])
def test_shifts(name: str) -> None:
    """Shifts by 0..31 are compared for all of int16, and on both sides of every step."""
    op = {"A": "ARITHMETIC_RIGHT_SHIFT", "LSL": "LOGICAL_LEFT_SHIFT", "LSR": "LOGICAL_RIGHT_SHIFT"}
    operator, attributes = (
        op["A" if name[0] == "A" else name],
        {"round": name == "ASRR"} if name[0] == "A" else {},
    )
    algebra = Algebra(entropy=1)
    for amount in range(32):
        steps = np.concatenate([BORDERS + d * (1 << amount >> 1) for d in range(-3, 4)])
        values = np.unique(np.clip(np.concatenate([steps, INT16[::7]]), -(1 << 31), (1 << 31) - 1)).astype(
            np.int32
        )
        wanted = golden(operator, [values, np.full(1, amount, np.int32)], DType.INT32, **attributes)
        found = operation(Op[name[:3]], values, amount, round=int(name == "ASRR"), wrap32=1)
        assert (found == wanted).all()
        for count in (amount, algebra.constant(np.full(1, amount))):
            own = algebra.wrap(shifted(algebra, name, algebra.constant(values), count), 32)
            assert (own.low == wanted).all()
        if name.startswith("ASR"):
            # The interval of a term that is shifted by another one.
            ends = algebra.fresh((1,), int(values.min()), -5), algebra.fresh((1,), 7, int(values.max()))
            for end in ends:
                own = shifted(algebra, name, end, algebra.fresh((1,), 0, 63))
                inside = wanted[(values >= end.low) & (values <= end.high)]
                assert own.low[0] <= inside.min() and inside.max() <= own.high[0]


def test_low_bits() -> None:
    """They are compared for numbers of 48 bits around every power of 2."""
    wide = np.unique(
        np.concatenate([s * (1 << np.arange(47)) + d for s in (-1, 1) for d in range(-130, 131)])
    )
    algebra = Algebra(entropy=1)
    for bits, dtype in ((8, np.int8), (16, np.int16), (32, np.int32)):
        assert (algebra.wrap(algebra.constant(wide), bits).low == wide.astype(dtype)).all()
    assert (algebra.wrap(algebra.constant(wide), 48).low == (wide << 16) >> 16).all()
    raw = wide.astype("<i8").view(np.uint8).reshape(-1, 8)
    for number in range(8):
        for signed, seen in ((False, raw), (True, raw.view(np.int8))):
            assert (
                algebra.byte(algebra.constant(wide), number, 8, signed=signed).low == seen[:, number]
            ).all()


@pytest.mark.parametrize("op", ["MAXIMUM", "MINIMUM"])
def test_maximum_and_minimum(op: str) -> None:
    for x, b in (pairs(INT8), pairs(BORDERS)):
        assert (operation(Op[op[:3]], x, b) == golden(op, [x, b], DType.INT32)).all()


@pytest.mark.parametrize("double", [False, True])
def test_rescale(double: bool) -> None:
    """apply_scale_32 of int32 wherever its REQUIREs hold: products at both sides of the steps of every shift.

    golden's result is wrapped to 32 bits and the emulator's is not: where the specification says anything, it fits."""
    multipliers = np.array([0, 1, 3, 1 << 14, (1 << 30) - 1, 1 << 30, (1 << 30) + 12345, (1 << 31) - 1])
    algebra = Algebra(entropy=1)
    for shift in range(2, 63):
        for multiplier in multipliers.tolist():
            near = [BORDERS]
            for q in range(-3, 4):
                near.append(np.arange(-2, 3) + (q << shift >> 1) // max(multiplier, 1))
            values = np.unique(np.concatenate(near))
            limit = 1 << (shift - 1)
            values = values[(values >= -limit) & (values < limit) & (np.abs(values) < 1 << 31)]
            exact = (values.astype(object) * multiplier + (1 << shift >> 1)) // (1 << shift)
            values = values[[abs(int(each)) < (1 << 31) - 2 for each in exact]].astype(np.int32)
            operands = [values, np.full(1, multiplier, np.int32), np.full(1, shift, np.int8)]
            zeros = [np.zeros(1, np.int32), np.zeros(1, np.int32)]
            mode = "DOUBLE_ROUND" if double else "SINGLE_ROUND"
            how = {"scale32": True, "rounding_mode": mode, "per_channel": False}
            wanted = golden("RESCALE", [*operands, *zeros], DType.INT32, **how)
            found = operation(Op.RESCALE, values, 0, multiplier=multiplier, shift=shift, round=int(double))
            assert (found == wanted).all()
            own = algebra.rescale(
                algebra.constant(values), *(np.full(1, n) for n in (multiplier, shift)), double=double
            )
            assert (np.broadcast_to(own.low, values.shape) == wanted).all()


def test_clamp() -> None:
    """int8, all limits: 256 numbers and 33 ends each."""
    algebra = Algebra(entropy=1)
    for low in range(-128, 128, 17):
        for high in range(low, 128, 17):
            wanted = golden("CLAMP", [INT8.astype(np.int8)], DType.INT8, min_val=low, max_val=high)
            uop = micro_operation(Op.MOV, clamp=1)
            value = Value(INT8.astype(np.int64), 128)
            assert (
                micro_op(uop, (low, high), value, value, VectorParameters.empty(1), 48).lanes == wanted
            ).all()
            assert (algebra.clamp(algebra.constant(INT8), low, high).low == wanted).all()


def tables(entries: int) -> list[np.ndarray]:
    """Returns tables in which no step leaves int16, and which reach its ends."""
    rng = np.random.default_rng(1)
    ramp = np.linspace(-(1 << 15), (1 << 15) - 1, entries).astype(np.int64)
    return [ramp, -ramp - 1, rng.integers(-(1 << 14), 1 << 14, entries), np.full(entries, -(1 << 15))]


def test_table_of_int8() -> None:
    for entries in tables(256):
        own = entries >> 8
        wanted = golden("TABLE", [INT8.astype(np.int8), own.astype(np.int8)], DType.INT8)
        parameters = VectorParameters.empty(1)
        parameters.table[:256] = own
        uop = micro_operation(Op.TABLE8)
        algebra = Algebra(entropy=1)
        assert (emulated(uop, INT8, 0, parameters) == wanted).all()
        assert (algebra.table(algebra.constant(INT8), own).low == wanted).all()


def test_table_of_int16() -> None:
    """All inputs."""
    for entries in tables(513):
        wanted = golden("TABLE", [INT16.astype(np.int16), entries.astype(np.int16)], DType.INT32)
        parameters = VectorParameters.empty(1)
        parameters.table[:] = (entries[:-1] & 0xFFFF) | (entries[1:] << 16)
        uop = micro_operation(Op.TABLE16)
        algebra = Algebra(entropy=1)
        assert (emulated(uop, INT16, 0, parameters) == wanted).all()
        assert (algebra.interpolated(algebra.constant(INT16), entries).low == wanted).all()


def test_leading_zeros() -> None:
    """They change at powers of 2 only."""
    values = np.unique(np.concatenate([BORDERS, INT16])).astype(np.int32)
    wanted = golden("CLZ", [values], DType.INT32)
    assert (operation(Op.CLZ, values) == wanted).all() and (term("CLZ", values) == wanted).all()


@pytest.mark.parametrize("op", ["GATHER", "SCATTER"])
def test_rows_at_an_index(op: str) -> None:
    """Two rows of a table of 4, at all pairs of indices, of a compiled program: which row is read or written depends on
    the index alone, what is in it on nothing."""
    build, rng = LayerBuilder(1), np.random.default_rng(1)
    table, new = (rng.integers(-128, 128, (1, rows, 3)).astype(np.int8) for rows in (4, 2))
    operands = [build.input("t", table.shape, DType.INT8), build.input("i", (1, 2), DType.INT32)]
    operands += [build.input("n", new.shape, DType.INT8)] if op == "SCATTER" else []
    build.output(build.add(op, operands))
    graph, algebra = build.finish(), Algebra(entropy=1)
    session = Session(compile_graph(graph, get_config("nano")), target="emulator")
    for pair in itertools.product(range(4), repeat=2):
        if op == "SCATTER" and pair[0] == pair[1]:
            continue
        index = np.array([pair], np.int32)
        given = {"t": table, "i": index} | ({"n": new} if op == "SCATTER" else {})
        wanted = golden(op, list(given.values()), DType.INT8)
        assert (session.run(given)[graph.outputs[0]] == wanted).all()
        terms = {name: algebra.constant(value.astype(np.int64)) for name, value in given.items()}
        assert (read(graph, terms, algebra).outputs[graph.outputs[0]].low == wanted).all()
        rows = algebra.constant(np.concatenate([table[0], new[0]]))
        turn = algebra.constant(index.reshape(-1, 1).astype(np.int64))
        assert (picked(algebra, turn, rows[:4].reshape(4, 1, 3)).low == table[0, list(pair)]).all()
        changed = put(algebra, turn[:1], np.arange(4)[:, None], rows[4:5], rows[:4])
        assert (changed.low == np.where(np.arange(4)[:, None] == pair[0], new[0, 0], table[0])).all()


def test_magnitude() -> None:
    """But for the minimum, which REQUIRE excludes."""
    values = np.unique(np.concatenate([BORDERS, INT16]))[1:].astype(np.int32)
    wanted = golden("ABS", [values], DType.INT32)
    assert (operation(Op.ABS, values) == wanted).all() and (term("ABS", values) == wanted).all()
