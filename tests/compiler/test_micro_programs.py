"""Expressions as micro-programs: which micro-operations, registers and streams, and what does not fit."""

from collections.abc import Callable

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.fuse.expression import (
    ArrayResult,
    Immediate,
    Iteration,
    Load,
    Node,
    Reduced,
    Value,
    clamped,
)
from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.fuse.microprogram import MicroProgram, TooComplex, TooManyOperands, assemble
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.passes import legalize
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import STORE_STREAM, Element, Op, Source

BASE = get_config("base,lane_columns=1")
A, B, C = (
    Load(name, element)
    for name, element in zip("abc", (Element.INT8, Element.INT32, Element.INT16), strict=True)
)
SHARED = Load("s", Element.INT8, shared=True)
ARRAY = ArrayResult()


def shown(program: MicroProgram) -> list[str]:
    """Instructions with those of their fields that are not 0, but for numbers of micro-operations."""
    found = []
    for each in program.instructions:
        fields = {name: value for name, value in each.fields.items() if value and name != "index"}
        what = Op(fields.pop("op", 0)).name if each.opcode.name == "VECTOR_UOP" else "BOUNDS"
        found.append(" ".join([what, *(f"{name}={int(value)}" for name, value in sorted(fields.items()))]))
    return found


def added(first: Value, second: Value, **fields: int) -> Node:
    return Node(Op.ADD, first, second, **fields)  # type: ignore[arg-type]


def twice() -> Node:
    """A value that two operands are."""
    node = Node(Op.ABS, A)
    return Node(Op.MUL, node, node)


def text(words: str) -> str:
    """`a=LOAD` for `a_source=` and its number."""
    out = []
    for word in words.split():
        name, _, value = word.partition("=")
        out.append(f"{name}_source={int(Source[value])}" if value.isupper() else word)
    head, *rest = out
    return " ".join([head, *sorted(rest)])


@pytest.mark.parametrize(
    "root, wanted",
    [
        (A, ["MOV a=LOAD to_memory=1"]),
        (Immediate(-3), ["MOV a=IMMEDIATE to_memory=1", "BOUNDS immediate=-3"]),
        (ARRAY, ["MOV a=ARRAY to_memory=1"]),
        (Iteration(), ["MOV a=ITERATION to_memory=1"]),
        (added(A, Immediate(7)), ["ADD a=LOAD b=IMMEDIATE to_memory=1", "BOUNDS immediate=7"]),
        (added(Immediate(7), A), ["ADD a=IMMEDIATE b=LOAD to_memory=1", "BOUNDS immediate=7"]),
        (Node(Op.MOV, A, clamp=(-4, 9)), ["MOV a=LOAD clamp=1 to_memory=1", "BOUNDS high=9 low=-4"]),
        (Node(Op.MOV, A, clamp=(0, 0)), ["MOV a=LOAD clamp=1 to_memory=1", "BOUNDS"]),
        (
            Node(Op.RESCALE, A, B, multiplier=5, shift=3, round=True, a_zp=1, out_zp=2, wrap32=True),
            [
                "MOV a=LOAD",
                "RESCALE a=REGISTER a_zp=1 b=LOAD b_index=1 multiplier=5 out_zp=2 round=1 shift=3 to_memory=1 wrap32=1",
            ],
        ),
        (added(A, B), ["MOV a=LOAD", "ADD a=REGISTER b=LOAD b_index=1 to_memory=1"]),
        (added(A, A), ["MOV a=LOAD", "ADD a=REGISTER b=REGISTER to_memory=1"]),
        (added(SHARED, SHARED), ["MOV a=LOAD", "ADD a=REGISTER b=LOAD to_memory=1"]),
        (
            added(Immediate(1), Immediate(2)),
            [
                "MOV a=IMMEDIATE",
                "BOUNDS immediate=1",
                "ADD a=REGISTER b=IMMEDIATE to_memory=1",
                "BOUNDS immediate=2",
            ],
        ),
        (added(A, ARRAY), ["ADD a=ARRAY b=LOAD to_memory=1"]),
        (Node(Op.SUB, A, ARRAY), ["MOV a=ARRAY", "SUB a=LOAD b=REGISTER to_memory=1"]),
        (added(A, ARRAY, a_zp=3), ["MOV a=ARRAY", "ADD a=LOAD a_zp=3 b=REGISTER to_memory=1"]),
        (added(A, ARRAY, bias=True), ["MOV a=ARRAY", "ADD a=LOAD b=REGISTER bias=1 to_memory=1"]),
        (twice(), ["ABS a=LOAD", "MUL a=REGISTER b=REGISTER to_memory=1"]),
        (
            added(Node(Op.ABS, A), Node(Op.CLZ, B)),
            [
                "ABS a=LOAD",
                "CLZ a=LOAD a_index=1 destination=1",
                "ADD a=REGISTER b=REGISTER b_index=1 to_memory=1",
            ],
        ),
        (
            Node(Op.ABS, Node(Op.CLZ, Node(Op.ABS, A))),
            ["ABS a=LOAD", "CLZ a=REGISTER", "ABS a=REGISTER to_memory=1"],
        ),
        (
            Node(Op.ABS, Reduced(Op.MAX, -128, A)),
            [
                "MOV a=IMMEDIATE",
                "BOUNDS immediate=-128",
                "MAX a=LOAD b=REGISTER",
                "ABS a=REGISTER to_memory=1",
            ],
        ),
        (
            Reduced(Op.ADD, 0, Node(Op.RESCALE, A, multiplier=3), a_zp=4),
            [
                "MOV a=IMMEDIATE",
                "BOUNDS",
                "RESCALE a=LOAD destination=1 multiplier=3",
                "ADD a=REGISTER a_index=1 a_zp=4 b=REGISTER",
                "MOV a=REGISTER to_memory=1",
            ],
        ),
        (
            Reduced(Op.ADD, 0, Node(Op.RESCALE, A, multiplier=3, a_zp=4)),
            [
                "MOV a=IMMEDIATE",
                "BOUNDS",
                "RESCALE a=LOAD a_zp=4 b=REGISTER multiplier=3",
                "MOV a=REGISTER to_memory=1",
            ],
        ),
        (
            Reduced(Op.ADD, 0, Node(Op.RESCALE, A, multiplier=3, wrap32=True)),
            [
                "MOV a=IMMEDIATE",
                "BOUNDS",
                "RESCALE a=LOAD destination=1 multiplier=3 wrap32=1",
                "ADD a=REGISTER a_index=1 b=REGISTER",
                "MOV a=REGISTER to_memory=1",
            ],
        ),
        (
            Reduced(Op.MIN, 1 << 40, A),
            [
                "RESCALE a=IMMEDIATE multiplier=1024",
                "BOUNDS immediate=1073741824",
                "MIN a=LOAD b=REGISTER",
                "MOV a=REGISTER to_memory=1",
            ],
        ),
    ],
)
def test_micro_operations(root: Value, wanted: list[str]) -> None:
    assert shown(assemble(root, BASE)) == [text(line) for line in wanted]


def chain(count: int) -> Node:
    """`count` micro-operations, each on the result of the one before."""
    node = Node(Op.ABS, A)
    for _ in range(count - 1):
        node = Node(Op.ABS, node)
    return node


def live(count: int) -> Node:
    """`count` values that are all needed at once."""
    values: list[Value] = [Node(Op.ABS, Iteration()) for _ in range(count)]
    total = values.pop()
    while values:
        total = added(values.pop(), total)
    assert isinstance(total, Node)
    return total


def operands(count: int) -> Node:
    total: Value = A
    for place in range(count - 1):
        total = added(total, Load(f"more{place}", Element.INT8))
    assert isinstance(total, Node)
    return total


@pytest.mark.parametrize(
    "make, most, error, said",
    [
        (chain, BASE.vector_uops, TooComplex, "more than 16 micro-operations"),
        (operands, 3, TooManyOperands, "more than 3 operands in memory"),
    ],
)
def test_what_fits(make: Callable[[int], Node], most: int, error: type, said: str) -> None:
    assemble(make(most), BASE)
    with pytest.raises(error, match=f"^{said}$"):
        assemble(make(most + 1), BASE)


def test_registers() -> None:
    few = get_config("base,vector_registers=4")
    assemble(live(4), few)
    with pytest.raises(TooComplex, match="^more than 4 live values$"):
        assemble(live(5), few)
    both = added(Reduced(Op.MAX, 0, A), Reduced(Op.MIN, 0, B))
    with pytest.raises(TooComplex, match="^more than one reduction$"):
        assemble(both, few)


def test_what_streams_move_and_how_long_it_takes() -> None:
    """The body loads a byte and a word of 4 bytes per repetition, what follows 2 bytes."""
    term = Node(Op.MUL, A, B)
    program = assemble(added(Node(Op.ABS, Reduced(Op.ADD, 0, term)), C), BASE)
    assert (program.body_start, program.body_end, program.uops) == (1, 4, 6)
    assert (program.loads, program.body_loads) == ([A, B, C], 2)
    assert program.moves == {0: (0, 1), 1: (0, 1), 2: (1, 0), STORE_STREAM: (1, 0)}
    assert program.uop_beats(Element.INT8) == [1, 1, 4, 1, 1, 2]
    assert program.uop_beats(Element.INT48) == [1, 1, 4, 1, 1, 8]
    assert (program.beats(Element.INT16), program.body_beats()) == (10, (1, 4, 1))
    assert not program.bias and not program.per_channel
    slower = assemble(added(A, B), get_config("base,lane_columns=2"))
    assert (slower.uop_beats(Element.INT8), slower.body_beats()) == ([2, 4], ())


def test_the_scale_of_an_average_is_set_later() -> None:
    program = assemble(Node(Op.RESCALE, Node(Op.ABS, A), average=True, clamp=(1, 2), bias=True), BASE)
    assert (program.average, program.bias, program.per_channel) == (1, True, False)
    changed = program.averaged(77, 5)
    assert [each.fields.get("multiplier", 0) for each in changed.instructions] == [0, 77, 0]
    assert [each.fields.get("shift", 0) for each in changed.instructions] == [0, 5, 0]
    plain = assemble(Node(Op.RESCALE, A, per_channel=True), BASE)
    assert plain.averaged(77, 5) is plain and plain.per_channel


@pytest.mark.parametrize(
    "fields, limits, uses, added_before, wanted",
    [
        ({}, (-5, 9), 1, 0, (Op.ABS, (-5, 9), 0)),
        ({}, (-5, 9), 1, 3, (Op.ABS, (-5, 9), 3)),
        ({}, (-5, 9), 2, 3, (Op.MOV, (-5, 9), 3)),
        (dict(clamp=(0, 5)), (-5, 9), 1, 0, (Op.ABS, (0, 5), 0)),
        (dict(clamp=(0, 50)), (-5, 9), 1, 0, (Op.ABS, (0, 9), 0)),
        (dict(clamp=(0, 5), out_zp=1), (-5, 9), 1, 6, (Op.ABS, (6, 9), 7)),
        (dict(clamp=(20, 50)), (-5, 9), 1, 0, (Op.ABS, (9, 9), 0)),
        (dict(clamp=(-50, -20)), (-5, 9), 1, 0, (Op.ABS, (-5, -5), 0)),
    ],
)
def test_limits_join_what_makes_a_value(fields, limits, uses, added_before, wanted) -> None:
    """Unless another one reads that."""
    found = clamped(Node(Op.ABS, A, **fields), *limits, uses, added_before)
    assert (found.op, found.clamp, found.out_zp) == wanted
    assert not found.wrap32


def test_limits_do_not_join_what_wraps() -> None:
    value = Node(Op.ADD, B, Load("d", Element.INT32), wrap32=True)
    found = clamped(value, 0, 5, 1)
    assert (found.op, found.a) == (Op.MOV, value)
    assert clamped(B, 0, 5, 1).op is Op.MOV
    narrow = Node(Op.ADD, A, C, wrap32=True)
    assert clamped(narrow, 0, 5, 1) is narrow
    assert not narrow.wrap32


@pytest.mark.parametrize("kind, bits", [(DType.INT8, 8), (DType.INT16, 16)])
@pytest.mark.parametrize("inside, outside", [(True, False), (False, True)])
def test_elements_without_a_sign(kind: DType, bits: int, inside: bool, outside: bool) -> None:
    """They and their zero points have no sign: the largest lies above what a sign leaves."""
    build, largest = LayerBuilder(1), (1 << bits) - 1
    zero_point = 1 << (bits - 1) if bits == 16 else largest - 3
    zeros = [np.array([zero_point if unsigned else 0]).astype(kind.numpy) for unsigned in (inside, outside)]
    operands = [
        build.input("x", (4, 4), kind),
        build.constant([1 << 30], DType.INT32),
        build.constant([30], DType.INT8),
        *(build.constant(zero, kind) for zero in zeros),
    ]
    attributes = dict(scale32=True, rounding_mode="SINGLE_ROUND", per_channel=False)
    attributes |= dict(input_unsigned=inside, output_unsigned=outside)
    build.output(build.add("RESCALE", operands, dtype=kind, **attributes))
    graph = build.finish()
    (layer,) = Fuser(legalize(graph, BASE), BASE).layers(set())
    uop = layer.program.instructions[0]
    assert (uop.a_zp, uop.out_zp) == (zero_point * inside, zero_point * outside)
    bounds = layer.program.instructions[1]
    half = 1 << (bits - 1)
    assert (bounds.low, bounds.high) == ((0, largest) if outside else (-half, half - 1))
    unsigned = Element.UINT8 if bits == 8 else Element.UINT16
    signed = Element.INT8 if bits == 8 else Element.INT16
    assert layer.program.loads[0].element is (unsigned if inside else signed)
