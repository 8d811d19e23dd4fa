"""The memories of the emulator: activation memory wraps, and what samples share is kept once."""

import gc
import pathlib
import tracemalloc

import numpy as np
import pytest

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir.tosa_file import read_tosa
from tosaic.hw.config import CONFIGS
from tosaic.sim.emulator import Emulator
from tosaic.sim.emulator.external_memory import ExternalBytes
from tosaic.sim.emulator.faults import Diverged, Fault
from tosaic.sim.emulator.state import AccumulatorQueue, ActivationBytes, WeightWords, agreed

SIZE, WORD = 256, 8
DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits/digits.tosa"


@pytest.mark.parametrize("address", [SIZE - 3, 2 * SIZE - 3, -3])
@pytest.mark.parametrize("samples", [1, 2])
def test_a_word_that_crosses_the_end(address: int, samples: int) -> None:
    memory = ActivationBytes(samples, SIZE, WORD)
    words = np.arange(1, 1 + 8 * samples, dtype=np.uint8).reshape(samples, 1, 8)
    memory.write(np.array([[address]]), words)
    np.testing.assert_array_equal(memory.read(address, 8), words[:, 0])
    np.testing.assert_array_equal(memory.read_words(np.array([[address]])), words)
    np.testing.assert_array_equal(memory.read(0, 5), words[:, 0, 3:])


def test_of_overlapping_words_the_last_one_stays() -> None:
    memory = ActivationBytes(1, SIZE, WORD)
    memory.write(np.array([[SIZE - 4, 0]]), np.array([[[1] * 8, [2] * 8]], np.uint8))
    assert memory.read(SIZE - 4, 12)[0].tolist() == [1] * 4 + [2] * 8


@pytest.mark.parametrize("address", [SIZE - 8, SIZE - 4, 0])
def test_rows_that_cross_the_end(address: int) -> None:
    memory = ActivationBytes(1, SIZE, WORD)
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
        memory, wanted = WeightWords(samples, words, columns), np.zeros((samples, words, columns), np.int8)
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


@pytest.mark.parametrize("seed", range(30))
def test_bytes_of_the_activation_memory_are_those_that_were_written_last(seed: int) -> None:
    """They are written by addresses of each sample or of all, and by rows, and read by nested loops; all wrap."""
    dice = np.random.default_rng(seed)
    samples, size = int(dice.integers(1, 4)), 64
    memory, wanted = ActivationBytes(samples, size, WORD), np.zeros((samples, size), np.uint8)

    def where(count: int, own: bool) -> np.ndarray:
        return dice.integers(-size, 2 * size, (samples if own else 1, count))

    for _ in range(12):
        count, width, own = int(dice.integers(1, 5)), int(dice.choice([1, 3, 8])), dice.random() < 0.5
        data = dice.integers(0, 256, (samples, count, width)).astype(np.uint8)
        if dice.random() < 0.6:
            addresses = where(count, own)
            memory.write(addresses, data)
        else:
            addresses = where(count, False)
            memory.write_rows(addresses[0], data)
        for sample, number, byte in np.ndindex(data.shape):
            place = addresses[sample % len(addresses), number] + byte
            wanted[sample, place % size] = data[sample, number, byte]
        everywhere = np.concatenate([wanted, wanted, wanted], axis=1)
        addresses = where(count, own)
        found = memory.read_words(addresses)
        for sample, number in np.ndindex(samples, count):
            start = addresses[sample % len(addresses), number] % size
            assert found[sample, number].tolist() == everywhere[sample, start : start + WORD].tolist()
        start, length = int(dice.integers(-size, size)), int(dice.integers(0, size + 1))
        np.testing.assert_array_equal(memory.read(start, length), everywhere[:, start % size :][:, :length])
        rows = where(count, False)[0]
        np.testing.assert_array_equal(
            memory.read_rows(rows, width),
            np.stack([everywhere[:, row % size :][:, :width] for row in rows], axis=1),
        )


@pytest.mark.parametrize("seed", range(20))
def test_nested_loops_through_the_activation_memory(seed: int) -> None:
    """`nested` gives None where they lie further apart than the memory is large."""
    dice = np.random.default_rng(seed)
    memory = ActivationBytes(2, SIZE, WORD)
    content = dice.integers(0, 256, (2, SIZE)).astype(np.uint8)
    memory.write_rows(np.array([0]), content[:, None])
    for _ in range(20):
        counts = tuple(dice.integers(1, 5, 3).tolist())
        strides = tuple(dice.integers(-60, 60, 3).tolist())
        start = int(dice.integers(-SIZE, 2 * SIZE))
        found = memory.nested(start, counts, strides)
        reach = sum((count - 1) * abs(stride) for count, stride in zip(counts, strides, strict=True))
        assert (found is None) == (reach + 1 > SIZE)
        if found is not None:
            places = start + np.tensordot(np.array(strides), np.indices(counts), 1)
            np.testing.assert_array_equal(found, content[:, places % SIZE])
    assert memory.nested(7, (SIZE,), (1,)) is not None
    assert memory.nested(7, (SIZE + 1,), (1,)) is None


@pytest.mark.parametrize("seed", range(30))
def test_what_samples_share_of_external_memory(seed: int) -> None:
    """Bytes at the start are kept once until one is written; what is read is the same."""
    dice = np.random.default_rng(seed)
    samples, shared, own = int(dice.integers(1, 4)), int(dice.integers(0, 40)), 60
    common = dice.integers(0, 256, shared).astype(np.uint8) if shared else None
    windows = dice.integers(0, 256, (samples, own)).astype(np.uint8)
    memory = ExternalBytes(windows.copy(), None if common is None else common.copy())
    start = np.zeros((samples, 0), np.uint8) if common is None else np.tile(common, (samples, 1))
    wanted, size = np.concatenate([start, windows], axis=1), shared + own
    assert (len(memory), memory.samples) == (size, samples)
    apart = False
    for _ in range(10):
        width, count = int(dice.integers(1, 12)), int(dice.integers(1, 4))
        first = int(dice.integers(0, size - width + 1))
        step = int(dice.integers(0, (size - width - first) // max(1, count - 1) + 1))
        rows = first + step * np.arange(count)
        if dice.random() < 0.3:
            rows = dice.integers(0, size - width + 1, count)
        if dice.random() < 0.4:
            data = dice.integers(0, 256, (samples, count, width)).astype(np.uint8)
            memory.write_rows(rows, data)
            for number, row in enumerate(rows):
                wanted[:, row : row + width] = data[:, number]
            apart = apart or rows.min() < shared
            continue
        found = memory.read_rows(rows, width)
        all_shared = not apart and rows.max() + width <= shared
        apart = apart or rows.min() < shared < rows.max() + width
        assert len(found) == (1 if all_shared else samples)
        expected = np.stack([wanted[:, row : row + width] for row in rows], axis=1)
        np.testing.assert_array_equal(np.broadcast_to(found, expected.shape), expected)
        one = memory.read(int(rows[0]), width)
        np.testing.assert_array_equal(np.broadcast_to(one, expected[:, 0].shape), expected[:, 0])


def test_a_run_leaves_no_memory_behind():
    """Memories of many samples are hundreds of megabytes: they do not wait for the collector."""
    program = compile_graph(read_tosa(DIGITS), CONFIGS["base"])
    samples, port = 16, program.inputs[0]
    windows = np.repeat(program.memory()[None], samples, axis=0)
    for number, window in enumerate(windows):
        port.write(window, np.full(port.shape, number, np.int8))
    emulator = Emulator(program.config)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            emulator.execute(ExternalBytes(windows), program.program_address, program.program_bytes)
        left, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert most > samples * program.config.am_bytes
    assert left < program.config.am_bytes
