"""Micro-programs whose first and last repetitions are outside of their bodies, executed: the same sums whatever a
repetition takes in, and however often it is repeated."""

import numpy as np
import pytest
from executed_work import Machine

from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.nest_go import GoNest, emit_nest
from tosaic.compiler.fuse.expression import Immediate, Iteration, Load, Node, Reduced, Value
from tosaic.compiler.fuse.microprogram import assemble
from tosaic.compiler.fuse.peeled import peeled
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.tile.loops import Axis
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Element, Op

CONFIG = get_config("small")
COUNT, OUT = 12, 0x400


def x() -> Value:
    return Load("x", Element.INT8)


TERMS = {
    "an element": (x, lambda values: values),
    "a number": (lambda: Immediate(5), lambda values: np.full_like(values, 5)),
    "a bounded element": (
        lambda: Node(Op.MOV, x(), clamp=(-20, 30)),
        lambda values: np.clip(values, -20, 30),
    ),
    "an element and a number": (lambda: Node(Op.ADD, x(), Immediate(-7)), lambda values: values - 7),
    "a scaled element": (
        lambda: Node(Op.RESCALE, x(), multiplier=5, shift=2, a_zp=3),
        lambda values: ((values - 3) * 5 + 2) >> 2,
    ),
    "a scaled sum": (
        lambda: Node(Op.RESCALE, Node(Op.ADD, x(), Immediate(9)), multiplier=5, shift=2),
        lambda values: ((values + 9) * 5 + 2) >> 2,
    ),
    "its place": (lambda: Iteration(), lambda values: values * 0 + np.arange(len(values))[:, None]),
    "two operations": (
        lambda: Node(Op.SUB, Node(Op.ABS, x()), Immediate(3)),
        lambda values: np.abs(values) - 3,
    ),
}
AFTER = {
    "nothing": (lambda value: value, lambda values: values),
    "a bound": (lambda value: Node(Op.MOV, value, clamp=(-40, 50)), lambda values: np.clip(values, -40, 50)),
    "a number": (lambda value: Node(Op.SUB, value, Immediate(9)), lambda values: values - 9),
}
COMBINED = {
    Op.ADD: (0, lambda values, a_zp: (values - a_zp).sum(0)),
    Op.MAX: (-(1 << 31), lambda values, a_zp: (values - a_zp).max(0)),
    Op.MIN: ((1 << 31) - 1, lambda values, a_zp: (values - a_zp).min(0)),
}


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("op", COMBINED)
def test_reductions_are_the_same_with_their_ends_outside(term: str, after: str, op: Op) -> None:
    make, computed = TERMS[term]
    finish, finished = AFTER[after]
    start, combine = COMBINED[op]
    for a_zp in (0, 11):
        for repeats in (1, 2, 3, 7):
            program = assemble(finish(Reduced(op, start, make(), a_zp)), CONFIG)
            values = np.random.default_rng(repeats).integers(-128, 128, (repeats, COUNT))
            streams = len(program.loads)
            external = ExternalMemory()
            emitter = Emitter(CONFIG, external)
            axis = Axis(COUNT, (*[1] * streams, 4))
            loop = Axis(repeats, (*[COUNT] * streams, 0))
            nest = GoNest(program, [axis], [*[0] * streams, OUT], (*[1] * streams, 4), [loop])
            emit_nest(emitter, nest)
            machine = Machine(CONFIG, external)
            machine.activations[: values.size] = values.astype(np.int8).view(np.uint8).ravel()
            machine.run(emitter.blocks.current.work)
            found = machine.activations[OUT : OUT + 4 * COUNT].view("<i4")
            wanted = finished(combine(computed(values), a_zp))
            np.testing.assert_array_equal(found, wanted, f"{a_zp} {repeats}")


@pytest.mark.parametrize(
    "term, after, repeats, left",
    [
        ("an element", "nothing", 1, 1),
        ("an element", "nothing", 2, 1),
        # One more outside, where nothing is done but to store the last sum.
        ("an element", "nothing", 3, 1),
        ("an element", "nothing", 7, 5),
        ("an element", "a bound", 7, 6),
        ("a number", "nothing", 7, 5),
        ("a bounded element", "nothing", 7, 6),
        ("its place", "nothing", 7, 7),
        ("two operations", "nothing", 7, 7),
    ],
)
def test_repetitions_that_are_left(term: str, after: str, repeats: int, left: int) -> None:
    program = assemble(AFTER[after][0](Reduced(Op.ADD, 0, TERMS[term][0]())), CONFIG)
    assert peeled(program, repeats)[1] == left
