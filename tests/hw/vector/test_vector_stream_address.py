"""StreamAddress against the sum of index times stride."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_bench import JobBench

from tosaic.hw.vector.stream_address import StreamAddress

WORD_BYTES = 16
STREAM = StreamAddress(2, WORD_BYTES)
BENCH = JobBench(STREAM)
OFFSETS = [(i * 0x9E3779) % (1 << 24) for i in range(4)]


def walk_of(
    start: int, turns: list[tuple[int, int]], steps: list[bool], indexed: bool = False
) -> list[tuple[int, int]]:
    """(address, last) from the second cycle after the restart on, going on where `steps` says so."""

    async def job(ctx) -> list[tuple[int, int]]:
        stream, seen = STREAM, []
        ctx.set(stream.set_stream, 1)
        ctx.set(stream.stream.stream, 2)
        ctx.set(stream.stream.address, start)
        for pair in range(3):
            (count_low, stride_low), (count_high, stride_high) = turns[2 * pair : 2 * pair + 2]
            ctx.set(stream.set_dims, 1)
            for name, value in {
                "stream": 2,
                "pair": pair,
                "count_low": count_low,
                "stride_low": stride_low,
                "count_high": count_high,
                "stride_high": stride_high,
            }.items():
                ctx.set(stream.dims[name], value)
            await ctx.tick()
            ctx.set(stream.set_stream, 0)
        ctx.set(stream.set_dims, 0)
        for _ in range(2):
            # A walk begun is forgotten by a restart, which also wins over a step.
            ctx.set(stream.restart, 1)
            ctx.set(stream.step, 1)
            await ctx.tick()
            ctx.set(stream.restart, 0)
            ctx.set(stream.step, 0)
            ctx.set(stream.offset, OFFSETS[0] if indexed else 0)
            number = 1 if ctx.get(stream.next_offset) else 0
            await ctx.tick()
            seen.clear()
            for step in steps:
                seen.append((ctx.get(stream.address), ctx.get(stream.last)))
                ctx.set(stream.step, step)
                ctx.set(stream.offset, OFFSETS[number % (ctx.get(stream.last_turn) + 1)] if indexed else 0)
                number += ctx.get(stream.next_offset)
                await ctx.tick()
        return seen

    return BENCH.run(job)


turns = st.lists(st.tuples(st.integers(1, 4), st.integers(-(1 << 23), (1 << 23) - 1)), min_size=6, max_size=6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, (1 << 24) - 1), turns, st.lists(st.booleans(), min_size=1, max_size=120), st.booleans())
def test_walk(start, turns, steps, indexed):
    indices = itertools.product(*(range(count) for count, _ in reversed(turns)))
    walk = [
        (
            (
                start
                + sum(i * s for i, (_, s) in zip(index[::-1], turns, strict=True))
                + (OFFSETS[index[-2]] if indexed else 0)
            )
            % (1 << 24),
            int(index[-1] == turns[0][0] - 1),
        )
        for index in indices
    ]
    position, expected = 0, []
    for step in steps:
        expected.append(walk[position % len(walk)])
        position += step
    assert walk_of(start, turns, steps, indexed) == expected


def test_largest_count():
    """65535 turns: the counter is as wide as the field."""
    turns = [(65535, 1), *[(1, 0)] * 5]
    seen = walk_of(0, turns, [True] * 300)
    assert seen == [(i, 0) for i in range(300)]


def test_after_the_last_turn_it_starts_over():
    turns = [(2, 1), (2, 10), *[(1, 0)] * 4]
    seen = walk_of(5, turns, [True] * 6)
    assert seen == [(5, 0), (6, 1), (15, 0), (16, 1), (5, 0), (6, 1)]


@pytest.mark.parametrize("address", [5, (1 << 24) - 20])
def test_words_of_a_vector_follow_each_other(address):
    """A step goes on from the vector's first word; addresses wrap."""

    async def job(ctx) -> list[int]:
        ctx.set(STREAM.set_stream, 1)
        ctx.set(STREAM.stream.stream, 2)
        ctx.set(STREAM.stream.address, address)
        ctx.set(STREAM.set_dims, 1)
        ctx.set(STREAM.dims.stream, 2)
        ctx.set(STREAM.dims.stride_low, 100)
        ctx.set(STREAM.dims.count_high, 1)
        ctx.set(STREAM.restart, 1)
        for pair, count in enumerate((2, 1, 1)):
            ctx.set(STREAM.dims.pair, pair)
            ctx.set(STREAM.dims.count_low, count)
            await ctx.tick()
        ctx.set(STREAM.set_stream, 0)
        ctx.set(STREAM.set_dims, 0)
        await ctx.tick()
        ctx.set(STREAM.restart, 0)
        await ctx.tick()
        seen = []
        for next_word in (1, 1, 0, 1):
            seen.append(ctx.get(STREAM.address))
            ctx.set(STREAM.next_word, next_word)
            ctx.set(STREAM.step, not next_word)
            await ctx.tick()
        ctx.set(STREAM.next_word, 0)
        seen.append(ctx.get(STREAM.address))
        return seen

    expected = [address + offset for offset in (0, 16, 32, 100, 116)]
    assert BENCH.run(job) == [value % (1 << 24) for value in expected]
