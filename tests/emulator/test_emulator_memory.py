"""The activation memory of the emulator wraps: what crosses its end goes on at its beginning."""

import numpy as np
import pytest

from tosaic.sim.emulator.faults import Diverged, Fault
from tosaic.sim.emulator.state import AccumulatorQueue, ActivationMemory, WeightMemory, agreed

SIZE, WORD = 256, 8


@pytest.mark.parametrize("address", [SIZE - 3, 2 * SIZE - 3, -3])
@pytest.mark.parametrize("samples", [1, 2])
def test_a_word_that_crosses_the_end(address: int, samples: int) -> None:
    memory = ActivationMemory(samples, SIZE, WORD)
    words = np.arange(1, 1 + 8 * samples, dtype=np.uint8).reshape(samples, 1, 8)
    memory.write(np.array([[address]]), words)
    np.testing.assert_array_equal(memory.read(address, 8), words[:, 0])
    np.testing.assert_array_equal(memory.read_words(np.array([[address]])), words)
    np.testing.assert_array_equal(memory.read(0, 5), words[:, 0, 3:])


def test_of_overlapping_words_the_last_one_stays() -> None:
    memory = ActivationMemory(1, SIZE, WORD)
    memory.write(np.array([[SIZE - 4, 0]]), np.array([[[1] * 8, [2] * 8]], np.uint8))
    assert memory.read(SIZE - 4, 12)[0].tolist() == [1] * 4 + [2] * 8


@pytest.mark.parametrize("address", [SIZE - 8, SIZE - 4, 0])
def test_rows_that_cross_the_end(address: int) -> None:
    memory = ActivationMemory(1, SIZE, WORD)
    memory.write_rows(np.array([address]), np.arange(8, dtype=np.uint8).reshape(1, 1, 8))
    assert memory.read_rows(np.array([address]), 8)[0, 0].tolist() == list(range(8))
    assert memory.read_words(np.array([[address]]))[0, 0].tolist() == list(range(8))


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), (3, 2, 5)])
def test_what_all_samples_agree_on(shape: tuple[int, ...]) -> None:
    values = np.broadcast_to(np.arange(np.prod(shape[1:])).reshape(shape[1:]), shape).copy()
    assert agreed(values).tolist() == values[0].tolist()
    for sample in range(1, shape[0]):
        other = values.copy()
        other[sample].flat[-1] += 1
        with pytest.raises(Diverged, match="the samples of the batch part ways") as caught:
            agreed(other)
        assert caught.value.as_first.tolist() == [number != sample for number in range(shape[0])]


@pytest.mark.parametrize("takes", [(5, 4, 1), (3, 3, 0, 4), (10,), (1,) * 10])
def test_vectors_leave_the_array_in_their_order(takes: tuple[int, ...]) -> None:
    """Pushed as blocks of 3, none, 6 and 1."""
    queue, vectors = AccumulatorQueue(2, 4), np.arange(80, dtype=np.int32).reshape(2, 10, 4)
    for first, last in ((0, 3), (3, 3), (3, 9), (9, 10)):
        queue.push(vectors[:, first:last])
    first = 0
    for count in takes:
        assert queue.vectors == 10 - first
        np.testing.assert_array_equal(queue.pop(count), vectors[:, first : first + count])
        first += count
    with pytest.raises(Fault, match="takes 1 vectors out of the array, which has sent 0"):
        queue.pop(1)


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_words_of_weights_are_those_that_were_written_last(samples: int) -> None:
    """Whether all samples got the same or each its own, in any order; numbers of words wrap."""
    words, columns = 8, 4
    for seed in range(60):
        dice = np.random.default_rng(seed)
        memory, wanted = WeightMemory(samples, words, columns), np.zeros((samples, words, columns), np.int8)
        for _ in range(8):
            first, count = int(dice.integers(0, 3 * words)), int(dice.integers(1, words + 1))
            numbers = (first + np.arange(count)) % words
            shared = dice.random() < 0.5
            data = dice.integers(-128, 128, (1 if shared else samples, count, columns)).astype(np.int8)
            memory.write(memory.places(first, count), data)
            wanted[:, numbers] = data
            first, count = int(dice.integers(0, 3 * words)), int(dice.integers(1, words + 1))
            found = memory.read(memory.places(first, count))
            assert len(found) in (1, samples)
            numbers = (first + np.arange(count)) % words
            np.testing.assert_array_equal(
                np.broadcast_to(found, (samples, count, columns)), wanted[:, numbers]
            )
