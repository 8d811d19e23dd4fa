"""Cycles of layers, cascades and plans, in which units work side by side.

Good enough to compare plans of one graph: latencies are left out, and what the units of neighbouring layers wait for
each other."""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction

from tosaic.compiler.cost.array import dense_cycles, full_rows_cycles
from tosaic.compiler.cost.vector import batch_cycles
from tosaic.compiler.machine_numbers import LAYER_TURN_CYCLES, STRIPE_WAIT_CYCLES, TILE_PARAMETER_CYCLES
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config import Config
from tosaic.hw.isa import Element


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Bytes between external memory and the machine. Both directions are in use at a time."""

    read: int = 0
    written: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.read + other.read, self.written + other.written)


@dataclasses.dataclass(frozen=True)
class BufferDemand:
    """A buffer of a layer."""

    size_bytes: int
    doubled: bool
    """One piece is in use while another comes or leaves."""


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of a layer of the array."""

    name: Hashable
    """What tells them from those of other layers."""
    size_bytes: int
    fetched_bytes: int
    """Bytes that come: those that do not stay come again."""


@dataclasses.dataclass(frozen=True)
class Demand:
    """What a layer, or a stripe of one, asks of the units."""

    computing_cycles: int
    """Cycles of array or VECTOR while all operands are there."""
    moved: Traffic
    """Bytes that it transfers, but for its weights."""
    buffers: Mapping[Hashable, BufferDemand]
    weights: Weights | None = None


def layer_cycles(demand: Demand, config: Config, speed: MemorySpeed) -> int:
    """Cycles of a layer: the longer of computing and transferring, or their sum where buffers are not double."""
    computing, rate = demand.computing_cycles, speed.bytes_per_cycle(config)
    weights = demand.weights.fetched_bytes if demand.weights is not None else 0
    if not all(buffer.doubled for buffer in demand.buffers.values()):
        # Weights come while the array computes, whatever else waits.
        computing, weights = max(computing, int(weights // rate)), 0
    return _together([demand], computing, demand.moved + Traffic(read=weights), rate)


def cascade_cycles(stripes: Sequence[Demand], config: Config, speed: MemorySpeed) -> int:
    """Cycles of a cascade's stripes. The weights of all layers come once, or for each stripe if they do not stay."""
    computing = sum(stripe.computing_cycles for stripe in stripes) + STRIPE_WAIT_CYCLES * len(stripes)
    moved = sum((stripe.moved for stripe in stripes), Traffic())
    each = [stripe.weights for stripe in stripes if stripe.weights is not None]
    once = {weights.name: weights.size_bytes for weights in each}
    if sum(once.values()) > config.wm_bytes:
        moved += Traffic(read=sum(once[weights.name] for weights in each))
    else:
        moved += Traffic(read=sum(once.values()))
    return _together(stripes, computing, moved, speed.bytes_per_cycle(config))


def _together(demands: Sequence[Demand], computing: int, moved: Traffic, bytes_per_cycle: Fraction) -> int:
    transferring = max(moved.read, moved.written) // bytes_per_cycle
    buffers = {key: buffer for demand in demands for key, buffer in demand.buffers.items()}
    if not all(buffer.doubled for buffer in buffers.values()):
        return computing + transferring
    # Nothing computes while the first box comes and the last one leaves.
    ends = sum(buffer.size_bytes for buffer in buffers.values()) // bytes_per_cycle
    return max(computing, transferring) + ends


def is_bus_free(demands: Iterable[Demand], config: Config, speed: MemorySpeed) -> bool:
    """Whether the bus brings all that is read in less time than the layers compute: it can bring more instructions."""
    read, computing, weights = 0, 0, dict[Hashable, int]()
    for demand in demands:
        read, computing = read + demand.moved.read, computing + demand.computing_cycles
        if demand.weights is not None:
            weights[demand.weights.name] = demand.weights.fetched_bytes
    return (read + sum(weights.values())) / speed.bytes_per_cycle(config) < computing


@dataclasses.dataclass(frozen=True)
class DrainDemand:
    """A convolution of few pixels, and what follows it."""

    pixels: int
    tiles: int
    """Tiles of output channels."""
    depth: int
    """Products for each sum."""
    beats: tuple[int, ...]
    """Cycles of VECTOR for a vector, of each micro-operation."""
    parameters: bool
    """VECTOR takes parameters for each tile."""
    weights_stay: bool
    """The weights are there: other convolutions read them, too, as the steps of a recurrence do."""

    def together_cycles(self, config: Config) -> int:
        """Cycles where all is done on the sums' way out of the array. Without parameters, vectors of several tiles are
        a batch."""
        if not self.parameters:
            vectors = self.tiles * self.pixels
            batch = batch_cycles(self.beats, min(vectors, config.vector_slots), config)
            before = (-(-vectors // config.vector_slots) - 1) * batch
            return max(self.tiles * self._array(config), before) + batch
        return self.tiles * max(
            self._array(config), self._parameters + batch_cycles(self.beats, self.pixels, config)
        )

    def apart_cycles(self, config: Config) -> int:
        """Cycles where the sums are stored, and the rest is a layer of its own, which works on all tiles at once."""
        vectors = self.tiles * self.pixels
        stored = self._parameters + batch_cycles((Element.INT32.bytes,), self.pixels, config)
        total = self.tiles * max(self._array(config), stored) + LAYER_TURN_CYCLES
        batches = -(-vectors // config.vector_slots)
        return total + batches * batch_cycles(self.beats, min(vectors, config.vector_slots), config)

    @property
    def _parameters(self) -> int:
        return TILE_PARAMETER_CYCLES * self.parameters

    def _array(self, config: Config) -> int:
        """Cycles of a tile of channels. Weights that come are one word per cycle, and each is used for few pixels."""
        steps = -(-self.depth // config.columns)
        if self.weights_stay:
            return dense_cycles(steps, self.pixels, config)
        return full_rows_cycles(steps, 1, config)


def summed_rows_pay(height: int, width: int, depth: int, beats: Sequence[int], config: Config) -> bool:
    """Whether VECTOR saves more cycles than it keeps the array waiting where it adds up the rows of an image, of
    `height` times `width` pixels, on their way out of the array. `depth`: products for each sum."""
    pixels = height * width
    draining = height * batch_cycles(beats, width, config)
    array = full_rows_cycles(-(-depth // config.columns), pixels, config)
    saved = pixels - width * Element.INT32.bytes
    return saved > max(0, draining - array)
