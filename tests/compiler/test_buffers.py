"""Where the buffers of a layer lie that goes through them."""

import pytest

from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.buffers import allocate_buffers
from tosaic.compiler.place.placement import BufferKey, Role

SIZES = {BufferKey(Role.WINDOW, "image"): 64, BufferKey(Role.RESULT, "sums"): 96}


def test_the_image_is_far_from_the_result():
    """The array reads the image's bank in every cycle, and STORE would wait for it."""
    found = allocate_buffers(Arena(1024, 16), SIZES)
    assert {key.role: buffer.addresses for key, buffer in found.items()} == {
        Role.WINDOW: (0, 64),
        Role.RESULT: (928, 832),
    }


def test_buffers_are_single_where_they_do_not_fit_twice():
    found = allocate_buffers(Arena(256, 16), SIZES)
    assert {key.role: buffer.addresses for key, buffer in found.items()} == {
        Role.WINDOW: (0,),
        Role.RESULT: (160,),
    }


def test_nothing_stays_allocated_where_buffers_do_not_fit():
    arena = Arena(128, 16)
    with pytest.raises(OutOfMemory, match="160 bytes of buffers do not fit 128 free bytes"):
        allocate_buffers(arena, SIZES)
    assert arena.used() == []


def test_more_than_two_turns_of_the_image_where_they_fit():
    found = allocate_buffers(Arena(1024, 16), SIZES, window_turns=4)
    assert [len(buffer.addresses) for buffer in found.values()] == [4, 2]
    found = allocate_buffers(Arena(400, 16), SIZES, window_turns=4)
    assert [len(buffer.addresses) for buffer in found.values()] == [3, 2]


def test_a_result_keeps_away_from_operands():
    """VECTOR writes one while LOAD writes the other."""
    sizes = {BufferKey(Role.OPERAND, "x", 0): 64, BufferKey(Role.RESULT, "y"): 96}
    found = allocate_buffers(Arena(1024, 16), sizes, low=Role.RESULT)
    assert [buffer.addresses for buffer in found.values()] == [(960, 896), (0, 96)]
    single = allocate_buffers(Arena(256, 16), sizes, low=Role.RESULT)
    assert [buffer.addresses for buffer in single.values()] == [(192,), (0,)]


def test_what_takes_no_turns_is_there_once():
    """A stripe between two layers lies where windows do; what is there as a whole at the other end."""
    sizes = {BufferKey(Role.STRIPE, "s"): 64, BufferKey(Role.WHOLE, "t"): 32, BufferKey(Role.RESULT, "y"): 96}
    found = allocate_buffers(Arena(1024, 16), sizes)
    assert [buffer.addresses for buffer in found.values()] == [(0,), (992,), (896, 800)]
