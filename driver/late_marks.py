"""Layer marks that are read from a machine when somebody looks at them."""

from collections.abc import Callable, Sequence
from typing import Any, overload

from tosaic.errors import DeviceError

Mark = tuple[int, int]


class LateMarks(Sequence[Mark]):
    """(layer, cycle) of each mark of a run on a device, which are read when they are first looked at.

    Each costs two accesses of registers, and most runs are not asked for them. Their device settles them before they
    are lost. DeviceError for whoever looks at marks that could not be read.
    """

    def __init__(self, read: Callable[["LateMarks"], None]):
        self._read = read
        self._marks: list[Mark] | DeviceError | None = None

    def settle(self, read: Callable[[], list[Mark]]) -> None:
        """Take what `read` gives, or the DeviceError that it raises, which goes on."""
        try:
            self._marks = read()
        except DeviceError as error:
            self._marks = error
            raise

    def _list(self) -> list[Mark]:
        if self._marks is None:
            self._read(self)
        if isinstance(self._marks, DeviceError):
            raise self._marks
        assert self._marks is not None
        return self._marks

    def __len__(self) -> int:
        return len(self._list())

    @overload
    def __getitem__(self, index: int) -> Mark: ...

    @overload
    def __getitem__(self, index: slice) -> list[Mark]: ...

    def __getitem__(self, index: int | slice) -> Mark | list[Mark]:
        return self._list()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._list() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._list())

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self._list()),)
