"""The image of a program, whole or in parts that are made when somebody wants them."""

import io
from collections.abc import Callable, Iterable, Iterator


class ImageParts:
    """The bytes of an image, one part after the other. A part that is made of weights takes memory only while it is
    looked at."""

    def __init__(self, size_bytes: int, make: Callable[[], Iterable[bytes | memoryview]]) -> None:
        self._size_bytes, self._make = size_bytes, make

    def __len__(self) -> int:
        return self._size_bytes

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return iter(self._make())

    def whole(self) -> bytes:
        """All parts in one piece."""
        found = io.BytesIO()
        for part in self:
            found.write(part)
        return found.getvalue()


class ImageField:
    """The field `image` of a program: whoever asks gets one piece, which from then on takes the place of parts."""

    def __get__(self, program: object | None, owner: type) -> "bytes | ImageField":
        if program is None:
            return self
        held = vars(program)["image"]
        if isinstance(held, ImageParts):
            held = vars(program)["image"] = held.whole()
        return held

    def __set__(self, program: object, value: bytes) -> None:
        vars(program)["image"] = value
