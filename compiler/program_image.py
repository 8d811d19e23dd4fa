"""The image of a program, whole or in parts that are made when somebody wants them."""

import io
from collections.abc import Callable, Iterable, Iterator
from typing import overload


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
    """The field `image` of a program: it may be set to parts, and gives one piece, which from then on takes their
    place."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, program: None, owner: type) -> "ImageField": ...

    @overload
    def __get__(self, program: object, owner: type) -> bytes: ...

    def __get__(self, program: object | None, owner: type) -> "bytes | ImageField":
        if program is None:
            raise AttributeError(self._name)  # the field has no default
        held = vars(program)[self._name]
        if isinstance(held, ImageParts):
            held = vars(program)[self._name] = held.whole()
        return held

    def __set__(self, program: object, value: "bytes | ImageParts") -> None:
        vars(program)[self._name] = value
