"""What an array holds: values that are known, or tensors of the graph in one form or another."""

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.numpy_in.intervals import Interval

NARROW = {
    np.dtype(np.int8): DType.INT8,
    np.dtype(np.uint8): DType.INT8,
    np.dtype(np.int16): DType.INT16,
    np.dtype(np.uint16): DType.INT16,
}
"""Types whose bits a tensor of 8 or 16 bits holds."""
BOOL, UINT32, INT64 = np.dtype(bool), np.dtype(np.uint32), np.dtype(np.int64)
INTEGERS = frozenset(np.dtype(t) for t in ("bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"))
MAX_RANK = 6


class Form(enum.Enum):
    """What a tensor of a traced array holds."""

    WIDE = "int32: the value; of uint32 its bits"
    NARROW = "int8 or int16: the bits of a type of 8 or 16 bits"
    BOOL = "bool"
    SIGNED_BYTE = "int8: the value, of a wider type"
    UNSIGNED_BYTE = "int8: the bits of a value of 0..255, of a wider type"
    LOW = "int32: the low word of a value of 64 bits"
    HIGH = "int32: the high word"


BYTES = (Form.SIGNED_BYTE, Form.UNSIGNED_BYTE)


class Content:
    """An array's values at a moment: never changed, but for further tensors of the same values."""

    def __init__(
        self,
        interval: Interval,
        value: np.ndarray | None = None,
        forms: dict[Form, str] | None = None,
        product: tuple[Any, Any, int] | None = None,
    ) -> None:
        self.interval, self.value, self.forms = interval, value, forms or {}
        self.product = product
        """Of 64 bits: first * second + addend, from which the words are made when they are asked for."""


class ArrayView:
    """How an array follows, and writes to, the array that it is a view of: `read` makes it anew out of the base,
    `write` changes the base. `key` tells views of a base apart."""

    def __init__(
        self, base: Any, key: tuple[Any, ...], read: Callable[[Any], Any], write: Callable[[Any, Any], None]
    ) -> None:
        self.base, self.key, self.read, self.write = base, key, read, write
        self.seen = base.version

    def is_of(self, base: Any, key: tuple[Any, ...]) -> bool:
        """Whether it is the view `key` of `base`, and nothing was written to that since."""
        if self.base is not base or self.seen != base.version or len(self.key) != len(key):
            return False
        return all(
            a is b or _is_plain(a) and _is_plain(b) and a == b for a, b in zip(self.key, key, strict=True)
        )


def _is_plain(part: Any) -> bool:
    """Whether a part of an index is compared by ==: arrays are not."""
    return not hasattr(part, "shape") or isinstance(part, np.generic)
