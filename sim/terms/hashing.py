"""Random functions: what is known of an operator is only that equal arguments give equal results."""

import functools
import hashlib
from typing import Any

import numpy as np

from . import field

_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_PAIR = np.uint64(0x9E3779B97F4A7C15)
_30, _27, _31, _3 = (np.uint64(bits) for bits in (30, 27, 31, 3))

FEW_NUMBERS, MOST_STARTS = 64, 1 << 14
"""Elements of integers, and names with them, of which sums are kept."""


class RandomFunctions:
    """A family of functions of all seeds' values at once, with a value for each seed: where two terms differ, all seeds
    must coincide by accident for the function to take them for one. `keyed`: SipHash-2-4, whose values nobody who does
    not know the key can aim at; else a mixing function that is quick, and as good against accidents."""

    def __init__(self, rng: np.random.Generator, seeds: int, *, keyed: bool):
        self._keys = rng.integers(0, 1 << 64, (seeds, 2), dtype=np.uint64)
        self._factors = np.random.default_rng(rng.integers(0, 1 << 63))
        self._odd = list[np.ndarray]()
        """uint64 [seeds] for each word of a mixed function's arguments."""
        self._starts = dict[tuple[Any, ...], np.ndarray]()
        """What `_start` returned, by name and integers."""
        self._keyed = keyed

    def value(self, name: str, integers: tuple[np.ndarray, ...], terms: tuple[np.ndarray, ...]) -> np.ndarray:
        """uint64 [seeds, ...] in the field, of `integers` (int64 [...]) and field values (uint64 [seeds, ...])."""
        rank = max([part.ndim - 1 for part in terms] + [part.ndim for part in integers])
        lead = (1,) * rank
        numbers = [part.view(np.uint64).reshape(1, *lead[part.ndim :], *part.shape) for part in integers]
        words = [own.reshape(1, *lead[own.ndim :], *own.shape) for part in terms for own in part]
        if self._keyed:
            keys = [self._keys[:, k].reshape(-1, *lead) for k in range(2)]
            values = _siphash(keys, _number(name), [*numbers, *words])
        else:
            values = self._mixed(name, numbers, words, rank)
        values >>= _3
        return field.settle(values)

    def _mixed(self, name: str, numbers: list[np.ndarray], words: list[np.ndarray], rank: int) -> np.ndarray:
        """A sum of products with random odd numbers, in which others seldom coincide, and then mixed."""
        state = self._start(name, numbers, rank)
        # Or, of no elements, a larger one, which no product has.
        shape = tuple(map(max, state.shape, *(word.shape for word in words)))
        # Those that are the same in many places come first.
        for number in sorted(range(len(words)), key=lambda number: words[number].size):
            product = words[number] * self._factor(len(numbers) + number, rank)
            if product.shape == shape:
                product += state
                state = product
            else:
                state = state + product
        return _mix(state)

    def _start(self, name: str, numbers: list[np.ndarray], rank: int) -> np.ndarray:
        """The part of the sum that has the name and the integers: often the same again."""
        small = [number for number in numbers if number.size <= FEW_NUMBERS]
        key, few = (name, rank, *((each.shape, each.tobytes()) for each in small)), len(small) == len(numbers)
        state = self._starts.get(key) if few else None
        if state is None:
            first, second = (self._keys[:, k].reshape(-1, *(1,) * rank) for k in range(2))
            state = _mix(first ^ _number(name)) + second
            for number, word in enumerate(numbers):
                state = state + word * self._factor(number, rank)
            if few:
                if len(self._starts) == MOST_STARTS:
                    self._starts.clear()
                self._starts[key] = state
        return state

    def _factor(self, number: int, rank: int) -> np.ndarray:
        """uint64 [seeds, 1, ..]: what an argument's word is multiplied with."""
        while len(self._odd) <= number:
            seeds = len(self._keys)
            self._odd.append(self._factors.integers(0, 1 << 64, seeds, dtype=np.uint64) | np.uint64(1))
        return self._odd[number].reshape(-1, *(1,) * rank)

    def pair(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        """Two integers of up to 61 bits for `value`: as one, where nobody aims at making two pairs the same one."""
        if self._keyed:
            return a, b
        pairs = np.atleast_1d(a).view(np.uint64) * _PAIR + b.view(np.uint64)
        return (pairs.reshape(np.broadcast_shapes(a.shape, b.shape)).view(np.int64),)


@functools.lru_cache(1 << 16)
def _number(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))


def digest(values: np.ndarray) -> str:
    """Returns a hash of a table's contents, which is a part of a function's name."""
    return hashlib.blake2b(np.ascontiguousarray(values, np.int64).tobytes(), digest_size=16).hexdigest()


def _mix(z: np.ndarray) -> np.ndarray:
    result = z >> _30
    result ^= z
    result *= _MULTIPLIERS[0]
    spare = result >> _27
    result ^= spare
    result *= _MULTIPLIERS[1]
    result ^= np.right_shift(result, _31, out=spare)
    return result


def _siphash(keys: list[np.ndarray], name: np.uint64, words: list[np.ndarray]) -> np.ndarray:
    """SipHash-2-4 of the name and the words."""
    constants = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v: list[Any] = [keys[k & 1] ^ np.uint64(constant) for k, constant in enumerate(constants)]
    length = np.uint64((8 * (1 + len(words)) & 255) << 56)
    for word in (np.broadcast_to(name, keys[0].shape), *words, length):
        v[3] = v[3] ^ word
        v = _rounds(v, 2)
        v[0] = v[0] ^ word
    v[2] = v[2] ^ np.uint64(0xFF)
    v = _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[Any], count: int) -> list[Any]:
    a, b, c, d = v
    for _ in range(count):
        a, c = a + b, c + d
        b, d = _rotated(b, 13) ^ a, _rotated(d, 16) ^ c
        a, c = _rotated(a, 32) + d, c + b
        b, d = _rotated(b, 17) ^ c, _rotated(d, 21) ^ a
        c = _rotated(c, 32)
    return [a, b, c, d]


def _rotated(x: np.ndarray, bits: int) -> np.ndarray:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))
