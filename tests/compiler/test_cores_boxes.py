"""How results are cut over cores, and where boxes of them lie."""

from tosaic.compiler.cores.grids import Grid, box_of, grids
from tosaic.compiler.cores.share_plan import Place, place_of
from tosaic.compiler.cut.boxes import NotCut, leading_axis
from tosaic.compiler.place.placement import RowsApart


def test_grids():
    assert list(grids(4)) == [Grid(4, 1), Grid(2, 2), Grid(1, 4), Grid(1, 1)]
    assert leading_axis((1, 7, 7, 64)) == 1
    parts = [box_of((1, 7, 7, 40), Grid(2, 2), core, 16) for core in range(4)]
    assert [(part[1], part[3]) for part in parts] == [
        ((0, 4), (0, 32)),
        ((0, 4), (32, 40)),
        ((4, 7), (0, 32)),
        ((4, 7), (32, 40)),
    ]
    assert [box_of((1, 2, 4), Grid(4, 1), core, 16) is None for core in range(4)] == [
        False,
        False,
        True,
        True,
    ]


def test_places():
    assert place_of((1, 4, 6, 8), ((0, 1), (1, 3), (0, 6), (0, 8)), 2) == Place(96, 192, None)
    apart = Place(52, 11 * 8 + 2, RowsApart(2, 8))
    assert place_of((1, 4, 6, 8), ((0, 1), (1, 3), (0, 6), (4, 6)), 1) == apart
    assert place_of((2, 4, 6, 8), ((0, 1), (1, 3), (0, 6), (0, 8)), 1) == NotCut(
        "a box that is cut along an axis in the middle lies in too many pieces"
    )
