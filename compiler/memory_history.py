"""Which bytes of the activation memory held what during which layers, for reports."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class MemoryBlock:
    """Bytes [address, address + bytes) held `name` during layers first_layer to last_layer, both included."""

    name: str
    address: int
    bytes: int
    first_layer: int
    last_layer: int


class MemoryHistory:
    """Notes at the end of every layer which blocks have changed, and joins what stays."""

    def __init__(self) -> None:
        self._ended: list[MemoryBlock] = []
        self._current: dict[int, tuple[int, str, int]] = {}
        """Start -> (end, name, first layer)."""
        self._layers = 0

    def note(self, changed: Mapping[int, tuple[int, str] | None]) -> None:
        """The blocks of the next layer where they may differ from those before: start -> (end, name), None where no
        block begins any more."""
        for start, block in changed.items():
            before = self._current.get(start)
            if before is not None and before[:2] == block:
                continue
            if before is not None:
                self._ended.append(self._block(start))
                del self._current[start]
            if block is not None:
                self._current[start] = (*block, self._layers)
        self._layers += 1

    def blocks(self) -> list[MemoryBlock]:
        """All blocks so far."""
        return [*self._ended, *map(self._block, self._current)]

    def _block(self, start: int) -> MemoryBlock:
        end, name, first = self._current[start]
        return MemoryBlock(name, start, end - start, first, self._layers - 1)
