"""The activation memory of the emulator wraps: what crosses its end goes on at its beginning."""

import numpy as np
import pytest

from tosaic.sim.emulator.state import ActivationMemory

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
