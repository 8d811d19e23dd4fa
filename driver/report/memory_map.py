"""The map of the activation memory over the layers: what is held fills it.

Addresses that no layer uses are strips, whatever their size.
"""

import dataclasses
from collections.abc import Callable, Sequence

from tosaic.compiler.memory_history import MemoryBlock
from tosaic.driver.pages import bytes_shown
from tosaic.hw.config import Config

_WIDTH, _HEIGHT, _LEFT, _TOP = 900, 300, 72, 8
_AXIS = 34
"""Height of the layers' numbers and of their title, below."""
_TICK_WIDTH = 26
"""Pixels of a layer's number, with room beside it."""
_TICK_HEIGHT, _STRIP = 13, 14
"""Pixels of an address, and of addresses that are not used."""


@dataclasses.dataclass(frozen=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float
    tip: str
    hue: int = 0
    """Degrees; a name has one everywhere."""


@dataclasses.dataclass(frozen=True)
class MemoryTick:
    at: float
    text: str
    tip: str = ""


@dataclasses.dataclass(frozen=True)
class AddressRange:
    """Addresses from `start` to before `stop`, and the pixels that they have above the axis."""

    start: int
    stop: int
    used: bool
    bottom: float
    height: float


@dataclasses.dataclass(frozen=True)
class ActivationMap:
    """What the template draws: layers to the right, addresses upwards."""

    width: int
    height: int
    left: int
    bottom: float
    rectangles: list[Rectangle]
    unused: list[Rectangle]
    """Strips across the map for addresses that nothing is held at."""
    addresses: list[MemoryTick]
    """Where used addresses begin and end."""
    layers: list[MemoryTick]
    peak: str
    """How much is held at most, and in which layer."""


def memory_map(blocks: Sequence[MemoryBlock], layers: Sequence[str], config: Config) -> ActivationMap:
    """`layers` are the program's, by the numbers that blocks have."""
    count = max(len(layers), 1)
    step = (_WIDTH - _LEFT) / count

    spans = _spans(blocks, config.am_bytes)

    def y(address: int) -> float:
        span = next(each for each in spans if address <= each.stop)
        share = (address - span.start) / (span.stop - span.start)
        return _TOP + _HEIGHT - span.bottom - span.height * share

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
                f"{block.name}: {block.bytes:,} bytes at {block.address:#x}, layers {named(first)} to {named(last)}",
                hue,
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
            Rectangle(
                _LEFT,
                y(span.stop),
                _WIDTH - _LEFT,
                span.height,
                f"{bytes_shown(span.stop - span.start)} that no layer uses",
            )
            for span in spans
            if not span.used
        ],
        _ticks(spans, y),
        [
            MemoryTick(_LEFT + (n + 0.5) * step, str(n), layers[n] if layers else "")
            for n in range(0, count, every)
        ],
        f"{bytes_shown(held[most])} of {bytes_shown(config.am_bytes)} in layer {named(most)}",
    )


def _spans(blocks: Sequence[MemoryBlock], am_bytes: int) -> list[AddressRange]:
    """The memory in pieces that are used or not. Used ones are as high as they are large, the others a strip."""
    pieces: list[tuple[int, int, bool]] = []
    end = 0
    for start, stop in sorted((block.address, block.address + block.bytes) for block in blocks):
        if start > end:
            pieces.append((end, start, False))
        if stop > end:
            pieces.append((max(start, end), stop, True))
            end = stop
    if end < am_bytes:
        pieces.append((end, am_bytes, False))
    used_bytes = sum(stop - start for start, stop, used in pieces if used)
    strips = sum(not used for _, _, used in pieces)
    strip = min(_STRIP, _HEIGHT / 3 / max(strips, 1)) if used_bytes else _HEIGHT
    scale = (_HEIGHT - strip * strips) / max(used_bytes, 1)
    found, bottom = [], 0.0
    for start, stop, used in pieces:
        height = scale * (stop - start) if used else strip
        found.append(AddressRange(start, stop, used, bottom, height))
        bottom += height
    return found


def _ticks(spans: Sequence[AddressRange], y: Callable[[int], float]) -> list[MemoryTick]:
    """Addresses at the edges of spans, as far as their texts have room; that of the end has it before others."""
    ticks: list[MemoryTick] = []
    last = spans[-1].stop
    for address in (0, *(span.stop for span in spans)):
        at = y(address)
        crowded = ticks and ticks[-1].at - at < _TICK_HEIGHT
        if crowded and address == last:
            ticks.pop()
        if not crowded or address == last:
            ticks.append(MemoryTick(at, bytes_shown(address)))
    return ticks
