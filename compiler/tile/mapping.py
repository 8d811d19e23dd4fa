"""A mapping of CONV2D, DEPTHWISE_CONV2D or MATMUL to the array, and how the files of `mappings/` offer some."""

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np

from tosaic.compiler.cost.array import full_rows_cycles
from tosaic.compiler.cost.transfers import runs_cycles
from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.place.geometry import Window
from tosaic.compiler.place.weights import StoredWeights, WeightLayout
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class Mapping:
    """What the array slides over, and with which weights."""

    window: Window
    layout: WeightLayout
    pixels: int = 1
    """Neighbouring pixels that share vectors."""
    packed: tuple[str, Callable[[], np.ndarray]] | None = None
    """The name of weights that `layout` reads in place of the operator's, and what makes them."""
    strips: bool = False
    """Whether the image, which is outside, comes in strips (`im2col.py`)."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """A convolution that mappings are offered for."""

    graph: Graph
    config: Config
    operator: Operator
    window: Window
    stored: StoredWeights | None = None
    """What a MATMUL reads in place of its weight operand."""
    outside: bool = False
    """Whether the image is in external memory and boxes may fetch parts of it."""
    speed: MemorySpeed = FULL_SPEED

    @property
    def weight_zp(self) -> int:
        return zero_points(self.graph, self.operator)[1]

    @property
    def following_cycles(self) -> int:
        """Cycles of the bus for the constant weights of the array's next operator, which come behind the image."""
        return runs_cycles(self._following_bytes(), 0, self.config, self.speed)

    def _following_bytes(self) -> int:
        place = next(number for number, other in enumerate(self.graph.operators) if other is self.operator)
        for other in self.graph.operators[place + 1 :]:
            if KIND.get(other.op) is Kind.ARRAY:
                weight = self.graph.tensors[other.inputs[1]]
                return weight.data.size if weight.data is not None else 0
        return 0

    @property
    def image_cycles(self) -> int:
        """Cycles of the bus for an image that comes as it lies; 0 where it does not come meanwhile."""
        w = self.window
        size = math.prod((w.n, w.view.image_bytes)) if self.outside else 0
        return runs_cycles(size, 0, self.config, self.speed)


@dataclasses.dataclass(frozen=True)
class Offer:
    """A mapping that can be made."""

    array_cycles: float
    """Predicted cycles of the array, with what it waits for in this mapping alone."""
    image_cycles: int
    """Cycles in which the image comes: the weights of the next layer come behind it."""
    make: Callable[[], Mapping]

    def cost(self, following_cycles: int) -> tuple[float, float]:
        """What is least for the best mapping: the cycles of the layer, and again those until other weights, of
        `following_cycles`, have come, too. The array decides where the bus is what all wait for."""
        alone, then = (max(self.array_cycles, self.image_cycles + late) for late in (0, following_cycles))
        return alone + then, self.array_cycles


OFFERS: list[Callable[[Asked], Iterator[Offer]]] = []
"""What the files of `mappings/` register."""


def offers(function: Callable[[Asked], Iterator[Offer]]) -> Callable[[Asked], Iterator[Offer]]:
    """Registers what yields the mappings of some kind that a convolution can have."""
    OFFERS.append(function)
    return function


def zero_points(graph: Graph, operator: Operator) -> tuple[int, int]:
    """Returns the zero points of the image and of the weights."""
    names = ("A_zp", "B_zp") if operator.op == "MATMUL" else ("input_zp", "weight_zp")
    image, weight = (int(graph.operand_value(operator, name).reshape(-1)[0]) for name in names)
    return image, weight


def on_array(window: Window, layout: WeightLayout, config: Config, pixels: int) -> int:
    """Cycles of the array for all tiles of `pixels` pixels of output, in a row or in several."""
    chunks = sum(blob.chunks or layout.chunks for blob in layout.blobs)
    return full_rows_cycles(window.kh * layout.run_count * chunks, pixels, config)
