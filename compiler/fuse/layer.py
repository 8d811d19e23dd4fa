"""What the fuse stage makes: operators that run as one pass of the machine."""

import dataclasses

import numpy as np

from tosaic.compiler.fuse.microprogram import MicroProgram
from tosaic.compiler.fuse.reduced_axis import ReducedAxis
from tosaic.compiler.fuse.translate import PerChannel, RunTimeScales
from tosaic.compiler.ir import Operator
from tosaic.hw.config import Config
from tosaic.hw.isa import Element


@dataclasses.dataclass
class Layer:
    """Operators that run as one pass; `base` is the convolution, pool or reduction at its start, if any."""

    operators: list[Operator]
    base: Operator | None
    root: Operator
    program: MicroProgram
    per_channel: PerChannel | RunTimeScales | None
    table: str | None
    bias: np.ndarray | None = None
    """What a layer without array adds along the last axis, if the lanes' biases do that."""
    reduction: ReducedAxis | None = None
    """What is reduced, if the base is a reduction or ARGMAX."""
    lines: dict[int, np.ndarray] = dataclasses.field(default_factory=dict)
    """Constants after an array operator that differ along the channels only, [channels], by load stream. They
    are in memory for the time of the layer, in elements of the stream's type.
    """
    continued: MicroProgram | None = None
    """The micro-program of a convolution whose rows of pixels are added up on their way out of the array: as
    `program`, but it goes on from the sums that are there. None where pixels are stored one by one.
    """

    by_rows: MicroProgram | None = None
    """The same as `program` for batches of rows, if that takes fewer cycles where there are many rows."""

    by_channels: MicroProgram | None = None
    """The same as `program` for the pixels of a group of channels, if that takes fewer cycles where there are many."""

    def drain_beats(self, stored: Element, pixels: int, config: Config) -> int:
        """Cycles of VECTOR for a vector of a convolution of `pixels` pixels."""
        if self.by_channels is None or pixels < 2 * config.vector_slots:
            return self.program.beats(stored)
        return sum(self.by_channels.held_beats(stored)[1])

    @property
    def output(self) -> str:
        return self.root.outputs[0]

    @property
    def sources(self) -> str:
        """The operators of the imported model that the layer computes, as people are shown them; "" if unknown."""
        names = list(dict.fromkeys(operator.source for operator in self.operators if operator.source))
        return names[0] if len(names) == 1 else " … ".join(names[:1] + names[-1:])
