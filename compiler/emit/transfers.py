"""Boxes of a stored tensor as rows of bytes that LOAD and STORE copy."""

import dataclasses
import itertools
import math

from tosaic.compiler.emit.emitter import Rows

_MAX_ROWS = (1 << 16) - 1


@dataclasses.dataclass(frozen=True)
class StoredBox:
    """Bytes of a tensor: `run` contiguous ones, repeated along `dims` (count, bytes from one to the next), slowest
    first. In activation memory they lie one after the other."""

    start: int
    dims: tuple[tuple[int, int], ...]
    run: int

    @property
    def bytes(self) -> int:
        return self.run * math.prod(count for count, _ in self.dims)

    @property
    def end(self) -> int:
        """Behind the last byte in the tensor."""
        return self.start + self.run + sum((count - 1) * stride for count, stride in self.dims)

    def merged(self) -> "StoredBox":
        """The same bytes with as long runs and as few dimensions as possible."""
        dims: list[tuple[int, int]] = []
        run = self.run
        for count, stride in reversed(self.dims):
            if count == 1:
                continue
            if not dims and stride == run:
                run *= count
            elif dims and stride == dims[-1][0] * dims[-1][1]:
                dims[-1] = (dims[-1][0] * count, dims[-1][1])
            else:
                dims.append((count, stride))
        return StoredBox(self.start, tuple(reversed(dims)), run)

    def rows(self, tensor_address: int, am_address: int) -> list[Rows]:
        """The copies between the tensor and a dense buffer."""
        box = self.merged()
        *outer, (rows, pitch) = box.dims or ((1, 0),)
        found, place = [], am_address
        for turn in itertools.product(*(range(count) for count, _ in outer)):
            memory = tensor_address + box.start
            memory += sum(i * stride for i, (_, stride) in zip(turn, outer, strict=True))
            for row in range(0, rows, _MAX_ROWS):
                count = min(_MAX_ROWS, rows - row)
                found.append(Rows(memory + row * pitch, pitch, place, box.run, box.run, count))
                place += count * box.run
        return found
