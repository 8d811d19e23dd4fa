"""External memory: a window of bytes for each sample of a batch."""

import numpy as np

from .domain import BYTES, Domain


class ExternalBytes:
    """What LOAD reads and STORE writes, for one sample or for many that the same program is executed on.

    The first bytes of all windows, a program's image, may be the same; they are kept once until a STORE changes them.
    """

    def __init__(self, windows: np.ndarray, common: np.ndarray | None = None, domain: Domain = BYTES):
        """`windows` uint8 [samples, bytes] is what follows `common` (uint8 [bytes], not changed) in each window; cells
        in place of uint8 where the `domain` has others."""
        self.domain = domain
        self._windows = windows
        self._common = np.zeros(0, domain.cell) if common is None else common

    @classmethod
    def of(cls, window: np.ndarray) -> "ExternalBytes":
        """The memory of a single sample: uint8 [bytes], changed in place."""
        return cls(window[None])

    @property
    def samples(self) -> int:
        return len(self._windows)

    def __len__(self) -> int:
        """Bytes of each window."""
        return len(self._common) + self._windows.shape[1]

    def window(self) -> np.ndarray:
        """Returns a view [samples, bytes] of the windows."""
        self._separate()
        return self._windows

    def read(self, address: int, count: int) -> np.ndarray:
        """uint8 [samples, count], or [1, count] of bytes that are the same for all."""
        return self.read_rows(np.array([address]), count)[:, 0]

    def write(self, address: int, data: np.ndarray) -> None:
        """Place uint8 [samples, count]."""
        self.write_rows(np.array([address]), data[:, None])

    def read_rows(self, rows: np.ndarray, row_bytes: int) -> np.ndarray:
        """uint8 [samples, n, row_bytes] of rows that begin at the addresses `rows` [n]; [1, n, row_bytes] of bytes
        that are the same for all samples."""
        if not len(self._common) or rows.min() >= len(self._common):
            return _rows(self._windows, rows - len(self._common), row_bytes)
        if rows.max() + row_bytes <= len(self._common):
            return _rows(self._common[None], rows, row_bytes)
        self._separate()
        return _rows(self._windows, rows, row_bytes)

    def write_rows(self, rows: np.ndarray, data: np.ndarray) -> None:
        """The reverse of `read_rows`; where rows overlap, the later one stays."""
        if rows.min() < len(self._common):
            self._separate()
        row_bytes = data.shape[-1]
        for start, row in zip((rows - len(self._common)).tolist(), data.swapaxes(0, 1), strict=True):
            self._windows[:, start : start + row_bytes] = row

    def _separate(self) -> None:
        """Gives each sample a window of its own, from now on."""
        if not len(self._common):
            return
        common = np.broadcast_to(self._common, (self.samples, len(self._common)))
        self._windows = np.concatenate([common, self._windows], axis=1)
        self._common = self._common[:0]


def _rows(windows: np.ndarray, rows: np.ndarray, row_bytes: int) -> np.ndarray:
    """Rows of all windows; a view where one step leads from each to the next."""
    if len(rows) == 1:
        return windows[:, None, rows[0] : rows[0] + row_bytes]
    steps = np.diff(rows)
    if len(steps) and (steps != steps[0]).any():
        return np.lib.stride_tricks.sliding_window_view(windows, row_bytes, axis=1)[:, rows]
    step, (pitch, cell) = int(steps[0]) if len(steps) else 0, windows.strides
    return np.lib.stride_tricks.as_strided(
        windows[:, rows[0] :],
        (len(windows), len(rows), row_bytes),
        (pitch, cell * step, cell),
        writeable=False,
    )
