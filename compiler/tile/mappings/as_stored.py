"""The image as it is stored, and a tile of weights for each `columns` output channels."""

from collections.abc import Iterator

from tosaic.compiler.place.weights import weight_layout
from tosaic.compiler.tile.mapping import Asked, Mapping, Offer, offers, on_array


@offers
def as_stored(asked: Asked) -> Iterator[Offer]:
    """Offers operands as they are stored, for every operator."""
    config, operator, window = asked.config, asked.operator, asked.window
    if operator.op != "MATMUL":
        window = window.simplified()
    layout = weight_layout(
        asked.graph, operator, window, config.columns, asked.weight_zp, config, asked.stored
    )
    cycles = on_array(window, layout, config, window.n * window.oh * window.ow)
    yield Offer(cycles, asked.image_cycles, lambda: Mapping(window, layout))
