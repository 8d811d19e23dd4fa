"""Random functions: what is known of an operator is only that equal arguments give equal results."""

import functools
import hashlib
from typing import Any

import numpy as np

from . import field

_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_PAIR = np.uint64(0x9E3779B97F4A7C15)
_30, _27, _31, _3 = (np.uint64(bits) for bits in (30, 27, 31, 3))


class RandomFunctions:
    """A family of functions of all seeds' values at once, with a value for each seed: where two terms differ, all seeds
    must coincide by accident for the function to take them for one. `keyed`: SipHash-2-4, whose values nobody who does
    not know the key can aim at; else a mixing function that is quick, and as good against accidents."""

    def __init__(self, rng: np.random.Generator, seeds: int, *, keyed: bool):
        self._keys = rng.integers(0, 1 << 64, (seeds, 2), dtype=np.uint64)
        self._factors = np.random.default_rng(rng.integers(0, 1 << 63))
        self._odd = list[np.ndarray]()
        """uint64 [seeds] for each word of a mixed function's arguments."""
        self._keyed = keyed

    def value(self, name: str, integers: tuple[np.ndarray, ...], terms: tuple[np.ndarray, ...]) -> np.ndarray:
        """uint64 [seeds, ...] in the field, of `integers` (int64 [...]) and field values (uint64 [seeds, ...])."""
        rank = max([part.ndim - 1 for part in terms] + [part.ndim for part in integers])
        lead = (1,) * rank
        words = [part.view(np.uint64).reshape(1, *lead[part.ndim :], *part.shape) for part in integers]
        words += [own.reshape(1, *lead[own.ndim :], *own.shape) for part in terms for own in part]
        keys = [self._keys[:, k].reshape(-1, *lead) for k in range(2)]
        with np.errstate(over="ignore"):
            if self._keyed:
                return field.reduce(_siphash(keys, _number(name), words) >> _3)
            return field.reduce(self._mixed(keys, _number(name), words) >> _3)

    def _mixed(self, keys: list[np.ndarray], name: np.uint64, words: list[np.ndarray]) -> np.ndarray:
        """A sum of products with random odd numbers, in which others seldom coincide, and then mixed."""
        while len(self._odd) < len(words):
            self._odd.append(self._factors.integers(0, 1 << 64, len(keys[0]), dtype=np.uint64) | np.uint64(1))
        # Those that are the same in many places come first.
        order = sorted(range(len(words)), key=lambda number: words[number].size)
        state = _mix(keys[0] ^ name) + keys[1]
        for number in order:
            state = state + words[number] * self._odd[number].reshape(keys[0].shape)
        return _mix(state)

    def pair(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        """Two integers of up to 61 bits for `value`: as one, where nobody aims at making two pairs the same one."""
        if self._keyed:
            return a, b
        with np.errstate(over="ignore"):
            return ((a.view(np.uint64) * _PAIR + b.view(np.uint64)).view(np.int64),)


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
