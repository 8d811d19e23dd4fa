"""Mappings of a convolution to the array: files offer them, and the fewest predicted cycles win."""

import dataclasses
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.compiler.place.geometry import View, window_of
from tosaic.compiler.tile import mapping, mappings
from tosaic.compiler.tile.mapping import Asked, Offer
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

BASE = get_config("base")


def asked(
    channels: int = 16, depth: int = 16, kernel: tuple[int, int] = (3, 3), outside: bool = False
) -> Asked:
    """A convolution of an image of 16 by 16 pixels."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 16, 16, depth), DType.INT8)
    build.output(build.conv(x, channels, kernel, pad=(kernel[0] // 2,) * 2 + (kernel[1] // 2,) * 2))
    operator = build.graph.operators[0]
    view = View("x", 0, 16 * depth, 256 * depth)
    return Asked(build.graph, BASE, operator, window_of(build.graph, operator, view), outside=outside)


def offered(question: Asked) -> list[Offer]:
    return [offer for function in mapping.OFFERS for offer in function(question)]


def test_every_file_offers() -> None:
    files = {path.stem for path in pathlib.Path(mappings.__file__).parent.glob("*.py")} - {"__init__"}
    assert {function.__module__.rpartition(".")[2] for function in mapping.OFFERS} == files


@pytest.mark.parametrize(
    "question, pixels, strips",
    [
        (dict(), 1, False),
        # 4 channels of 16: four pixels share a vector.
        (dict(channels=4, kernel=(1, 1), depth=4), 4, False),
        # 9 bytes under a kernel row: strips of 27, if the image comes from outside.
        (dict(depth=3, outside=True), 1, True),
        (dict(depth=3), 1, False),
    ],
)
def test_the_fewest_cycles(question: dict, pixels: int, strips: bool) -> None:
    found = mappings.choose(asked(**question))
    assert (found.pixels, found.strips) == (pixels, strips)


def test_the_bus_decides_where_all_wait_for_it() -> None:
    """An image that takes longer to come than any mapping to compute: the cycles of the array decide between them."""
    question = asked(depth=64, outside=True)
    slow = dataclasses.replace(question, speed=dataclasses.replace(question.speed, bandwidth_bytes=0.25))
    following = slow.following_cycles
    costs = [offer.cost(following) for offer in offered(slow)]
    assert all(cost >= 2 * 16384 * 4 for cost, _ in costs)
    found = mappings.choose(slow)
    best = min(offered(slow), key=lambda offer: offer.cost(following)).make()
    assert (found.pixels, found.strips) == (best.pixels, best.strips)


def test_a_new_mapping_is_one_function() -> None:
    """What a new file would register is asked like the others, and wins where it takes fewer cycles."""
    question = asked()
    plain = mappings.choose(question)
    new = dataclasses.replace(plain, strips=True)

    @mapping.offers
    def better(_: Asked) -> Iterator[Offer]:
        yield Offer(1, 0, lambda: new)

    try:
        assert mappings.choose(question) is new
    finally:
        mapping.OFFERS.remove(better)
    assert not mappings.choose(question).strips


def test_a_very_high_image_in_strips() -> None:
    """Only a few of its rows fit at a time, and not even the lowest of the four heights that are compared."""
    build = LayerBuilder(3)
    x = build.input("x", (1, 30000, 3, 1), DType.INT8)
    build.output(build.conv(x, 5, (3, 1), stride=(1, 2), pad=(1, 1, 1, 1)))
    graph = build.finish()
    values = np.random.default_rng(1).integers(-128, 128, (1, 30000, 3, 1)).astype(np.int8)
    for config in ("nano", "small"):
        Session(graph, "emulator", config).run({"x": values}, check=True)
