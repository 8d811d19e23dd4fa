"""The map of the activation memory over the layers."""

import dataclasses
from collections.abc import Sequence

from tosaic.compiler.memory_history import MemoryBlock
from tosaic.driver.pages import bytes_shown
from tosaic.hw.config import Config

_WIDTH, _HEIGHT, _LEFT, _TOP = 900, 300, 60, 8
_AXIS = 34
"""Height of the layers' numbers and of their title, below."""
_TICK_WIDTH = 26
"""Pixels of a layer's number, with room beside it."""


@dataclasses.dataclass(frozen=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float
    hue: int
    """Degrees; a name has one everywhere."""
    tip: str


@dataclasses.dataclass(frozen=True)
class MemoryTick:
    at: float
    text: str
    tip: str = ""


@dataclasses.dataclass(frozen=True)
class ActivationMap:
    """What the template draws: layers to the right, addresses upwards."""

    width: int
    height: int
    left: int
    bottom: float
    rectangles: list[Rectangle]
    banks: list[MemoryTick]
    layers: list[MemoryTick]
    peak: str
    """How much is held at most, and in which layer."""


def memory_map(blocks: Sequence[MemoryBlock], layers: Sequence[str], config: Config) -> ActivationMap:
    """`layers` are the program's, by the numbers that blocks have."""
    count = max(len(layers), 1)
    step = (_WIDTH - _LEFT) / count

    def y(address: int) -> float:
        return _TOP + _HEIGHT * (1 - address / config.am_bytes)

    def named(layer: int) -> str:
        return f"{layer} ({layers[layer]})" if layer < len(layers) else str(layer)

    hues: dict[str, int] = {}
    rectangles = []
    held = [0] * count
    for block in blocks:
        # The golden angle keeps colours apart, however many follow each other.
        hue = hues.setdefault(block.name, len(hues) * 137 % 360)
        first, last = min(block.first_layer, count - 1), min(block.last_layer, count - 1)
        for layer in range(first, last + 1):
            held[layer] += block.bytes
        top = y(block.address + block.bytes)
        rectangles.append(
            Rectangle(
                _LEFT + first * step,
                top,
                max((last - first + 1) * step, 0.5),
                max(y(block.address) - top, 0.7),
                hue,
                f"{block.name}: {block.bytes:,} bytes at {block.address:#x}, layers {named(first)} to {named(last)}",
            )
        )
    every = -(-count * _TICK_WIDTH // (_WIDTH - _LEFT))
    most = max(range(count), key=held.__getitem__)
    return ActivationMap(
        _WIDTH,
        _TOP + _HEIGHT + _AXIS,
        _LEFT,
        _TOP + _HEIGHT,
        rectangles,
        [
            MemoryTick(y(b * config.am_bank_bytes), bytes_shown(b * config.am_bank_bytes))
            for b in range(config.am_banks + 1)
        ],
        [
            MemoryTick(_LEFT + (n + 0.5) * step, str(n), layers[n] if layers else "")
            for n in range(0, count, every)
        ],
        f"{bytes_shown(held[most])} of {bytes_shown(config.am_bytes)} in layer {named(most)}",
    )
