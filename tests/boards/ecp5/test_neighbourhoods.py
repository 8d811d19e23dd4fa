"""Where cells are expected, between those that have a place, and how places are parted."""

import random

import numpy as np
import pytest

from tosaic.boards.ecp5.neighbourhoods import neighbourhoods, places
from tosaic.boards.ecp5.wires import Wires


def cell(inputs: list[int], output: int, site: str | None = None) -> dict:
    return {
        "attributes": {"BEL": site} if site else {},
        "port_directions": {"A": "input", "Z": "output"},
        "connections": {"A": inputs, "Z": [output]},
    }


def test_a_cell_is_expected_in_the_middle_of_what_it_is_connected_with():
    cells = {
        "left": cell([], 1, "X10/Y20/EBR0"),
        "right": cell([2], 3, "X40/Y50/EBR1"),
        "between": cell([1], 2),
        "alone": cell([], 4),
    }
    at = places(cells, Wires(cells))
    assert at["left"].tolist() == [10, 20] and at["right"].tolist() == [40, 50]
    assert at["between"] == pytest.approx([25, 35])
    assert at["alone"] == pytest.approx([25, 35])


def test_neighbourhoods_part_what_lies_far_apart():
    at = np.array([(0, 0), (50, 0), (10, 0), (60, 1), (0, 40)])
    parts = sorted(sorted(part.tolist()) for part in neighbourhoods(at, 5, span=20))
    assert parts == [[0, 2], [1, 3], [4]]


def test_neighbourhoods_part_the_longer_side():
    dice = random.Random(1)
    at = np.array([(dice.randrange(100), dice.randrange(10)) for _ in range(64)])
    parts = neighbourhoods(at, 16)
    assert sorted(np.concatenate(parts).tolist()) == list(range(64))
    assert [len(part) for part in parts] == [16] * 4
    spans = sorted((at[part, 0].min(), at[part, 0].max()) for part in parts)
    assert all(left[1] <= right[0] for left, right in zip(spans, spans[1:], strict=False))
