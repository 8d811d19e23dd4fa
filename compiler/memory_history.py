"""Which bytes of the activation memory held what during which layers, for reports."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class MemoryBlock:
    """Bytes [address, address + bytes) held `name` during layers first_layer to last_layer, both included."""

    name: str
    address: int
    bytes: int
    first_layer: int
    last_layer: int


class MemoryHistory:
    """Notes the allocated blocks at the end of every layer and joins what stays."""

    def __init__(self) -> None:
        self._ended: list[MemoryBlock] = []
        self._current: dict[tuple[str, int, int], MemoryBlock] = {}
        self._layers = 0

    def note(self, blocks: dict[tuple[int, int], str]) -> None:
        """The blocks of the next layer: (start, end) -> name."""
        current = {}
        for (start, end), name in blocks.items():
            before = self._current.pop((name, start, end), None)
            first = before.first_layer if before else self._layers
            current[name, start, end] = MemoryBlock(name, start, end - start, first, self._layers)
        self._ended += self._current.values()
        self._current = current
        self._layers += 1

    def blocks(self) -> list[MemoryBlock]:
        """All blocks so far."""
        return [*self._ended, *self._current.values()]
