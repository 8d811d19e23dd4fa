"""Windows over images: which input rows an output row needs, and the bytes between things."""

import dataclasses
import functools
import math

from tosaic.compiler.cut.rules import windows_of
from tosaic.compiler.cut.window_axis import WindowAxis
from tosaic.compiler.ir import Graph, Operator


@dataclasses.dataclass(frozen=True)
class View:
    """An image [N, H, W, C] inside a stored tensor: a whole tensor, or a SLICE of one in H and W."""

    storage: str
    offset: int
    """Bytes from the start of the storage to the first pixel."""
    pitch: int
    """Bytes from image row to image row."""
    image_bytes: int
    """Bytes from image to image of the batch."""


@dataclasses.dataclass(frozen=True)
class Window:
    """Sizes of a windowed operator (convolution or pool); strides and steps in pixels."""

    n: int
    ih: int
    iw: int
    ic: int
    oh: int
    ow: int
    kh: int
    kw: int
    sy: int
    sx: int
    dy: int
    dx: int
    top: int
    left: int
    view: View

    def without_name(self) -> "Window":
        """The same window over an image without a name: equal for layers that differ in names only."""
        return dataclasses.replace(self, view=dataclasses.replace(self.view, storage=""))

    @functools.cached_property
    def row_axis(self) -> WindowAxis:
        """How the kernel's rows slide over those of the image."""
        return WindowAxis(self.ih, self.oh, self.kh, self.top, self.sy, self.dy)

    @functools.cached_property
    def column_axis(self) -> WindowAxis:
        """How the kernel's columns slide over those of the image."""
        return WindowAxis(self.iw, self.ow, self.kw, self.left, self.sx, self.dx)

    @property
    def reach_rows(self) -> int:
        """Image rows from the first to the last kernel row."""
        return self.row_axis.reach()

    @property
    def reach_columns(self) -> int:
        """Pixels from the first to the last kernel column."""
        return self.column_axis.reach()

    def input_rows(self, oy0: int, oy1: int) -> tuple[int, int]:
        """Input rows [lo, hi) inside the image that output rows [oy0, oy1) need."""
        return self.row_axis.needs((oy0, oy1))

    def input_columns(self, ox0: int, ox1: int) -> tuple[int, int]:
        """Returns input columns [lo, hi) inside the image that output columns [ox0, ox1) need."""
        return self.column_axis.needs((ox0, ox1))

    @property
    def dense(self) -> bool:
        """Image rows follow each other without gaps, and images too."""
        return self.view.pitch == self.iw * self.ic and self.view.image_bytes == self.ih * self.view.pitch

    @property
    def pixelwise(self) -> bool:
        """Each output pixel is made of the input pixel at the same place."""
        same = (self.n, self.kh, self.kw, self.sy, self.sx, self.top, self.left) == (1, 1, 1, 1, 1, 0, 0)
        return same and (self.oh, self.ow) == (self.ih, self.iw)

    @property
    def columns_apart(self) -> bool:
        """All image rows make a single row of output, of which no two columns read the same."""
        one_row = self.oh == 1 and self.ih > 1 and self.ow > 1
        return one_row and self.left == 0 and self.reach_columns <= self.sx

    def in_rows_of(self, most: int) -> "Window":
        """A pixelwise window in rows of at most `most` pixels, a power of two; others, and sparse ones, as they are."""
        width = math.gcd(self.oh * self.ow, most)
        if not (self.dense and self.pixelwise):
            return self
        rows, pitch = self.oh * self.ow // width, width * self.ic
        view = dataclasses.replace(self.view, pitch=pitch)
        return dataclasses.replace(self, ih=rows, iw=width, oh=rows, ow=width, view=view)

    def simplified(self) -> "Window":
        """The same work with fewer, longer rows where the layout allows it."""
        if not self.dense:
            return self
        if (self.kh, self.kw, self.sy, self.sx, self.top, self.left) == (1, 1, 1, 1, 0, 0):
            if (self.oh, self.ow) == (self.ih, self.iw):
                rows = self.n * self.ih
                view = dataclasses.replace(self.view, image_bytes=rows * self.view.pitch)
                return dataclasses.replace(self, n=1, ih=rows, oh=rows, view=view)
        if self.iw == 1 and self.kw == 1 and self.left == 0 and self.ow == 1:
            view = dataclasses.replace(self.view, pitch=self.view.image_bytes)
            return dataclasses.replace(
                self,
                ih=1, iw=self.ih, oh=1, ow=self.oh, kh=1, kw=self.kh, sy=1, sx=self.sy, dy=1, dx=self.dy,
                top=0, left=self.top, view=view,
            )  # fmt: skip
        return self


def window_of(graph: Graph, operator: Operator, view: View) -> Window:
    """The window of a convolution, depthwise convolution, matrix product or pool."""
    if operator.op == "MATMUL":
        # Each row of A is a pixel, in an image one pixel wide.
        (n, h, c), zero = graph.tensors[operator.inputs[0]].shape, (0, 0)
        return Window(n, h, 1, c, h, 1, 1, 1, 1, 1, 1, 1, *zero, view)
    n, *_, ic = graph.tensors[operator.inputs[0]].shape
    y, x = windows_of(graph, operator)
    return Window(
        n, y.extent, x.extent, ic, y.outputs, x.outputs, y.taps, x.taps,
        y.stride, x.stride, y.dilation, x.dilation, y.pad, x.pad, view,
    )  # fmt: skip
