"""The arena against a list of blocks, what is told of its banks, and what a report says of its layers."""

import random

from tosaic.compiler.memory_history import MemoryBlock, MemoryHistory
from tosaic.compiler.place.arena import Arena
from tosaic.compiler.place.placement import resident
from tosaic.compiler.place.residents import Residents

SIZE, STEP = 4096, 16


def gaps(blocks: dict[int, int]) -> list[tuple[int, int]]:
    free, position = [], 0
    for start, end in sorted(blocks.items()):
        free += [(position, start)] if start > position else []
        position = end
    return free + ([(position, SIZE)] if position < SIZE else [])


def test_blocks_are_where_a_search_of_all_gaps_finds_them():
    draw, arena, blocks = random.Random(5), Arena(SIZE, STEP), dict[int, int]()
    for _ in range(3_000):
        if blocks and draw.random() < 0.45:
            start = draw.choice(sorted(blocks))
            arena.free(start)
            del blocks[start]
        else:
            size, high = draw.randint(0, 300), draw.random() < 0.5
            needed = -(-max(size, 1) // STEP) * STEP
            fitting = [gap for gap in gaps(blocks) if gap[1] - gap[0] >= needed]
            wanted = None if not fitting else fitting[-1][1] - needed if high else fitting[0][0]
            assert arena.allocate(size, high=high) == wanted
            if wanted is not None:
                blocks[wanted] = wanted + needed
        assert arena.gaps() == gaps(blocks)
        assert sorted(arena.used()) == sorted(blocks.items())
        assert arena.largest_gap_bytes() == max((b - a for a, b in gaps(blocks)), default=0)


def test_a_block_beside_others_that_count_as_used():
    arena = Arena(SIZE, STEP)
    assert arena.allocate(64, others=[(0, 100), (128, 160)]) == 160
    assert arena.gaps() == [(0, 160), (224, SIZE)]


def test_what_was_touched():
    arena = Arena(SIZE, STEP)
    first, second = arena.allocate(64), arena.allocate(64)
    assert arena.touched == {first, second}
    arena.touched.clear()
    arena.free(second)
    assert arena.touched == {second}


def test_a_block_of_its_own_bank_leaves_as_much_room_as_the_first_one():
    """Banks of 1024 bytes, a gap at the start. With `like_first` as much must stay in one piece as the first free
    block would leave."""

    def apart(gap_bytes, taken, like_first=True):
        arena = Arena(SIZE, STEP)
        arena.occupy([(gap_bytes, SIZE)])
        return arena.allocate_apart(64, 1024, taken, like_first=like_first)

    assert apart(1088, {0}) == 1024
    assert apart(1088, {0, 1}) is None
    assert apart(1088, {0}, like_first=False) is None
    assert apart(1200, {0}) is None
    assert apart(64, {1}) == 0


def test_banks_of_tensors_that_come_and_go():
    tensors = Residents(1024)
    tensors.put("a", resident(1000, 100))
    tensors.put("b", resident(0, 10))
    tensors.put("other name of b", resident(0, 10))
    assert tensors.banks == {0: 3, 1: 1}
    assert tensors.name(0) == "other name of b"
    tensors.drop("other name of b")
    tensors.put("a", resident(2048, 1024))
    assert tensors.banks == {0: 1, 2: 1}
    assert tensors.name(0) == "b" and tensors.name(1000) is None
    tensors.drop("was never there")
    assert list(tensors) == ["b", "a"]


def test_history_joins_what_stays():
    history = MemoryHistory()
    history.note({0: (64, "x"), 64: (128, "parameters and buffers")})
    history.note({0: (64, "x"), 64: None})
    history.note({0: (32, "y"), 64: None})
    assert history.blocks() == [
        MemoryBlock("parameters and buffers", 64, 64, 0, 0),
        MemoryBlock("x", 0, 64, 0, 1),
        MemoryBlock("y", 0, 32, 2, 2),
    ]
