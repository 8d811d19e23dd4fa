"""Boxes of a stored tensor as runs of bytes."""

import dataclasses
import math


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
        """The place after the last byte in the tensor."""
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
