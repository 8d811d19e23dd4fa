"""An image in external memory of which a strip comes for each output column: see `im2col.py`."""

from collections.abc import Iterator

from tosaic.compiler.machine_numbers import IM2COL_BUFFERS
from tosaic.compiler.place.weights import weight_layout
from tosaic.compiler.tile.im2col import Strips, fits_fields, im2col_window
from tosaic.compiler.tile.mapping import Asked, Mapping, Offer, offers


@offers
def strips(asked: Asked) -> Iterator[Offer]:
    """For a CONV2D whose boxes fetch their own part of the image."""
    config, window = asked.config, asked.window
    if not asked.outside or asked.operator.op != "CONV2D" or not fits_fields(window, config):
        return
    shape = im2col_window(window, window.ih, 1)
    layout = weight_layout(asked.graph, asked.operator, shape, config.columns, asked.weight_zp, config)
    found = Strips(window, layout, config, asked.speed)
    columns, first = min(
        found.widths(),
        key=lambda each: found.times(window.oh, each[0], each[1], IM2COL_BUFFERS, layout.bytes),
    )
    # Weights come in every mapping.
    cycles, loading = found.times(window.oh, columns, first, IM2COL_BUFFERS, 0)
    yield Offer(cycles, loading, lambda: Mapping(window, layout, strips=True))
