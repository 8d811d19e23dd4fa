"""Per-channel parameters on their way to the vector unit."""

import dataclasses

from tosaic.compiler.emit.operands import PARAMETERS, Operands
from tosaic.compiler.place.params import ParamBlock


@dataclasses.dataclass
class PlacedParams:
    """A layer's parameters in activation memory: all of them, or those of some neighbouring tiles at a time."""

    block: ParamBlock
    address: int
    """AM address of the parameters of tile 0 (perhaps not there), when they are resident or brought in."""
    constant_address: int | None = None
    """Where they lie in external memory, when they are brought in piece by piece."""
    _here: tuple[int, int] | None = None

    def bring(self, operands: Operands, first: int, tiles: int) -> None:
        """Makes sure that the parameters of tiles [first, first + tiles) are there."""
        if self.constant_address is None or not self.block.tile_bytes or self._here == (first, tiles):
            return
        start, size = first * self.block.tile_bytes, tiles * self.block.tile_bytes
        self.address = operands.constant(PARAMETERS, self.constant_address + start, size) - start
        self._here = (first, tiles)

    def of(self, tile: int) -> tuple[int, bool, bool] | None:
        """(AM address, biases, multipliers and shifts) for Emitter.vector."""
        if not self.block.tile_bytes:
            return None
        return self.address + tile * self.block.tile_bytes, self.block.bias, self.block.scale
