"""Tensors that two units use at a time lie in different banks, where there is memory."""

import pytest
from layer_cycles import Builder, values_of

from tosaic.compiler.ir import DType
from tosaic.compiler.place.arena import Arena
from tosaic.driver.session import Session

BANK = 1024


def test_a_block_apart_from_others():
    arena = Arena(4 * BANK, 16)
    arena.allocate(100)
    assert arena.allocate_apart(200, BANK, {0}) == BANK
    # In a bank of its own, where it does not touch what is there.
    assert arena.allocate_apart(50, BANK, {1}) == 112


def test_no_block_apart_that_leaves_the_memory_in_pieces():
    arena = Arena(4 * BANK, 16)
    arena.allocate(300)
    arena.allocate(BANK, high=True)
    # Before bank 2, less than 7/16 of the memory would be left in one piece.
    assert arena.allocate_apart(BANK, BANK, {0}) is None
    assert arena.gaps() == [(304, 3 * BANK)]
    # All banks hold something else.
    assert arena.allocate_apart(16, BANK, range(4)) is None


def test_a_block_apart_that_leaves_no_less_than_the_first_one():
    arena = Arena(4 * BANK, 16)
    arena.allocate(300)
    arena.allocate(BANK, others=[(0, BANK + 600)])
    assert arena.allocate_apart(300, BANK, {0}) is None
    assert arena.allocate_apart(300, BANK, {0}, like_first=True) == BANK
    # Behind the one in the middle the largest piece would become smaller.
    assert arena.allocate_apart(300, BANK, {0, 1}, like_first=True) is None


@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.xdist_group("base"))])
def test_the_array_does_not_wait_for_a_residual_operand(target):
    build = Builder()
    x = build.input("x", (1, 16, 16, 16), DType.INT8)
    x = build.convolution(x, 16, 3)
    build.output(build.residual(x, build.convolution(build.convolution(x, 16, 3), 16, 3)))
    session = Session(build.finish(), target, "base")
    session.run(values_of(session), check=True)
    assert session.stats["counters"]["array_stall_am"] == 0


@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.xdist_group("base"))])
def test_a_residual_operand_lies_apart_where_the_memory_is_in_pieces(target):
    build = Builder()
    x = build.convolution(build.input("x", (1, 32, 32, 3), DType.INT8), 40, 3)
    x = build.residual(x, build.convolution(build.convolution(x, 40, 3), 40, 3))
    deep = build.convolution(x, 80, 3, 2)
    build.output(build.residual(build.convolution(x, 80, 3, 2), build.convolution(deep, 80, 3)))
    session = Session(build.finish(), target, "base")
    session.run(values_of(session), check=True)
    assert session.stats["counters"]["array_stall_am"] == 0


@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.xdist_group("base"))])
def test_strips_of_an_image_lie_apart_from_what_the_vector_unit_writes(target):
    build = Builder()
    build.output(build.convolution(build.input("x", (1, 32, 32, 3), DType.INT8), 16, 3))
    session = Session(build.finish(), target, "base")
    session.run(values_of(session), check=True)
    # Else 900 of 3,400 cycles.
    assert session.stats["counters"]["load_stall_am"] < 100
